//! Ahead-of-time compilation: for given shapes, for those of a profile, or of everything that needs no shape.

use std::time::Duration;

use kiln_interpreter::bind_symbols;

use super::{ProfiledShapes, ShapeProfile};
use crate::compile::{Patience, Permission, Urgency};
use crate::error::RuntimeError;
use crate::plan::{Key, Refusal, SegmentPlan, make_plan, place_all_constants};
use crate::program::CompiledProgram;

impl CompiledProgram {
    /// Compiles every kernel of the main plan, for all sizes, and of the general plan, and waits for that. Returns the
    /// number of kernels.
    ///
    /// # Errors
    /// The first kernel that does not compile; that there is no general plan.
    pub fn compile_all(&self) -> Result<usize, RuntimeError> {
        self.make_general_plan()?;
        let plans = self.plans();
        for plan in &plans {
            let prepared = &plan.prepared;
            let manager = self.runtime().manager();
            manager.precompile(prepared.kernels(), &prepared.recorder)?;
        }
        let kernels = plans.iter().map(|plan| plan.prepared.kernels().len());
        Ok(kernels.sum())
    }

    /// Packs every constant for the code that serves all sizes, and has the result stored: the counterpart of
    /// [`compile_all`](Self::compile_all) for weights.
    pub fn place_constants(&self) {
        for plan in self.plans() {
            place_all_constants(self.runtime(), &plan.prepared, &Patience::ENDLESS);
        }
    }

    /// Makes the launch plan for inputs of these shapes, and compiles the code it needs; a call with such inputs then
    /// compiles nothing, as far as its sizes are known when it begins.
    ///
    /// # Errors
    /// Shapes that do not fit the graph, a kernel that does not compile.
    pub fn precompile(&self, shapes: &[Vec<usize>]) -> Result<(), RuntimeError> {
        self.plan_ahead(shapes, &Patience::ENDLESS, false)
    }

    /// Precompiles the shapes of a profile in the background, the most expensive first, and does not wait; the expensive
    /// ones get variants as soon as they occur in calls. Shapes that do not fit are skipped. Returns the number that fit.
    pub fn precompile_in_background(&self, profile: &ShapeProfile) -> usize {
        let fits = |entry: &&ProfiledShapes| {
            let now = self.runtime().clock().now();
            let patience = Patience {
                permission: Permission::Compile(Urgency::Background {
                    worth: entry.nanoseconds,
                }),
                block_until: Some(now),
                fail_at: None,
                control: None,
            };
            let after = self
                .runtime()
                .variants()
                .options()
                .map(|options| options.after);
            let is_hot =
                after.is_some_and(|after| Duration::from_nanos(entry.nanoseconds) >= after);
            self.plan_ahead(&entry.shapes, &patience, is_hot).is_ok()
        };
        profile.entries().iter().filter(fits).count()
    }

    /// The shapes that occurred in calls, and the time these took, according to the launch plans that are kept.
    pub fn shape_profile(&self) -> ShapeProfile {
        let graph = self.program().graph();
        let ranks: Vec<usize> = graph
            .inputs()
            .iter()
            .map(|&input| graph.tensor_ty(input).map_or(0, kiln_ir::TensorType::rank))
            .collect();
        let of_plan = |key: &Key, plan: &SegmentPlan| {
            let mut sizes = key.iter().map(|&size| usize::try_from(size).unwrap_or(0));
            let (calls, nanoseconds) = plan.use_so_far.read();
            ProfiledShapes {
                shapes: ranks
                    .iter()
                    .map(|&rank| sizes.by_ref().take(rank).collect())
                    .collect(),
                calls,
                nanoseconds,
            }
        };
        let entries = self.plans().into_iter().flat_map(|plan| {
            let prepared = &plan.prepared;
            prepared.memo(prepared.program.body(), 0).map(of_plan)
        });
        ShapeProfile::new(entries.filter(|entry| entry.calls > 0))
    }

    fn plan_ahead(
        &self,
        shapes: &[Vec<usize>],
        patience: &Patience,
        is_hot: bool,
    ) -> Result<(), RuntimeError> {
        let borrowed: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let binding = bind_symbols(self.program().graph(), &borrowed)?;
        let other = self.plan_for(&binding, patience)?;
        let prepared = other
            .as_ref()
            .map_or_else(|| self.prepared(), |plan| &plan.prepared);
        let program = &prepared.program;
        // Symbols of two plans need not have the same ids.
        let binding = bind_symbols(program.graph(), &borrowed)?;
        let sizes = shapes.iter().flatten();
        let key: Key = sizes.map(|&size| size as i64).collect();
        let memo = prepared.memo(program.body(), 0);
        let is_ready = memo.get(&key).is_some_and(|plan| plan.waits.is_none());
        if is_ready {
            return Ok(());
        }
        match make_plan(
            self.runtime(),
            prepared,
            program.body(),
            0,
            binding,
            &[],
            patience,
        ) {
            Ok(plan) => {
                if is_hot {
                    plan.hasten();
                }
                memo.replace(key, plan);
                Ok(())
            }
            // A planner that does not know a fact by its name: the general plan serves these sizes.
            Err(Refusal::Facts(_)) => Ok(()),
            Err(Refusal::Error(error)) => Err(error),
        }
    }
}
