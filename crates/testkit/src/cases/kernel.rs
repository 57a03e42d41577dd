//! Kernels as cases.

use std::cell::OnceCell;
use std::fmt::Write as _;

use kiln_backend::{Schedule, Target};
use kiln_kernel::analysis::may_share;
use kiln_kernel::{IndexClass, Node, VerifiedKernel, canonicalize, evaluate};
use kiln_scalar::Mode;
use kiln_tensor::Tensor;

use super::form::{Engine, Form};
use super::literal;
use super::run::{Outcome, Run, Sizes};
use crate::kernels::{
    Checked, Variant, check_kernel, covering_sizes, kernel_tensors, variants, variants_with,
};
use crate::random::SplitMix64;

/// The stages of a kernel: its canonical form with the values of its symbols; its class, with the reason, the roles of
/// its axes, how each index is known to be in bounds, and which results may be computed in place; the schedules that
/// are offered at each level; the loops of the best schedule for `avx2+fma`, or the given ones.
pub const KERNEL_STAGES: [&str; 4] = ["canonical", "verified", "schedules", "loops"];

/// The target whose loops are shown.
const SHOWN: (&str, &str) = ("llvm", "avx2+fma");

/// A kernel, compiled when it first runs.
pub(super) struct KernelForm {
    kernel: VerifiedKernel,
    /// The schedule with which it is compiled, instead of those that are offered.
    given: Option<Schedule>,
    variants: OnceCell<Vec<Variant>>,
}

