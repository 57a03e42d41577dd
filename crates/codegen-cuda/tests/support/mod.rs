//! Generated sources, executed on the host: compiled by g++ with `shim/device.h` in place of a device, run in a
//! separate process, and compared with the kernel's evaluator.

#![allow(
    dead_code,
    unsafe_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses a part of it, and a test may panic"
)]

use std::path::PathBuf;
use std::process::Command;

use kiln_backend::{Artifact, Fault, FaultCause, LaunchContext, LaunchNumbers, Schedule};
use kiln_codegen_cuda::{CudaCompiler, FAULT_INDEX};
use kiln_kernel::{Buffer, VerifiedKernel};
use kiln_tensor::{Tensor, row_major_strides};
use kiln_testkit::cases::folder;
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Checked, Elements, Meaning, kernel_tensors};
use kiln_testkit::random::SplitMix64;
use tempfile::TempDir;

/// The contents of memory outside of elements.
const POISON: u8 = 0xff;

/// Whether a test must be skipped because g++ is not installed; if so, prints a message.
pub(crate) fn lacks_compiler() -> bool {
    let version = Command::new("g++").arg("--version").output();
    let is_missing = !version.is_ok_and(|output| output.status.success());
    if is_missing {
        println!("skipped: generated CUDA C is not executed, since g++ is not installed");
    }
    is_missing
}

/// A kernel from its text.
pub(crate) fn kernel(text: &str) -> VerifiedKernel {
    let kernel =
        kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The paths and texts of the kernels of testkit's files.
pub(crate) fn kernel_files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for topic in std::fs::read_dir(folder()).unwrap() {
        for file in std::fs::read_dir(topic.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "kernel") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// A source compiled for the host, launched as its artifact specifies.
pub(crate) struct HostProgram {
    artifact: Artifact,
    folder: TempDir,
}

/// The input of a launch: symbols, the bytes of each buffer, a seed.
pub(crate) type Started = (Vec<i64>, Vec<Vec<u8>>, u64);

/// The result of a launch.
pub(crate) struct Ended {
    /// The fault word.
    pub(crate) fault: u64,
    /// How often blocks reached `count_once()`, which a test inserted into the source.
    pub(crate) counted: u64,
    /// The bytes of each buffer.
    pub(crate) buffers: Vec<Vec<u8>>,
}

impl HostProgram {
    /// Compiles a source; `define` names a fault of the device.
    pub(crate) fn build(
        text: &str,
        parts: kiln_backend::ArtifactParts,
        define: Option<&str>,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let shim = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/shim");
        let names: Vec<String> = parts.phases.iter().map(|p| p.entry.clone()).collect();
        let mut whole = String::from("#include \"device.h\"\n");
        whole.push_str(text);
        whole.push_str("#include \"run.h\"\n");
        whole.push_str(&format!(
            "int main(int argc, char** argv) {{ const Function all[] = {{{}}}; return run_cases(all, argc, argv); }}\n",
            names.join(", ")
        ));
        let file = folder.path().join("kernel.cpp");
        std::fs::write(&file, &whole).unwrap();
        let mut command = Command::new("g++");
        command.args([
            "-std=c++17",
            "-O1",
            "-w",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
        ]);
        command.args(define.map(|define| format!("-D{define}")));
        command.arg("-I").arg(&shim).arg(&file);
        command.arg("-o").arg(folder.path().join("kernel"));
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            let log: String = log.chars().take(3000).collect();
            return Err(format!("g++ rejects the source: {log}"));
        }
        // SAFETY: the artifact is never loaded; only its numbers are evaluated.
        let artifact = unsafe { Artifact::trusted(parts) };
        Ok(Self { artifact, folder })
    }

    /// The numbers of a launch at these symbols.
    fn numbers(&self, symbols: &[i64]) -> Result<LaunchNumbers, String> {
        let context = LaunchContext {
            symbols,
            threads: 1,
            caches: [1; 3],
        };
        self.artifact.numbers(&context).map_err(|e| e.to_string())
    }

    /// Launches it for each case, in a separate process.
    pub(crate) fn launch(&self, cases: &[Started]) -> Result<Vec<Ended>, String> {
        let mut input = Vec::new();
        let put = |input: &mut Vec<u8>, word: u64| input.extend_from_slice(&word.to_le_bytes());
        put(&mut input, cases.len() as u64);
        for (symbols, buffers, seed) in cases {
            let numbers = self.numbers(symbols)?;
            for word in [
                *seed,
                seed % 2,
                seed / 2 % 2,
                buffers.len() as u64,
                numbers.arguments().len() as u64,
                numbers.shared_scratch() as u64,
                numbers.phases().len() as u64,
            ] {
                put(&mut input, word);
            }
            for buffer in buffers {
                put(&mut input, buffer.len() as u64);
                input.extend_from_slice(buffer);
            }
            for &argument in numbers.arguments() {
                put(&mut input, argument.cast_unsigned());
            }
            for (phase, part) in numbers.phases().iter().zip(&self.artifact.phases) {
                put(&mut input, phase.tasks);
                put(&mut input, u64::from(part.block));
                put(&mut input, phase.scratch as u64);
            }
        }
        let (from, to) = (
            self.folder.path().join("in"),
            self.folder.path().join("out"),
        );
        std::fs::write(&from, &input).unwrap();
        let mut command = Command::new(self.folder.path().join("kernel"));
        let output = command.arg(&from).arg(&to).output().unwrap();
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("the program ended with {}: {log}", output.status));
        }
        let bytes = std::fs::read(&to).unwrap();
        let mut rest = bytes.as_slice();
        let ended = |(_, buffers, _): &Started| {
            let mut word = || {
                let (word, after) = rest.split_first_chunk::<8>().unwrap();
                rest = after;
                u64::from_le_bytes(*word)
            };
            let (fault, counted) = (word(), word());
            let read = |buffer: &Vec<u8>| {
                let (bytes, after) = rest.split_at(buffer.len());
                rest = after;
                bytes.to_vec()
            };
            Ended {
                fault,
                counted,
                buffers: buffers.iter().map(read).collect(),
            }
        };
        Ok(cases.iter().map(ended).collect())
    }
}

