//! Control flow: regions filled by closures.
//!
//! A closure receives the builder, with the region open, and the parameters that represent the captures; other outside
//! values are inaccessible. A loop's body is built with the sizes its carried values start with; where an iteration
//! changes one, the body is rebuilt with a per-iteration symbol for that size.

use super::GraphBuilder;
use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use crate::node::OpView;
use crate::rules::{if_results, loop_results};
use cranelift_entity::EntityRef;
use kiln_ir::{Op, REGION_DEPTH_LIMIT, RegionId, Type, ValueId};
use kiln_symbolic_shape::{Proof, SymbolId};
use kiln_tensor::DType;
use std::collections::BTreeSet;

/// The operands of a loop.
#[derive(Clone, Copy, Debug)]
pub struct LoopOperands<'a> {
    /// The number of iterations: `i64[]`.
    pub trips: ValueId,
    /// Whether there is a first iteration: `bool[]`.
    pub condition: ValueId,
    /// The initial carried values.
    pub carried: &'a [ValueId],
    /// The values that every iteration reads.
    pub captures: &'a [ValueId],
}

/// The maximum number of loop bodies that one builder may rebuild; beyond it, every size of a carried value is assumed
/// to change.
pub(super) const REBUILD_LIMIT: u32 = 1024;

/// The results of one iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBody {
    /// Whether to continue: `bool[]`.
    pub condition: ValueId,
    /// The carried values for the next iteration.
    pub carried: Vec<ValueId>,
    /// Values to be stacked over iterations.
    pub stacked: Vec<ValueId>,
}

/// The builder's state to restore when a region is closed.
struct Outside {
    region: RegionId,
    defined: BTreeSet<SymbolId>,
}

/// Sizes of carried values that change: carried value, axis.
type Changing = BTreeSet<(usize, usize)>;

impl GraphBuilder {
    /// The results of `then` or `otherwise`, selected by the condition at run time; a known condition builds its branch
    /// directly.
    ///
    /// # Errors
    /// Those of the closures, and when the branches' results differ in more than sizes.
    pub fn if_else<E: From<InferError>>(
        &mut self,
        condition: ValueId,
        captures: &[ValueId],
        then: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>, E>,
        otherwise: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>, E>,
    ) -> Result<Vec<ValueId>, E> {
        self.if_else_defining(&[], condition, captures, then, otherwise)
    }

    /// As [`if_else`](Self::if_else); the sizes that are known only after it ran become `symbols`, in order, and then
    /// fresh symbols. For copies of an `if` whose symbols are in use.
    ///
    /// # Errors
    /// As [`if_else`](Self::if_else).
    pub fn if_else_defining<E: From<InferError>>(
        &mut self,
        symbols: &[SymbolId],
        condition: ValueId,
        captures: &[ValueId],
        then: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>, E>,
        otherwise: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>, E>,
    ) -> Result<Vec<ValueId>, E> {
        let known = self
            .known_values(condition)
            .and_then(|dims| dims.first().copied());
        match known.and_then(|dim| self.dims().as_constant(dim)) {
            Some(0) => return otherwise(self, captures),
            Some(_) => return then(self, captures),
            None => {}
        }
        let operands: Vec<ValueId> = [condition]
            .into_iter()
            .chain(captures.iter().copied())
            .collect();
        self.check_places("if", &operands)?;
        let first = self.branch(captures, then)?;
        let second = self.branch(captures, otherwise)?;
        Ok(self.append_control(Op::If, &operands, &[first, second], symbols)?)
    }

    /// Repeats `body` until `trips: i64[]` iterations are done or the condition is false. The body receives the
    /// iteration `i64[]`, the carried values and the captures. The results are the last carried values, then each
    /// stacked value with a new outermost axis.
    ///
    /// The body may be built several times, and must do the same each time.
    ///
    /// # Errors
    /// Those of the closure, and when an iteration changes the rank or dtype of a carried value.
    pub fn loop_<E: From<InferError>>(
        &mut self,
        trips: ValueId,
        condition: ValueId,
        carried: &[ValueId],
        captures: &[ValueId],
        body: impl FnMut(&mut Self, ValueId, &[ValueId], &[ValueId]) -> Result<LoopBody, E>,
    ) -> Result<Vec<ValueId>, E> {
        let operands = LoopOperands {
            trips,
            condition,
            carried,
            captures,
        };
        self.loop_defining(&[], operands, body)
    }

