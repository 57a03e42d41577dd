//! The command line of `cargo xtask`: words in, a `Task` out.
//!
//! Not here: the tasks themselves. Unknown words are errors that list the known ones.

use anyhow::{Result, bail};
use lexopt::prelude::*;

use crate::exporters::Models;

/// The output of `cargo xtask help`.
pub(crate) const HELP: &str = "\
Kiln's project tasks

usage: cargo xtask <task>

  setup [--cuda]                install what the build needs (does nothing if all of it is installed); with --cuda, also
                                NVIDIA's compiler and disassembler, into cuda/, for tests of the code generated for GPUs
  models                        fetch the pinned example models into models/
  build [--release] [--no-llvm] build every crate and the `kiln` command
  demo                          set up, fetch the models, build, and read text from an image
  test [--cuda]                 run everything a change must pass: format, lints, tests, docs, tidy; with --cuda, test
                                only the code for GPUs: all kernels are executed on the host, and compiled by NVRTC
  tidy                          run only the project's own checks (crate edges, sizes, docs, licences ...)
  conformance [--bless] [WORD...]
                                run ONNX's own test cases, interpreted and compiled; with WORDs, only those whose names
                                contain one of them; --bless rewrites the lists of passing cases
  cross-check [COUNT]           compare COUNT generated models (500) with onnxruntime
  exporters [--torch|--quantize] [--seed N] [COUNT]
                                compare COUNT models (100), generated in the style of real exporters, with onnxruntime;
                                with --torch, modules exported by both of torch's exporters; with --quantize, models
                                that `kiln quantize` wrote
  python [--wheel] [--torch] [--notebook]
                                build the Python package and test it; with --wheel, from a wheel that maturin builds;
                                with --torch, the backend for torch.compile; with --notebook, the example notebook
  serve-clients                 call a server with tritonclient, over HTTP and gRPC
  mpi                           install an MPI implementation, and train on two ranks
  stores                        test shared stores of compiled code on S3 and Azure emulators, with injected faults
  ray                           run a batch job on Ray whose two workers share compiled code
  soak [--serve] [MINUTES]      run random models and shapes for MINUTES (30), and check that results stay correct and
                                that memory, threads and open files do not grow; with --serve, run a server under mixed
                                traffic, then the kernel service, for MINUTES each
  versions EARLIER              check that this build and an earlier one, a commit or a built command, can share a cache
                                folder
  fuzz [--minutes N] [TARGET...]
                                run each fuzz target, or those named, for N minutes of CPU time (5); findings are
                                minimised and kept
  sanitize [PACKAGE...]         run the tests of the packages with unsafe code, or of those named, under the sanitizers
                                of nightly Rust, and a few kernels under valgrind
  coverage [PACKAGE...]         measure the test suite's line coverage, of all crates or of the packages named
  deny                          check dependencies against deny.toml with cargo-deny: licences, bans, sources, advisories
  dist [--no-llvm] [--wheel]    build a release under dist/: a tarball of the `kiln` command with its LLVM, licences,
                                list of components and checksums, tested in a root with nothing but glibc; with
                                --no-llvm, one that runs bundles and stored code; with --wheel, also the Python package
  report-shots                  check pages of `kiln report` for the example models in a browser, and take screenshots
  bench [--peers] [WORD...]     measure the performance targets in a release build; with WORDs, only rows whose names
                                contain one of them; --peers also measures onnxruntime and OpenVINO
  bench --ops [--write] [--check] [WORD...]
                                compare Kiln with its peers, operator by operator; --write records the run and writes
                                its page of the book; --check fails if the run is slower than recorded
  bench --train [WORD]          compare Kiln's training steps with JAX, PyTorch and torch.compile, on one and two
                                threads; with WORD, only the case of that name
  bench --torch [WORD...]       compare PyTorch modules compiled by Kiln, compiled by inductor, and eager: compile time
                                and call time
  bench --eager [WORD]          compare compiled functions with eager ones, forward and with gradients: compile time,
                                run time, memory, speed-up
  bench --large [WORD]          time each stage of graphs of 1,000 to 10,000 ops: differentiation, planning, compilation
  bench --service [calls=N] [minutes=N]
                                measure the kernel service: one line per metric, its target, and whether it is met
  bench --serve [rounds=N] [requests=N]
                                compare `kiln serve` with onnxruntime behind the same protocol: mixed shapes, eight
                                clients
  bench --decode [WORD...]      measure token-by-token decoding, for each weight format, against the memory read rate
  bench --precision [MODEL...]  compare int8 and bf16 encoders and convolutional networks with onnxruntime's int8: times
                                and errors
  tune                          measure register tiles on this machine and rewrite the table of their costs
  bless [--files] [--snapshots] rewrite the lists that tidy compares with; with --files, also the expected output in the
                                test cases of crates/testkit/testdata; with --snapshots, also the tests' snapshots
