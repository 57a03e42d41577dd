//! The launches of a segment at given sizes: launches of one kernel with equal symbol values form a group, whose code,
//! numbers and heat are looked up once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_backend::{LaunchContext, LaunchNumbers, Schedule};
use kiln_kernel::analysis::points;
use kiln_program::{Action, KernelId, KernelLaunch, Step};
use smallvec::SmallVec;

use super::Maker;
use crate::call::CallControl;
use crate::compile::{Choice, Chosen, CompiledKernel, NoCode, Patience, Wanted};
use crate::error::RuntimeError;
use crate::plan::Until;
use crate::plan::memo::SizesHasher;

/// The launches of a segment, in the order of its kernel steps.
#[derive(Default)]
pub(super) struct Launches<'a> {
    pub(super) of_step: Vec<PlannedLaunch<'a>>,
    pub(super) groups: Vec<LaunchGroup>,
}

/// A kernel step's launch, and the number of its group.
#[derive(Clone, Copy)]
pub(super) struct PlannedLaunch<'a> {
    pub(super) launch: &'a KernelLaunch,
    pub(super) group: usize,
}

/// The shared data of equal launches.
pub(super) struct LaunchGroup {
    pub(super) kernel: KernelId,
    /// The number of launches.
    pub(super) uses: usize,
    /// The values of the kernel's symbols.
    pub(super) symbols: Arc<[i64]>,
    pub(super) code: GroupCode,
    /// Known if there is code.
    pub(super) numbers: Option<Arc<LaunchNumbers>>,
}

/// How a group's launches are executed.
pub(super) enum GroupCode {
    /// By running this code.
    Ready(Arc<CompiledKernel>, Arc<Schedule>),
    /// By the interpreter, until then.
    Interpreter(Until),
}

impl GroupCode {
    pub(super) fn compiled(&self) -> Option<&Arc<CompiledKernel>> {
        match self {
            Self::Ready(compiled, _) => Some(compiled),
            Self::Interpreter(_) => None,
        }
    }
}

impl Launches<'_> {
    /// Each launch with its code, if there is some.
    pub(super) fn with_code(
        &self,
    ) -> impl Iterator<Item = (&KernelLaunch, Option<&Arc<CompiledKernel>>)> {
        let code = |planned: &PlannedLaunch<'_>| self.groups.get(planned.group)?.code.compiled();
        self.of_step
            .iter()
            .map(move |planned| (planned.launch, code(planned)))
    }
}