    /// As [`loop_`](Self::loop_); the sizes that are known only after it ran become `symbols`, in order, and then fresh
    /// symbols. For copies of a loop whose symbols are in use.
    ///
    /// # Errors
    /// As [`loop_`](Self::loop_).
    pub fn loop_defining<E: From<InferError>>(
        &mut self,
        symbols: &[SymbolId],
        LoopOperands {
            trips,
            condition,
            carried,
            captures,
        }: LoopOperands<'_>,
        mut body: impl FnMut(&mut Self, ValueId, &[ValueId], &[ValueId]) -> Result<LoopBody, E>,
    ) -> Result<Vec<ValueId>, E> {
        let operands: Vec<ValueId> = [trips, condition]
            .into_iter()
            .chain(carried.iter().copied())
            .chain(captures.iter().copied())
            .collect();
        self.check_places("loop", &operands)?;
        let ranks: Vec<usize> = carried
            .iter()
            .map(|&value| self.ty(value).innermost().rank())
            .collect();
        let all: Changing = ranks
            .iter()
            .enumerate()
            .flat_map(|(index, &rank)| (0..rank).map(move |axis| (index, axis)))
            .collect();
        let mut changing = if self.rebuilds_left == 0 {
            all.clone()
        } else {
            Changing::new()
        };
        let region = loop {
            let before = (changing.len() < all.len()).then(|| self.clone());
            let region = self.loop_region(carried, captures, &changing, &mut body)?;
            let found = self.changed_sizes(region, carried.len(), &changing);
            match before {
                Some(before) if !found.is_empty() => {
                    let first_time = changing.is_empty();
                    *self = Self {
                        rebuilds_left: self.rebuilds_left.saturating_sub(1),
                        ..before
                    };
                    // If sizes change a second time, all are assumed to change.
                    changing = if first_time && self.rebuilds_left > 0 {
                        found
                    } else {
                        all.clone()
                    };
                }
                _ => break region,
            }
        };
        Ok(self.append_control(
            Op::Loop {
                carried: carried.len(),
            },
            &operands,
            &[region],
            symbols,
        )?)
    }

    /// Repeats `body` exactly `trips` times; see [`loop_`](Self::loop_).
    ///
    /// # Errors
    /// As [`loop_`](Self::loop_).
    pub fn repeat<E: From<InferError>>(
        &mut self,
        trips: ValueId,
        carried: &[ValueId],
        captures: &[ValueId],
        mut body: impl FnMut(
            &mut Self,
            ValueId,
            &[ValueId],
            &[ValueId],
        ) -> Result<(Vec<ValueId>, Vec<ValueId>), E>,
    ) -> Result<Vec<ValueId>, E> {
        let always = self.scalar(DType::Bool, 1.0)?;
        self.loop_(
            trips,
            always,
            carried,
            captures,
            |builder, iteration, carried, captures| {
                let (carried, stacked) = body(builder, iteration, carried, captures)?;
                let condition = builder.scalar(DType::Bool, 1.0)?;
                Ok(LoopBody {
                    condition,
                    carried,
                    stacked,
                })
            },
        )
    }

    fn branch<E: From<InferError>>(
        &mut self,
        captures: &[ValueId],
        fill: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>, E>,
    ) -> Result<RegionId, E> {
        let outside = self.open_region()?;
        let region = self.region;
        let parameters = self.capture(captures);
        let results = fill(self, &parameters)?;
        self.check_places("yield", &results)?;
        self.graph.set_results(region, results);
        self.close_region(outside);
        Ok(region)
    }

    fn loop_region<E: From<InferError>>(
        &mut self,
        carried: &[ValueId],
        captures: &[ValueId],
        changing: &Changing,
        body: &mut impl FnMut(&mut Self, ValueId, &[ValueId], &[ValueId]) -> Result<LoopBody, E>,
    ) -> Result<RegionId, E> {
        let outside = self.open_region()?;
        let region = self.region;
        let iteration = self.parameter(Type::tensor(DType::I64, []));
        let mut parameters = Vec::with_capacity(carried.len());
        for (index, &value) in carried.iter().enumerate() {
            let ty = self.carried_type(value, index, changing)?;
            parameters.push(self.parameter(ty));
        }
        let captured = self.capture(captures);
        let LoopBody {
            condition,
            carried: next,
            stacked,
        } = body(self, iteration, &parameters, &captured)?;
        if next.len() != carried.len() {
            // Otherwise a surplus value would be stacked, and a missing one would be replaced by a stacked one.
            let (expected, found) = (carried.len().to_string(), next.len().to_string());
            let what = "carried values of an iteration".to_owned();
            let kind = InferErrorKind::Region {
                what,
                expected,
                found,
            };
            return Err(E::from(self.mistake_of("loop", kind)));
        }
        let results: Vec<ValueId> = [condition].into_iter().chain(next).chain(stacked).collect();
        self.check_places("yield", &results)?;
        self.graph.set_results(region, results);
        self.close_region(outside);
        Ok(region)
    }