/// A kernel with one schedule, as a program of the host.
pub(crate) struct HostKernel {
    kernel: VerifiedKernel,
    program: HostProgram,
}

/// The result of a launch: the written buffers and the fault, or the reason that it failed.
type Ran = Result<(Vec<Tensor>, Option<Fault>), String>;

impl HostKernel {
    /// Compiles a kernel; `define` names a fault of the device.
    pub(crate) fn build(
        kernel: &VerifiedKernel,
        schedule: &Schedule,
        define: Option<&str>,
    ) -> Result<Self, String> {
        let source =
            CudaCompiler::host_source(kernel, schedule).map_err(|error| error.to_string())?;
        Self::build_text(kernel, &source.text, source.parts, define)
    }

    /// The same from a modified source.
    pub(crate) fn build_text(
        kernel: &VerifiedKernel,
        text: &str,
        parts: kiln_backend::ArtifactParts,
        define: Option<&str>,
    ) -> Result<Self, String> {
        Ok(Self {
            kernel: kernel.clone(),
            program: HostProgram::build(text, parts, define)?,
        })
    }

    /// Runs cases: symbols, operands and a seed each.
    pub(crate) fn run(&self, cases: &[Given<'_>]) -> Result<Vec<Ran>, String> {
        let (images, ended) = self.launch(cases)?;
        let pairs = images.iter().zip(&ended);
        Ok(pairs
            .map(|(images, ended)| self.read(images, ended))
            .collect())
    }

    /// How often the blocks of each case reached `count_once()`.
    pub(crate) fn counted(&self, cases: &[CheckedCase]) -> Result<Vec<u64>, String> {
        let (_, ended) = self.launch(&given(cases))?;
        Ok(ended.iter().map(|ended| ended.counted).collect())
    }

    /// The number of tasks of each phase.
    pub(crate) fn tasks(&self, symbols: &[i64]) -> Vec<u64> {
        let numbers = self.program.numbers(symbols).unwrap();
        numbers.phases().iter().map(|phase| phase.tasks).collect()
    }

    fn launch(&self, cases: &[Given<'_>]) -> Result<(Vec<Vec<Image>>, Vec<Ended>), String> {
        let mut started = Vec::new();
        let mut images = Vec::new();
        for (symbols, tensors, seed) in cases {
            let numbers = self.program.numbers(symbols)?;
            let buffers = self.kernel.buffers().values().zip(*tensors);
            let of: Vec<Image> = buffers
                .zip(numbers.bytes())
                .map(|((buffer, tensor), &bytes)| {
                    Image::of(&self.kernel, buffer, symbols, tensor, bytes)
                })
                .collect();
            let bytes = of.iter().map(|image| image.bytes.clone()).collect();
            started.push((symbols.to_vec(), bytes, *seed));
            images.push(of);
        }
        let ended = self.program.launch(&started)?;
        Ok((images, ended))
    }

    fn read(&self, images: &[Image], ended: &Ended) -> Ran {
        let artifact = &self.program.artifact;
        let mut written = Vec::new();
        let mut outside = None;
        let all = images
            .iter()
            .zip(&ended.buffers)
            .zip(self.kernel.buffers().values());
        for ((image, bytes), buffer) in all {
            let (tensor, intact) = image.read(bytes);
            if !intact {
                outside = Some(buffer.name.clone());
            }
            if buffer.role.is_written() {
                written.push(tensor);
            }
        }
        if let Some(name) = outside {
            return Err(format!("bytes beside the elements of %{name} were written"));
        }
        let fault = ended.fault;
        let fault = (fault != u64::MAX).then(|| {
            assert_eq!(fault >> 32, 7, "the launch of a fault");
            Fault {
                launch: 7,
                cause: match fault as u8 {
                    FAULT_INDEX => FaultCause::IndexOutOfRange,
                    _ => FaultCause::DivisionByZero,
                },
                site: (fault >> 8 & 0xff_ffff) as usize,
            }
        });
        if let Some(fault) = fault {
            assert!(fault.site < artifact.fault_sites.len());
        }
        Ok((written, fault))
    }

    /// Compares launches with the kernel's evaluator; returns how many agreed, and how many faulted.
    pub(crate) fn check(&self, cases: &[CheckedCase]) -> Result<(usize, usize), String> {
        let given = given(cases);
        let artifact = &self.program.artifact;
        let schedule = &artifact.schedule;
        let failed = |symbols: &[i64], why: String| {
            let text = kiln_kernel::text::print(&self.kernel);
            format!(
                "{schedule} `{}` at {symbols:?}: {why}\nof {text}",
                schedule.text
            )
        };
        let ran = self.run(&given).map_err(|why| failed(&[], why))?;
        let mut tally = (0, 0);
        for (case, ran) in cases.iter().zip(ran) {
            let (found, fault) = ran.map_err(|why| failed(&case.symbols, why))?;
            let judged = case.meaning.judge(&self.kernel, artifact, &found, fault);
            match judged.map_err(|finding| failed(&case.symbols, finding.to_string()))? {
                Checked::Agreed => tally.0 += 1,
                Checked::Faulted => tally.1 += 1,
            }
        }
        Ok(tally)
    }
}

/// Symbols, operands and a seed.
type Given<'a> = (&'a [i64], &'a [Tensor], u64);

fn given(cases: &[CheckedCase]) -> Vec<Given<'_>> {
    let cases = cases.iter();
    cases
        .map(|case| (case.symbols.as_slice(), case.tensors.as_slice(), case.seed))
        .collect()
}

/// Operands of a kernel, with the evaluator's result.
pub(crate) struct CheckedCase {
    symbols: Vec<i64>,
    pub(crate) tensors: Vec<Tensor>,
    seed: u64,
    meaning: Meaning,
}

impl CheckedCase {
    /// Random operands at some sizes; `None` if the kernel does not allow these.
    pub(crate) fn of(
        kernel: &VerifiedKernel,
        symbols: &[i64],
        seed: u64,
        elements: Elements,
    ) -> Result<Option<Self>, String> {
        Self::with(kernel, symbols, seed, elements, &|_| ())
    }

