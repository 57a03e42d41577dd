//! Decisions that depend on sizes, as data: whether a plan serves them, and which code a kernel is launched with.
//!
//! A program has the checks of its segments; a kernel's dispatch depends on the schedules a compiler offers for it. A
//! runtime executes both when it builds a launch plan. A call with known sizes executes neither.

use std::cell::OnceCell;

use kiln_backend::{Candidate, FALLBACK_SCHEDULE, Schedule};
use kiln_symbolic_shape::{Binding, DimTable, EvaluateError, PlanFact, Predicate, Proof};

/// An operation that is executed on sizes. `L` represents a kernel's code: a schedule, or a runtime's extension of it.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanOperation<L = Schedule> {
    /// Compares the two sizes of each fact. If they differ, a plan without the fact has to run.
    CheckShapes {
        /// The facts that the plan depends on.
        facts: Vec<PlanFact>,
    },
    /// Launches a kernel by the first of these cases that holds. If its code is unavailable, the next one is taken.
    Dispatch {
        /// The best case first; the last one holds for all sizes. Empty if there is no compiler.
        cases: Vec<DispatchCase<L>>,
    },
}

/// A way to launch a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchCase<L = Schedule> {
    /// The conditions on the kernel's sizes; empty for code that serves all of them.
    pub when: Vec<Predicate>,
    /// The code to launch.
    pub launch: L,
}

/// A fact whose sizes have no values yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFact {
    /// The fact, as text.
    pub name: String,
    /// The symbol without a value.
    pub error: EvaluateError,
}

impl<L> PlanOperation<L> {
    /// The checked facts.
    pub fn facts(&self) -> &[PlanFact] {
        match self {
            Self::CheckShapes { facts } => facts,
            Self::Dispatch { .. } => &[],
        }
    }

    /// The facts that are false for these sizes. One that cannot be computed counts as false: the plan that serves all
    /// sizes reports the error.
    ///
    /// # Errors
    /// A fact about a symbol without a value.
    pub fn failed_facts(
        &self,
        dims: &DimTable,
        binding: &Binding,
    ) -> Result<Vec<PlanFact>, UnknownFact> {
        let mut failed = Vec::new();
        for fact in self.facts() {
            let value = |dim| dims.evaluate(dim, binding);
            match (value(fact.left), value(fact.right)) {
                (Ok(left), Ok(right)) if left == right => {}
                (Err(error @ EvaluateError::Unbound { .. }), _)
                | (_, Err(error @ EvaluateError::Unbound { .. })) => {
                    let name = fact.name(dims);
                    return Err(UnknownFact { name, error });
                }
                _ => failed.push(fact.clone()),
            }
        }
        Ok(failed)
    }

    fn cases(&self) -> &[DispatchCase<L>] {
        match self {
            Self::Dispatch { cases } => cases,
            Self::CheckShapes { .. } => &[],
        }
    }

    /// The possible launches, best first.
    pub fn launches(&self) -> impl Iterator<Item = &L> {
        self.cases().iter().map(|case| &case.launch)
    }

    /// The possible launches for all sizes, best first.
    pub fn launches_for_all(&self) -> impl Iterator<Item = &L> {
        let cases = self.cases().iter().filter(|case| case.when.is_empty());
        cases.map(|case| &case.launch)
    }

    /// The possible launches for these sizes of the kernel's table, best first. The sizes are evaluated only if something
    /// depends on them.
    pub fn launches_for(
        &self,
        dims: &DimTable,
        binding: impl Fn() -> Binding,
    ) -> impl Iterator<Item = &L> {
        let known = OnceCell::new();
        let cases = self.cases().iter().filter(move |case| {
            let mut when = case.when.iter();
            when.all(|predicate| dims.holds(predicate, known.get_or_init(&binding)) == Ok(true))
        });
        cases.map(|case| &case.launch)
    }

    /// The same operation with a different code representation in each case.
    pub fn map<M>(self, mut launch: impl FnMut(L) -> M) -> PlanOperation<M> {
        match self {
            Self::CheckShapes { facts } => PlanOperation::CheckShapes { facts },
            Self::Dispatch { cases } => PlanOperation::Dispatch {
                cases: cases
                    .into_iter()
                    .map(|DispatchCase { when, launch: old }| DispatchCase {
                        when,
                        launch: launch(old),
                    })
                    .collect(),
            },
        }
    }
}

impl PlanOperation {
    /// The operation in readable form, a line for each fact or case. `dims` is the table of its sizes.
    pub fn lines(&self, dims: &DimTable) -> Vec<String> {
        match self {
            Self::CheckShapes { facts } => {
                let fact =
                    |fact: &PlanFact| format!("expects {} ({})", fact.name(dims), fact.origin);
                facts.iter().map(fact).collect()
            }
            Self::Dispatch { cases } => {
                let case = |DispatchCase { when, launch }: &DispatchCase| {
                    let when = when.iter().map(|it| dims.display_predicate(it).to_string());
                    match when.collect::<Vec<_>>().join(" and ").as_str() {
                        "" => format!("launched for all sizes: {launch}"),
                        when => format!("launched where {when}: {launch}"),
                    }
                };
                cases.iter().map(case).collect()
            }
        }
    }
}