impl<'a> Maker<'a> {
    /// Groups the launches of steps, each with its code; missing code is compiled.
    pub(super) fn launches(
        &self,
        steps: &'a [Step],
        patience: &Patience<'_>,
    ) -> Result<Launches<'a>, RuntimeError> {
        // By a hash; on a collision, the later one is a separate group.
        let mut known: HashMap<u64, usize, BuildHasherDefault<SizesHasher>> = HashMap::default();
        known.reserve(steps.len());
        let mut launches = Launches::default();
        let mut symbols: Vec<i64> = Vec::new();
        for step in steps {
            let Action::Kernel(launch) = &step.action else {
                continue;
            };
            symbols.clear();
            let mut hasher = SizesHasher::default();
            hasher.write_usize(launch.kernel.index());
            for &size in &launch.symbols {
                let value = self.value(size)?;
                hasher.write_u64(value.cast_unsigned());
                symbols.push(value);
            }
            let next = launches.groups.len();
            let group = *known.entry(hasher.finish()).or_insert(next);
            let is_known = launches
                .groups
                .get(group)
                .is_some_and(|group| group.kernel == launch.kernel && *group.symbols == *symbols);
            let group = if is_known { group } else { next };
            if group == next {
                launches.groups.push(LaunchGroup {
                    kernel: launch.kernel,
                    uses: 0,
                    symbols: Arc::from(symbols.as_slice()),
                    code: GroupCode::Interpreter(Until::Code),
                    numbers: None,
                });
            }
            if let Some(group) = launches.groups.get_mut(group) {
                group.uses += 1;
            }
            launches.of_step.push(PlannedLaunch { launch, group });
        }
        self.choose_all(&mut launches.groups, patience)?;
        for group in &mut launches.groups {
            if let Some(compiled) = group.code.compiled() {
                let numbers = self.numbers_of(compiled, &group.symbols)?;
                group.numbers = Some(Arc::new(numbers));
            }
        }
        Ok(launches)
    }

    /// Chooses the code of groups, and compiles what is missing.
    fn choose_all(
        &self,
        groups: &mut [LaunchGroup],
        patience: &Patience<'_>,
    ) -> Result<(), RuntimeError> {
        let manager = self.runtime.manager();
        // One request for all groups of a kernel for which the same choices hold.
        let mut wanted: Vec<(KernelId, Wanted<'_>)> = Vec::new();
        let mut of_kernel: SecondaryMap<KernelId, SmallVec<[usize; 1]>> = SecondaryMap::new();
        let mut requests = Vec::with_capacity(groups.len());
        for group in groups.iter() {
            let context = self.prepared.kernel(group.kernel);
            patience.control.map_or(Ok(()), CallControl::check)?;
            let wants = context.wanted_at(manager.kernels(), &group.symbols);
            let before = &mut of_kernel[group.kernel];
            let is_same = |&request: &usize| {
                let other = wanted.get(request).map(|(_, wanted)| &wanted.choices);
                other.is_some_and(|other| are_same(other, &wants.choices))
            };
            let request = before.iter().copied().find(is_same).unwrap_or_else(|| {
                before.push(wanted.len());
                wanted.push((group.kernel, wants));
                wanted.len() - 1
            });
            requests.push(request);
            if let Some((_, wanted)) = wanted.get_mut(request)
                && patience.permission.is_background()
            {
                // An interpreted point counts as a nanosecond: only the order of kernels matters.
                let kernel = context.identity().kernel.kernel();
                let points = points(kernel, &group.symbols);
                let interpreted = points * group.uses as f64;
                wanted.worth = wanted.worth.saturating_add(interpreted as u64);
            }
        }
        let (kernels, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        let recorder = &self.prepared.recorder;
        let chosen = manager.get_or_compile(&wanted, patience, recorder);
        patience.control.map_or(Ok(()), CallControl::check)?;
        let chosen = wanted.iter().zip(kernels).zip(chosen);
        let chosen = chosen
            .map(|((wanted, kernel), chosen)| self.code_of(kernel, wanted.identity.name(), chosen));
        let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
        for (group, request) in groups.iter_mut().zip(requests) {
            group.code = match chosen.get(request) {
                Some(GroupCode::Ready(compiled, schedule)) => {
                    GroupCode::Ready(Arc::clone(compiled), Arc::clone(schedule))
                }
                Some(GroupCode::Interpreter(until)) => GroupCode::Interpreter(*until),
                None => GroupCode::Interpreter(Until::Code),
            };
        }
        Ok(())
    }

    /// A kernel without code is left to the interpreter, with a warning if it does not compile; unless there is only the
    /// interpreter.
    fn code_of(
        &self,
        kernel: KernelId,
        name: &str,
        chosen: Chosen,
    ) -> Result<GroupCode, RuntimeError> {
        match chosen {
            Ok((compiled, schedule)) => Ok(GroupCode::Ready(compiled, Arc::new(schedule))),
            Err(NoCode::Later) => Ok(GroupCode::Interpreter(Until::Code)),
            Err(NoCode::Error(error)) if error.ends_the_call() => Err(error),
            Err(NoCode::Error(error)) => {
                tracing::warn!(kernel = name, %error, "left to the interpreter");
                let kernels = self.runtime.manager().kernels();
                let choices = self.prepared.kernel(kernel).choices(kernels);
                let retry = self.runtime.retry_at(choices);
                Ok(GroupCode::Interpreter(
                    retry.map_or(Until::Ever, Until::Retry),
                ))
            }
        }
    }

    /// The numbers of a launch of code.
    pub(super) fn numbers_of(
        &self,
        code: &CompiledKernel,
        symbols: &[i64],
    ) -> Result<LaunchNumbers, RuntimeError> {
        let ctx = LaunchContext {
            symbols,
            threads: self.runtime.executor().parallelism(),
            caches: self.runtime.executor().caches(),
        };
        code.numbers(&ctx)
    }
}

/// Whether two requests have the same choices, which are those of one kernel.
fn are_same(left: &[&Choice], right: &[&Choice]) -> bool {
    let pairs = left.iter().zip(right);
    left.len() == right.len()
        && pairs
            .into_iter()
            .all(|(left, right)| std::ptr::eq(*left, *right))
}