    /// The type of a carried value inside: changing sizes are symbols of the region.
    fn carried_type(
        &mut self,
        value: ValueId,
        index: usize,
        changing: &Changing,
    ) -> Result<Type, InferError> {
        let ty = self.ty(value).clone();
        let mut axis = 0;
        ty.try_map_dims(&mut |dim| {
            let size = if changing.contains(&(index, axis)) {
                let symbol = self.dims_mut().fresh("n");
                self.graph.add_region_symbol(self.region, symbol);
                self.defined.insert(symbol);
                self.dims_mut().dim(symbol)
            } else {
                dim
            };
            axis += 1;
            Ok(size)
        })
    }

    /// The sizes that an iteration is not proved to preserve, except those known to change.
    fn changed_sizes(&self, region: RegionId, carried: usize, changing: &Changing) -> Changing {
        let region = self.graph.region(region);
        let edges = region
            .parameters
            .iter()
            .skip(1)
            .zip(region.results.iter().skip(1))
            .take(carried);
        let mut changed = changing.clone();
        for (index, (&before, &after)) in edges.enumerate() {
            let (before, after) = (self.ty(before).innermost(), self.ty(after).innermost());
            for (axis, (&before, &after)) in before.dims.iter().zip(&after.dims).enumerate() {
                if before != after && self.dims().equal(before, after) != Proof::Proved {
                    changed.insert((index, axis));
                }
            }
        }
        if changed == *changing {
            Changing::new()
        } else {
            changed
        }
    }

    /// Appends a control op with a symbol for each size that is known only after it ran: the given ones, then fresh ones.
    fn append_control(
        &mut self,
        op: Op,
        operands: &[ValueId],
        regions: &[RegionId],
        given: &[SymbolId],
    ) -> Result<Vec<ValueId>, InferError> {
        let origin = self.origin.clone();
        let node = OpView {
            op: &op,
            operands,
            regions,
            symbols: &[],
            origin: origin.as_deref(),
            result: Some(ValueId::new(self.graph.n_values())),
        };
        let mut ctx = InferenceContext::new(&mut self.graph, &mut self.state);
        let results = match op {
            Op::Loop { carried } => loop_results(&mut ctx, &node, carried)?,
            _ => if_results(&mut ctx, &node)?,
        };
        let open: usize = results.iter().map(|result| result.open.len()).sum();
        let mut symbols: Vec<SymbolId> = given.iter().copied().take(open).collect();
        while symbols.len() < open {
            symbols.push(self.dims_mut().fresh("n"));
        }
        self.append(op, operands, regions, &symbols)
            .map(|results| results.to_vec())
    }

    fn open_region(&mut self) -> Result<Outside, InferError> {
        if self.state.depth >= REGION_DEPTH_LIMIT {
            let (given, limit) = (self.state.depth + 1, REGION_DEPTH_LIMIT);
            return Err(self.mistake(InferErrorKind::Limit {
                what: "nested regions",
                given,
                limit,
            }));
        }
        let region = self.graph.add_region();
        let outside = Outside {
            region: self.region,
            defined: self.defined.clone(),
        };
        self.region = region;
        self.state.depth += 1;
        Ok(outside)
    }

    fn close_region(&mut self, outside: Outside) {
        self.region = outside.region;
        self.defined = outside.defined;
        self.state.depth -= 1;
    }

    fn parameter(&mut self, ty: Type) -> ValueId {
        let value = self.graph.add_parameter(self.region, ty);
        self.places[value] = self.region.into();
        value
    }

    /// Parameters that represent captures, with their known elements.
    fn capture(&mut self, captures: &[ValueId]) -> Vec<ValueId> {
        let mut parameters = Vec::with_capacity(captures.len());
        for &value in captures {
            let parameter = self.parameter(self.ty(value).clone());
            let known = self.known(value).cloned();
            self.state.remember_parameter(parameter, known);
            parameters.push(parameter);
        }
        parameters
    }
}