/// Builds operations from what is known of sizes.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeShapeInjector<'a> {
    dims: &'a DimTable,
}

impl<'a> RuntimeShapeInjector<'a> {
    /// An injector for sizes of a table.
    pub fn new(dims: &'a DimTable) -> Self {
        Self { dims }
    }

    /// The check before steps that depend on these facts; `None` if there are none.
    pub fn inject_shape_check(&self, facts: Vec<PlanFact>) -> Option<PlanOperation> {
        (!facts.is_empty()).then_some(PlanOperation::CheckShapes { facts })
    }

    /// The ways to launch a kernel that a compiler offers, best first. Cases that hold for no sizes of the kernel are
    /// omitted, and conditions that hold for all of them are not checked.
    pub fn generate_shape_dispatch(&self, candidates: Vec<Candidate>) -> PlanOperation {
        let mut cases = Vec::with_capacity(candidates.len() + 1);
        for Candidate {
            schedule,
            mut predicate,
            ..
        } in candidates
        {
            let proofs = predicate.iter().map(|it| self.dims.prove(it));
            let proofs: Vec<Proof> = proofs.collect();
            if proofs.contains(&Proof::Disproved) {
                continue;
            }
            let mut proofs = proofs.iter();
            predicate.retain(|_| proofs.next() != Some(&Proof::Proved));
            cases.push(DispatchCase {
                when: predicate,
                launch: schedule,
            });
        }
        let is_generic = |case: &DispatchCase| case.launch.is_fallback() && case.when.is_empty();
        if !cases.iter().any(is_generic) {
            cases.push(self.generate_generic_fallback());
        }
        PlanOperation::Dispatch { cases }
    }

    /// A launch of any kernel with one case, for all sizes.
    pub fn generate_generic_fallback(&self) -> DispatchCase {
        DispatchCase {
            when: Vec::new(),
            launch: Schedule::new(FALLBACK_SCHEDULE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_symbolic_shape::SymbolicDimension;

    fn table() -> DimTable {
        let mut dims = DimTable::new();
        let n = SymbolicDimension::named("N").multiple_of(4).unwrap();
        dims.declare(n).unwrap();
        dims.declare(SymbolicDimension::range("M", 0..8).unwrap())
            .unwrap();
        dims
    }

    fn binding(dims: &DimTable, sizes: &[(&str, i64)]) -> Binding {
        let symbol = |name| dims.symbol_named(name).unwrap();
        sizes
            .iter()
            .map(|&(name, size)| (symbol(name), size))
            .collect()
    }

    #[test]
    fn fact_checks_return_the_false_facts() {
        let dims = table();
        let dim = |name| dims.dim(dims.symbol_named(name).unwrap());
        let injector = RuntimeShapeInjector::new(&dims);
        assert_eq!(injector.inject_shape_check(Vec::new()), None);
        let fact = PlanFact {
            left: dim("N"),
            right: dim("M"),
            origin: "add %7".to_owned(),
        };
        let check = injector.inject_shape_check(vec![fact.clone()]).unwrap();
        assert_eq!(check.lines(&dims), ["expects N == M (add %7)"]);
        let failed = |sizes| check.failed_facts(&dims, &binding(&dims, sizes));
        assert_eq!(failed(&[("N", 4), ("M", 4)]), Ok(vec![]));
        assert_eq!(failed(&[("N", 4), ("M", 5)]), Ok(vec![fact]));
        assert_eq!(failed(&[("N", 4)]).unwrap_err().name, "N == M");
        assert_eq!(check.launches().count(), 0);
    }

    #[test]
    fn a_dispatch_lists_the_possible_cases_and_then_the_fallback() {
        let mut dims = table();
        let dim = |dims: &DimTable, name| dims.dim(dims.symbol_named(name).unwrap());
        let (n, m) = (dim(&dims, "N"), dim(&dims, "M"));
        let (eight, ten) = (dims.constant(8), dims.constant(10));
        let divides = |divisor, dim| Predicate::Divides { divisor, dim };
        let candidate = |name: &str, predicate| Candidate {
            schedule: Schedule::new(name),
            predicate,
            layouts: Vec::new(),
            cost: 1.0,
        };
        let dispatch = RuntimeShapeInjector::new(&dims).generate_shape_dispatch(vec![
            candidate("never", vec![Predicate::LessEqual(ten, m)]),
            candidate("wide", vec![divides(4, n), Predicate::LessEqual(eight, n)]),
            candidate("by_three", vec![divides(3, m), divides(3, n)]),
            candidate("by_four", vec![divides(4, n)]),
        ]);
        assert_eq!(
            dispatch.lines(&dims),
            [
                "launched where N >= 8: wide",
                "launched where M % 3 == 0 and N % 3 == 0: by_three",
                "launched for all sizes: by_four",
                "launched for all sizes: fallback",
            ]
        );
        let chosen = |sizes| {
            let chosen = dispatch.launches_for(&dims, || binding(&dims, sizes));
            chosen.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(&[("N", 12), ("M", 6)]),
            ["wide", "by_three", "by_four", "fallback"]
        );
        assert_eq!(chosen(&[("N", 4), ("M", 6)]), ["by_four", "fallback"]);
        assert_eq!(dispatch.launches_for_all().count(), 2);
    }
}