";

const TASKS: &str = "setup, models, build, demo, test, tidy, conformance, cross-check, exporters, python, serve-clients, report-shots, mpi, stores, ray, soak, versions, fuzz, sanitize, coverage, deny, dist, bench, tune, bless";

/// One subcommand with its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Print the help text.
    Help,
    /// Install what the build needs.
    Setup {
        /// Whether also what compiles for GPUs.
        cuda: bool,
    },
    /// Build the workspace.
    Build(BuildOptions),
    /// Fetch the pinned example models.
    Models,
    /// Show Kiln at work on a picture of text.
    Demo,
    /// Check everything.
    Test {
        /// Whether only what is generated for GPUs, with more kernels.
        cuda: bool,
    },
    /// Check only the project's own rules.
    Tidy,
    /// Run ONNX's own test cases.
    Conformance(ConformanceOptions),
    /// Compare generated models with onnxruntime.
    CrossCheck {
        /// The number of models.
        count: usize,
    },
    /// Compare models in exporters' style with onnxruntime.
    Exporters(Models),
    /// Build and test the Python package.
    Python(PythonOptions),
    /// Call a server with clients of others.
    ServeClients,
    /// Check and photograph pages of reports.
    ReportShots,
    /// Train on several ranks.
    Mpi,
    /// Share code through servers with the protocols of cloud stores.
    Stores,
    /// Run a batch job on Ray.
    Ray,
    /// Run random models for a long time.
    Soak {
        /// The number of minutes.
        minutes: u32,
        /// Whether the server and the service, instead of models.
        serve: bool,
    },
    /// Share a cache folder with an earlier version.
    Versions {
        /// A commit, or the path of a command.
        earlier: String,
    },
    /// Run the fuzz targets.
    Fuzz(FuzzOptions),
    /// Run tests under sanitizers.
    Sanitize {
        /// The packages whose tests run; if empty, all with unsafe code.
        packages: Vec<String>,
    },
    /// Count the lines that tests run.
    Coverage {
        /// The packages whose tests run; all if empty.
        packages: Vec<String>,
    },
    /// Check dependencies.
    Deny,
    /// Make a release.
    Dist(DistOptions),
    /// Measure the performance targets.
    Bench(BenchOptions),
    /// Rewrite the table of register tile costs.
    Tune,
    /// Rewrite checked-in lists.
    Bless(BlessOptions),
}

/// Options of `build`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildOptions {
    /// Optimised code.
    pub(crate) release: bool,
    /// Leave out what links LLVM.
    pub(crate) no_llvm: bool,
}

/// Options of `dist`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DistOptions {
    /// Leave out what links LLVM.
    pub(crate) no_llvm: bool,
    /// Also the Python package.
    pub(crate) wheel: bool,
}

/// What of the Python package is built and tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonOptions {
    /// Whether a wheel is built.
    pub(crate) wheel: bool,
    /// Whether the backend for PyTorch is tested; without a wheel nothing else is.
    pub(crate) torch: bool,
    /// Whether the example notebook is run; without a wheel nothing else is.
    pub(crate) notebook: bool,
}

/// Options of `conformance`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConformanceOptions {
    /// Rewrite the lists of passing cases.
    pub(crate) bless: bool,
    /// Only cases whose names contain one of these; all if empty.
    pub(crate) words: Vec<String>,
}

/// Options of `fuzz`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FuzzOptions {
    /// Minutes of processor time for each target.
    pub(crate) minutes: u32,
    /// Only these targets; all if empty.
    pub(crate) targets: Vec<String>,
}