impl KernelForm {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let kernel = kiln_kernel::text::read(text).map_err(|errors| errors.render(text))?;
        let kernel = kiln_kernel::verify(kernel).map_err(|errors| errors.to_string())?;
        Ok(Self {
            kernel,
            given: None,
            variants: OnceCell::new(),
        })
    }

    /// A kernel's text, then that of its loops.
    pub(super) fn read_with_loops(text: &str) -> Result<Self, String> {
        let place = text
            .find("\nloops {")
            .ok_or("expected loops after the kernel")?;
        let (kernel, loops) = text.split_at(place + 1);
        let given = Schedule::new("given").with_text(loops);
        Ok(Self {
            given: Some(given),
            ..Self::read(kernel)?
        })
    }

    fn variants(&self, engine: &Engine) -> Result<&[Variant], String> {
        if let Some(variants) = self.variants.get() {
            return Ok(variants);
        }
        let (compiler, executor) = (&*engine.compiler, &engine.executor);
        let (here, others) = (&engine.here, &engine.others);
        let made = match &self.given {
            Some(given) => variants_with(compiler, executor, &self.kernel, here, given),
            None => variants(compiler, executor, &self.kernel, here, others),
        };
        let made = made.map_err(|finding| finding.to_string())?;
        Ok(self.variants.get_or_init(|| made))
    }

    /// The sizes of a run, in the order of the kernel's symbols.
    fn sizes(&self, run: &Run) -> Result<Vec<Vec<i64>>, String> {
        let Sizes::Listed { names, rows } = &run.sizes else {
            return Ok(covering_sizes(&self.kernel, run.work));
        };
        let dims = self.kernel.dims();
        let place = |symbol| {
            let name = dims.symbol_name(symbol);
            let place = names.iter().position(|given| given == name);
            place.ok_or_else(|| format!("expected a size of {name}"))
        };
        let places = dims.symbols().map(place).collect::<Result<Vec<_>, _>>()?;
        if places.len() < names.len() {
            return Err(format!(
                "expected sizes of the kernel's symbols, found `{}`",
                names.join(" ")
            ));
        }
        let sorted = |row: &Vec<i64>| places.iter().map(|&place| row[place]).collect();
        Ok(rows.iter().map(sorted).collect())
    }

    fn give(&self, tensors: &mut [Tensor], given: &[(String, String)]) -> Result<(), String> {
        for (name, text) in given {
            let mut buffers = self.kernel.buffers().values().zip(&mut *tensors);
            let Some((buffer, tensor)) = buffers.find(|(buffer, _)| buffer.name == *name) else {
                return Err(format!("expected the name of a buffer, found %{name}"));
            };
            *tensor = literal::read(text, buffer.dtype, tensor.shape())?;
        }
        Ok(())
    }

    fn results(
        &self,
        symbols: &[i64],
        tensors: &[Tensor],
    ) -> Result<Vec<(String, Tensor)>, String> {
        let mut buffers = tensors.to_vec();
        evaluate(&self.kernel, symbols, &mut buffers, Mode::Declared)
            .map_err(|error| error.to_string())?;
        let named = self.kernel.buffers().values().zip(buffers);
        let written = named.filter(|(buffer, _)| buffer.role.is_written());
        Ok(written
            .map(|(buffer, tensor)| (buffer.name.clone(), tensor))
            .collect())
    }

    fn canonical(&self) -> String {
        let canonical = canonicalize(&self.kernel);
        let mut text = canonical.text();
        let dims = canonical.kernel.dims();
        for (symbol, &value) in dims.symbols().zip(&canonical.values) {
            let value = canonical.dims.display(value);
            let _infallible = writeln!(text, "{} = {value}", dims.symbol_name(symbol));
        }
        text
    }

    fn verified(&self) -> String {
        let kernel = &self.kernel;
        let class = kernel.classification();
        let mut text = format!("{}: {}\naxes", class.class, class.why);
        let mut line = |what: std::fmt::Arguments<'_>| {
            let _infallible = text.write_fmt(what);
        };
        for (id, axis) in kernel.axes() {
            line(format_args!(" {}:{}", axis.name, class.roles[id].as_word()));
        }
        for contraction in &class.contractions {
            line(format_args!(
                "\ncontraction {}",
                kernel.stage(contraction.stage).name
            ));
        }
        let words = |classes: &[IndexClass]| {
            let words = classes
                .iter()
                .map(|class| format!("{class:?}").to_lowercase());
            words.collect::<Vec<_>>().join(", ")
        };
        for (id, data) in kernel.nodes() {
            if let Node::Load(load) = &data.node {
                let name = &kernel.buffer(load.buffer).name;
                line(format_args!(
                    "\nload %{name}[{}]",
                    words(&kernel.info().loads[id])
                ));
            }
        }
        for info in &kernel.info().stores {
            line(format_args!("\nstore[{}]", words(&info.indices)));
            for &axis in &info.serial {
                line(format_args!(" serial {}", kernel.axis(axis).name));
            }
        }
        for pair in may_share(kernel.kernel()) {
            let [read, written] = [pair.read, pair.written].map(|id| &kernel.buffer(id).name);
            line(format_args!("\nin place: %{written} of %{read}"));
        }
        text
    }

    fn schedules(&self, engine: &Engine) -> String {
        let mut targets: Vec<_> = engine.here.iter().chain(&engine.others).collect();
        targets.sort_by_key(|target| target.to_string());
        let lines = targets.into_iter().flat_map(|target| {
            let candidates = engine.compiler.schedules(&self.kernel, target);
            candidates
                .into_iter()
                .map(move |candidate| format!("{target} {}", candidate.schedule))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn loops(&self, engine: &Engine) -> String {
        let (backend, level) = SHOWN;
        let target = Target {
            backend: backend.to_owned(),
            level: level.to_owned(),
        };
        let best = || {
            engine
                .compiler
                .schedules(&self.kernel, &target)
                .into_iter()
                .next()
        };
        let schedule = self.given.clone().or_else(|| Some(best()?.schedule));
        schedule.map_or_else(String::new, |schedule| schedule.text)
    }
}

impl Form for KernelForm {
    fn stage(&self, name: &str, engine: &Engine) -> Result<Option<String>, String> {
        Ok(match name {
            "canonical" => Some(self.canonical()),
            "verified" => Some(self.verified()),
            "schedules" => Some(self.schedules(engine)),
            "loops" => Some(self.loops(engine)),
            _ => None,
        })
    }

    fn run(&self, run: &Run, engine: &Engine) -> Result<Vec<(String, Tensor)>, String> {
        if run.of_gradient {
            return Err("expected a graph: a kernel has no gradient".to_owned());
        }
        let variants = self.variants(engine)?;
        let (mut agreed, mut results) = (0, Vec::new());
        for (seed, symbols) in (1..).zip(&self.sizes(run)?) {
            let mut random = SplitMix64::new(seed);
            let tensors = kernel_tensors(&mut random, &self.kernel, symbols, run.elements);
            let Some(mut tensors) = tensors.map_err(|error| error.to_string())? else {
                return Err(format!(
                    "expected sizes that the kernel allows, found {symbols:?}"
                ));
            };
            self.give(&mut tensors, &run.given)?;
            let checked = check_kernel(&engine.executor, &self.kernel, variants, symbols, &tensors);
            let at = |what: &str| format!("{what}\nat {symbols:?} (seed {seed})");
            match (
                checked.map_err(|finding| at(&finding.to_string()))?,
                run.outcome,
            ) {
                (Checked::Agreed, Outcome::Faults) => {
                    return Err(at("expected a fault, found results"));
                }
                (Checked::Faulted, Outcome::Results) => {
                    return Err(at("expected results, found a fault"));
                }
                (Checked::Agreed, _) => agreed += 1,
                (Checked::Faulted, _) => {}
            }
            if run.has_results {
                results = self.results(symbols, &tensors)?;
            }
        }
        if agreed == 0 && run.outcome != Outcome::Faults {
            return Err("expected a call that has results, found none".to_owned());
        }
        Ok(results)
    }
}