    /// The same, with modified operands.
    pub(crate) fn with(
        kernel: &VerifiedKernel,
        symbols: &[i64],
        seed: u64,
        elements: Elements,
        change: &dyn Fn(&mut Vec<Tensor>),
    ) -> Result<Option<Self>, String> {
        let mut random = SplitMix64::new(seed);
        let tensors = kernel_tensors(&mut random, kernel, symbols, elements).unwrap();
        let Some(mut tensors) = tensors else {
            return Ok(None);
        };
        change(&mut tensors);
        let meaning = Meaning::of(kernel, symbols, &tensors).map_err(|why| why.to_string())?;
        Ok(Some(Self {
            symbols: symbols.to_vec(),
            tensors,
            seed,
            meaning,
        }))
    }
}

/// Checks a kernel with every schedule that is offered, and with `others`, at these sizes.
pub(crate) fn check_everywhere(
    kernel: &VerifiedKernel,
    others: &[Schedule],
    sizes: &[Vec<i64>],
    elements: impl Fn(u64) -> Elements,
) -> Result<(usize, usize), String> {
    let mut cases = Vec::new();
    for (seed, symbols) in (0..).zip(sizes) {
        cases.extend(CheckedCase::of(kernel, symbols, seed, elements(seed))?);
    }
    let offered = CudaCompiler::offered(kernel).into_iter();
    let schedules = offered.map(|candidate| candidate.schedule);
    let mut tally = (0, 0);
    for schedule in schedules.chain(others.iter().cloned()) {
        let (agreed, faulted) = HostKernel::build(kernel, &schedule, None)?.check(&cases)?;
        tally.0 += agreed;
        tally.1 += faulted;
    }
    Ok(tally)
}

/// Ordinary numbers, and indices that are valid for an axis of one element.
pub(crate) fn smooth(_seed: u64) -> Elements {
    Elements {
        flavor: Flavor::Smooth,
        indices: (0, 1),
    }
}

/// An operand in its buffer's layout.
struct Image {
    bytes: Vec<u8>,
    strides: Vec<i64>,
    shape: Vec<usize>,
    dtype: kiln_tensor::DType,
    is_read: bool,
}

impl Image {
    fn of(
        kernel: &VerifiedKernel,
        buffer: &Buffer,
        symbols: &[i64],
        tensor: &Tensor,
        length: usize,
    ) -> Self {
        let dims = kernel.dims();
        let named = dims.symbols().zip(symbols.iter().copied());
        let binding = named
            .filter(|&(symbol, _)| dims.definition(symbol).is_none())
            .collect();
        let shape = tensor.shape().to_vec();
        let strides = match &buffer.strides {
            Some(strides) => strides
                .iter()
                .map(|&dim| dims.evaluate(dim, &binding).unwrap())
                .collect(),
            None => row_major_strides(&shape)
                .iter()
                .map(|&stride| stride as i64)
                .collect(),
        };
        let mut image = Self {
            bytes: vec![POISON; length],
            strides,
            shape,
            dtype: tensor.dtype(),
            is_read: buffer.role.is_read(),
        };
        if image.is_read {
            let source = tensor.contiguous().unwrap();
            let source = source.as_bytes().unwrap();
            let size = image.dtype.size_in_bytes();
            for (position, at) in image.places().into_iter().enumerate() {
                image.bytes[at..at + size].copy_from_slice(&source[position * size..][..size]);
            }
        }
        image
    }

    /// The offset of each element, row-major.
    fn places(&self) -> Vec<usize> {
        let size = self.dtype.size_in_bytes();
        let count = self.shape.iter().product::<usize>();
        let place = |position: usize| {
            let mut rest = position;
            let mut at = 0;
            for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += (rest % size) as i64 * stride;
                rest /= size;
            }
            at as usize * size
        };
        (0..count).map(place).collect()
    }

    /// The tensor, and whether all bytes outside of elements are unchanged.
    fn read(&self, bytes: &[u8]) -> (Tensor, bool) {
        let size = self.dtype.size_in_bytes();
        let mut elements = Vec::new();
        let mut others = bytes.to_vec();
        for at in self.places() {
            elements.extend_from_slice(&bytes[at..at + size]);
            others[at..at + size].fill(POISON);
        }
        let is_bool = self.dtype == kiln_tensor::DType::Bool;
        let intact = others.iter().all(|&byte| byte == POISON)
            && !(is_bool && elements.iter().any(|&byte| byte > 1));
        if !intact {
            elements.fill(0);
        }
        (
            Tensor::from_bytes(self.dtype, &self.shape, &elements).unwrap(),
            intact,
        )
    }
}