impl Default for FuzzOptions {
    fn default() -> Self {
        Self {
            minutes: 5,
            targets: Vec::new(),
        }
    }
}

/// Options of `bench`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    /// Also measure the peers.
    pub(crate) peers: bool,
    /// Measure single operators and their peers, and nothing else.
    pub(crate) ops: bool,
    /// Measure training steps and their peers, and nothing else.
    pub(crate) train: bool,
    /// Measure modules of PyTorch compiled by its backends, and nothing else.
    pub(crate) torch: bool,
    /// Measure the stages of large graphs, and nothing else.
    pub(crate) large: bool,
    /// Measure compiled functions beside eager ones, and nothing else.
    pub(crate) eager: bool,
    /// Measure the kernel service, and nothing else.
    pub(crate) service: bool,
    /// Measure the server beside another, and nothing else.
    pub(crate) serve: bool,
    /// Measure decoding, and nothing else.
    pub(crate) decode: bool,
    /// Measure narrow formats and their peers, and nothing else.
    pub(crate) precision: bool,
    /// Record the measurements of single operators.
    pub(crate) write: bool,
    /// Compare the measurements of single operators with those recorded.
    pub(crate) check: bool,
    /// Only benches whose names contain one of these; all if empty.
    pub(crate) words: Vec<String>,
}

/// Options of `bless`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BlessOptions {
    /// Also rewrite the stages and results of the test cases that are files.
    pub(crate) files: bool,
    /// Also run the tests and accept their snapshots.
    pub(crate) snapshots: bool,
}

/// Reads the command line.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Task> {
    let mut task = match parser.next()? {
        None | Some(Long("help") | Short('h')) => return Ok(Task::Help),
        Some(Value(word)) => match word.string()?.as_str() {
            "help" => return Ok(Task::Help),
            word => task_named(word)?,
        },
        Some(other) => return Err(other.unexpected().into()),
    };
    while let Some(argument) = parser.next()? {
        if matches!(argument, Long("help") | Short('h')) {
            return Ok(Task::Help);
        }
        match argument {
            Value(word) => take_word(&mut task, word)?,
            Long(name) => {
                let name = name.to_owned();
                take_option(&mut task, &name, &mut parser)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if let Task::Bench(options) = &task
        && !options.ops
        && (options.write || options.check)
    {
        bail!("expected `bench --ops` with --write or --check");
    }
    if matches!(&task, Task::Versions { earlier } if earlier.is_empty()) {
        bail!("expected an earlier version: a commit, or the path of a built command");
    }
    Ok(task)
}

/// A task by its name, with the defaults of its options.
fn task_named(name: &str) -> Result<Task> {
    Ok(match name {
        "setup" => Task::Setup { cuda: false },
        "build" => Task::Build(BuildOptions::default()),
        "models" => Task::Models,
        "demo" => Task::Demo,
        "test" => Task::Test { cuda: false },
        "tidy" => Task::Tidy,
        "conformance" => Task::Conformance(ConformanceOptions::default()),
        "cross-check" => Task::CrossCheck { count: 500 },
        "exporters" => Task::Exporters(Models::Generated {
            count: 100,
            seed: 0,
        }),
        "python" => Task::Python(PythonOptions::default()),
        "serve-clients" => Task::ServeClients,
        "report-shots" => Task::ReportShots,
        "mpi" => Task::Mpi,
        "stores" => Task::Stores,
        "ray" => Task::Ray,
        "soak" => Task::Soak {
            minutes: 30,
            serve: false,
        },
        "versions" => Task::Versions {
            earlier: String::new(),
        },
        "fuzz" => Task::Fuzz(FuzzOptions::default()),
        "sanitize" => Task::Sanitize {
            packages: Vec::new(),
        },
        "coverage" => Task::Coverage {
            packages: Vec::new(),
        },
        "deny" => Task::Deny,
        "dist" => Task::Dist(DistOptions::default()),
        "bench" => Task::Bench(BenchOptions::default()),
        "tune" => Task::Tune,
        "bless" => Task::Bless(BlessOptions::default()),
        other => bail!("expected a task ({TASKS}), found `{other}`"),
    })
}

/// Reads a word after the task's name.
fn take_word(task: &mut Task, word: std::ffi::OsString) -> Result<()> {
    match task {
        Task::Conformance(options) => options.words.push(word.string()?),
        Task::CrossCheck { count } | Task::Exporters(Models::Generated { count, .. }) => {
            *count = word.parse()?;
        }
        Task::Soak { minutes, .. } => *minutes = word.parse()?,
        Task::Versions { earlier } if earlier.is_empty() => *earlier = word.string()?,
        Task::Fuzz(options) => options.targets.push(word.string()?),
        Task::Sanitize { packages } | Task::Coverage { packages } => packages.push(word.string()?),
        Task::Bench(options) => options.words.push(word.string()?),
        _ => return Err(Value(word).unexpected().into()),
    }
    Ok(())
}

/// Reads an option of the task.
fn take_option(task: &mut Task, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    match (task, name) {
        (Task::Soak { serve, .. }, "serve") => *serve = true,
        (Task::Build(options), "release") => options.release = true,
        (Task::Build(options), "no-llvm") => options.no_llvm = true,
        (Task::Conformance(options), "bless") => options.bless = true,
        (Task::Exporters(Models::Generated { seed, .. }), "seed") => {
            *seed = parser.value()?.parse()?;
        }
        (Task::Exporters(models), "torch") => *models = Models::Torch,
        (Task::Exporters(models), "quantize") => *models = Models::Quantized,
        (Task::Dist(options), "no-llvm") => options.no_llvm = true,
        (Task::Dist(options), "wheel") => options.wheel = true,
        (Task::Python(options), "wheel") => options.wheel = true,
        (Task::Python(options), "torch") => options.torch = true,
        (Task::Python(options), "notebook") => options.notebook = true,
        (Task::Setup { cuda } | Task::Test { cuda }, "cuda") => *cuda = true,
        (Task::Fuzz(options), "minutes") => options.minutes = parser.value()?.parse()?,
        (Task::Bench(options), "peers") => options.peers = true,
        (Task::Bench(options), "train") => options.train = true,
        (Task::Bench(options), "torch") => options.torch = true,
        (Task::Bench(options), "eager") => options.eager = true,
        (Task::Bench(options), "large") => options.large = true,
        (Task::Bench(options), "ops") => options.ops = true,
        (Task::Bench(options), "service") => options.service = true,
        (Task::Bench(options), "serve") => options.serve = true,
        (Task::Bench(options), "decode") => options.decode = true,
        (Task::Bench(options), "precision") => options.precision = true,
        (Task::Bench(options), "write") => options.write = true,
        (Task::Bench(options), "check") => options.check = true,
        (Task::Bless(options), "files") => options.files = true,
        (Task::Bless(options), "snapshots") => options.snapshots = true,
        (_, name) => return Err(Long(name).unexpected().into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Task> {
        parse(lexopt::Parser::from_args(words))
    }

    #[test]
    fn tasks_take_only_their_own_options() {
        assert_eq!(parsed(&[]).unwrap(), Task::Help);
        assert_eq!(parsed(&["test"]).unwrap(), Task::Test { cuda: false });
        let cuda = parsed(&["test", "--cuda"]).unwrap();
        assert_eq!(cuda, Task::Test { cuda: true });
        let both = BuildOptions {
            release: true,
            no_llvm: true,
        };
        assert_eq!(
            parsed(&["build", "--no-llvm", "--release"]).unwrap(),
            Task::Build(both)
        );
        assert_eq!(
            parsed(&["bless", "--snapshots"]).unwrap(),
            Task::Bless(BlessOptions {
                files: false,
                snapshots: true
            })
        );
        assert_eq!(parsed(&["demo", "--help"]).unwrap(), Task::Help);
        let dist = DistOptions {
            no_llvm: true,
            wheel: false,
        };
        assert_eq!(parsed(&["dist", "--no-llvm"]).unwrap(), Task::Dist(dist));
        assert!(parsed(&["test", "--release"]).is_err());
        assert!(parsed(&["--release"]).is_err());
    }

    #[test]
    fn bench_takes_words_beside_its_option() {
        let options = BenchOptions {
            peers: true,
            words: ["softmax", "minilm"].map(str::to_owned).to_vec(),
            ..BenchOptions::default()
        };
        assert_eq!(
            parsed(&["bench", "softmax", "--peers", "minilm"]).unwrap(),
            Task::Bench(options)
        );
        assert_eq!(
            parsed(&["bench"]).unwrap(),
            Task::Bench(BenchOptions::default())
        );
        let options = BenchOptions {
            ops: true,
            check: true,
            ..BenchOptions::default()
        };
        assert_eq!(
            parsed(&["bench", "--ops", "--check"]).unwrap(),
            Task::Bench(options)
        );
        assert!(parsed(&["bench", "--check"]).is_err());
        assert!(parsed(&["bench", "--release"]).is_err());
        assert!(parsed(&["tidy", "softmax"]).is_err());
    }

    #[test]
    fn conformance_takes_words_and_cross_check_and_soak_a_number() {
        let options = ConformanceOptions {
            bless: true,
            words: vec!["resize".to_owned()],
        };
        assert_eq!(
            parsed(&["conformance", "--bless", "resize"]).unwrap(),
            Task::Conformance(options)
        );
        assert_eq!(
            parsed(&["cross-check"]).unwrap(),
            Task::CrossCheck { count: 500 }
        );
        assert_eq!(
            parsed(&["cross-check", "20"]).unwrap(),
            Task::CrossCheck { count: 20 }
        );
        assert!(parsed(&["cross-check", "many"]).is_err());
        assert_eq!(
            parsed(&["exporters", "1000", "--seed", "7"]).unwrap(),
            Task::Exporters(Models::Generated {
                count: 1000,
                seed: 7
            })
        );
        assert_eq!(
            parsed(&["exporters", "--torch"]).unwrap(),
            Task::Exporters(Models::Torch)
        );
        assert!(parsed(&["exporters", "--torch", "30"]).is_err());
        assert_eq!(
            parsed(&["exporters", "--quantize"]).unwrap(),
            Task::Exporters(Models::Quantized)
        );
        let soak = |minutes, serve| Task::Soak { minutes, serve };
        assert_eq!(parsed(&["soak"]).unwrap(), soak(30, false));
        assert_eq!(parsed(&["soak", "2"]).unwrap(), soak(2, false));
        assert_eq!(parsed(&["soak", "--serve", "2"]).unwrap(), soak(2, true));
    }

    #[test]
    fn versions_needs_exactly_one_other_version() {
        let earlier = "HEAD~1".to_owned();
        assert_eq!(
            parsed(&["versions", "HEAD~1"]).unwrap(),
            Task::Versions { earlier }
        );
        assert!(parsed(&["versions"]).is_err());
        assert!(parsed(&["versions", "HEAD~1", "HEAD~2"]).is_err());
    }

    #[test]
    fn fuzz_takes_minutes_and_targets_and_sanitize_packages() {
        assert_eq!(
            parsed(&["fuzz"]).unwrap(),
            Task::Fuzz(FuzzOptions::default())
        );
        let options = FuzzOptions {
            minutes: 30,
            targets: vec!["read_graph".to_owned(), "run_onnx".to_owned()],
        };
        assert_eq!(
            parsed(&["fuzz", "read_graph", "--minutes", "30", "run_onnx"]).unwrap(),
            Task::Fuzz(options)
        );
        assert!(parsed(&["fuzz", "--minutes"]).is_err());
        let packages = vec!["kiln-tensor".to_owned()];
        assert_eq!(
            parsed(&["sanitize", "kiln-tensor"]).unwrap(),
            Task::Sanitize { packages }
        );
        assert!(parsed(&["sanitize", "--minutes", "3"]).is_err());
        let packages = vec!["kiln-ir".to_owned()];
        let coverage = Task::Coverage { packages };
        assert_eq!(parsed(&["coverage", "kiln-ir"]).unwrap(), coverage);
    }

    #[test]
    fn an_unknown_task_lists_the_known_ones() {
        let error = parsed(&["tets"]).unwrap_err().to_string();
        assert!(error.contains("`tets`") && error.contains(TASKS), "{error}");
    }
}
