//! Checks the types of a whole graph by proof, or recomputes them.
//!
//! Both take a graph that `kiln_ir::verify` accepts, and visit its ops in program order, the ops of regions before the
//! op that contains them, with the known elements of captures.

use crate::context::{Agreement, InferenceContext};
use crate::engine::ShapeInferenceEngine;
use crate::error::{InferError, InferErrorKind, InferErrors};
use crate::node::OpView;
use crate::rule::Inferred;
use crate::state::InferenceState;
use cranelift_entity::SecondaryMap;
use kiln_ir::{Graph, Op, OpData, OpId, REGION_DEPTH_LIMIT, RegionId, Type, ValueId};
use kiln_symbolic_shape::Predicate;

/// The number of errors after which a check stops.
const ERROR_LIMIT: usize = 100;

/// Checks by proof that the result types of every op of a verified graph follow from its operands.
///
/// # Errors
/// Every op whose operands do not fit, or whose types are not proved, up to a hundred.
pub fn check_types(graph: &Graph) -> Result<(), InferErrors> {
    check_types_with(graph, &ShapeInferenceEngine::new())
}

/// As [`check_types`], with other rules.
///
/// # Errors
/// As [`check_types`].
pub fn check_types_with(graph: &Graph, engine: &ShapeInferenceEngine) -> Result<(), InferErrors> {
    let mut checker = TypeChecker::new(graph, engine);
    let mut errors = Vec::new();
    for visit in visits(graph) {
        match visit {
            Visit::Enter { .. } => capture(graph, &mut checker.state, visit),
            Visit::Infer { op, .. } => errors.extend(checker.check(op).err()),
        }
        if errors.len() == ERROR_LIMIT {
            break;
        }
    }
    InferErrors::check(errors)
}

/// Checks the types of a verified graph op by op, by proof.
///
/// Rules may add sizes and facts. These must not enter the graph being checked, so they go into a copy that all checks
/// share: the cost of checking an op is that of its rule.
#[derive(Debug)]
pub struct TypeChecker {
    engine: ShapeInferenceEngine,
    graph: Graph,
    state: InferenceState,
    /// The number of regions around each op, not counting the body.
    depths: SecondaryMap<OpId, usize>,
}

impl TypeChecker {
    /// A checker of a graph in its current state.
    pub fn new(graph: &Graph, engine: &ShapeInferenceEngine) -> Self {
        let mut depths = SecondaryMap::new();
        for visit in visits(graph) {
            if let Visit::Infer { op, depth } = visit {
                depths[op] = depth;
            }
        }
        Self {
            engine: engine.clone(),
            graph: graph.clone(),
            state: InferenceState::default(),
            depths,
        }
    }

    /// Infers the types of an op's results again and compares them with the graph's.
    ///
    /// # Errors
    /// An op whose operands do not fit, or whose types are not proved.
    pub fn check(&mut self, op: OpId) -> Result<(), InferError> {
        let data = self.graph.op(op).clone();
        let stated = stated_types(&self.graph, &data);
        self.state.depth = self.depths[op];
        let mut ctx = InferenceContext::new(&mut self.graph, &mut self.state);
        let inferred = self
            .engine
            .validate(&mut ctx, &OpView::of_op(&data), &stated)?;
        self.state.remember(op, inferred);
        Ok(())
    }

    /// Whether the checks have exhausted the table's allowance of proof steps. Types may then be correct but unproved.
    pub fn is_prover_spent(&self) -> bool {
        self.graph.dims().is_prover_spent()
    }
}

/// Recomputes every type of a verified graph, for instance after facts were added. The old types remain as checks: an
/// old type that is not proved to equal the new one becomes a contract fact.
///
/// # Errors
/// When an op's operands do not fit, or a type can no longer be valid.
pub fn infer_types(graph: Graph) -> Result<Graph, InferErrors> {
    infer_types_with(graph, &ShapeInferenceEngine::new())
}

/// As [`infer_types`], with other rules.
///
/// # Errors
/// As [`infer_types`].
pub fn infer_types_with(
    mut graph: Graph,
    engine: &ShapeInferenceEngine,
) -> Result<Graph, InferErrors> {
    let mut state = InferenceState::default();
    for visit in visits(&graph) {
        let Visit::Infer { op, depth } = visit else {
            if let Visit::Enter { op } = visit {
                retype_parameters(&mut graph, op);
            }
            capture(&graph, &mut state, visit);
            continue;
        };
        let data = graph.op(op).clone();
        let stated = stated_types(&graph, &data);
        state.depth = depth;
        let mut ctx = InferenceContext::new(&mut graph, &mut state);
        let inferred = retype(&mut ctx, engine, &data, &stated)?;
        for (&result, ty) in data.results.iter().zip(&inferred.types) {
            graph.set_ty(result, ty.clone());
        }
        state.remember(op, inferred);
    }
    Ok(graph)
}

/// The new types of an op's results.
fn retype(
    ctx: &mut InferenceContext<'_>,
    engine: &ShapeInferenceEngine,
    data: &OpData,
    stated: &[Type],
) -> Result<Inferred, InferError> {
    let node = OpView::of_op(data);
    if matches!(data.op, Op::If | Op::Loop { .. }) {
        // Their symbols are tied to the sizes that the types state.
        return engine.validate(ctx, &node, stated);
    }
    let inferred = engine.infer(ctx, &node)?;
    if inferred.types.len() != stated.len() {
        ctx.check_types(&node, &inferred.types, stated)?;
    }
    for (index, (ty, before)) in inferred.types.iter().zip(stated).enumerate() {
        let what = format!("result {index}");
        if ctx.compare(ty, before) == Agreement::Different {
            ctx.check_type(&node, &what, ty, before)?;
        }
        for (&dim, &before) in ty.innermost().dims.iter().zip(&before.innermost().dims) {
            if !ctx.require(&node, Predicate::Equal(dim, before), "stated type")? {
                let (expected, found) = (ctx.show(dim), ctx.show(before));
                return Err(node.error(InferErrorKind::Annotation {
                    what,
                    expected,
                    found,
                    disproved: true,
                }));
            }
        }
    }
    Ok(inferred)
}

/// One step of the walk through a graph.
#[derive(Clone, Copy)]
enum Visit {
    /// The regions of an op are about to be visited.
    Enter { op: OpId },
    /// An op, its regions done.
    Infer { op: OpId, depth: usize },
}

fn visits(graph: &Graph) -> Vec<Visit> {
    enum Work {
        Region {
            region: RegionId,
            next: usize,
            depth: usize,
        },
        Finish {
            op: OpId,
            depth: usize,
        },
    }
    let mut visits = Vec::with_capacity(graph.n_ops());
    let mut work = vec![Work::Region {
        region: graph.body(),
        next: 0,
        depth: 0,
    }];
    while let Some(item) = work.pop() {
        match item {
            Work::Finish { op, depth } => visits.push(Visit::Infer { op, depth }),
            Work::Region {
                region,
                next,
                depth,
            } => {
                let Some(&op) = graph.region(region).ops.get(next) else {
                    continue;
                };
                work.push(Work::Region {
                    region,
                    next: next + 1,
                    depth,
                });
                let regions = &graph.op(op).regions;
                if !regions.is_empty() {
                    visits.push(Visit::Enter { op });
                }
                work.push(Work::Finish { op, depth });
                if depth < REGION_DEPTH_LIMIT {
                    let inner = regions.iter().rev();
                    work.extend(inner.map(|&region| Work::Region {
                        region,
                        next: 0,
                        depth: depth + 1,
                    }));
                }
            }
        }
    }
    visits
}

/// Propagates the known elements of captures to the parameters that represent them.
fn capture(graph: &Graph, state: &mut InferenceState, visit: Visit) {
    let Visit::Enter { op } = visit else { return };
    for (_, operand, parameter) in captures(graph, op) {
        let known = state.known(graph, operand).cloned();
        state.remember_parameter(parameter, known);
    }
}

/// The captures among the operands of a control op, with the parameters that represent them.
fn captures(graph: &Graph, op: OpId) -> Vec<(RegionId, ValueId, ValueId)> {
    let data = graph.op(op);
    let (operands, parameters) = match data.op {
        Op::Loop { carried } => (carried.saturating_add(2), carried.saturating_add(1)),
        _ => (1, 0),
    };
    let mut pairs = Vec::new();
    for &region in &data.regions {
        let inside = graph.region(region).parameters.iter().skip(parameters);
        pairs.extend(
            data.operands
                .iter()
                .skip(operands)
                .zip(inside)
                .map(|(&operand, &inside)| (region, operand, inside)),
        );
    }
    pairs
}

/// Gives parameters the types of the values they represent; sizes with a per-iteration symbol are kept.
fn retype_parameters(graph: &mut Graph, op: OpId) {
    for (_, operand, parameter) in captures(graph, op) {
        let ty = graph.ty(operand).clone();
        graph.set_ty(parameter, ty);
    }
    let data = graph.op(op);
    let (Op::Loop { carried }, Some(&region)) = (&data.op, data.regions.first()) else {
        return;
    };
    let carried: Vec<(ValueId, ValueId)> = data
        .operands
        .iter()
        .skip(2)
        .zip(graph.region(region).parameters.iter().skip(1))
        .take(*carried)
        .map(|(&operand, &parameter)| (operand, parameter))
        .collect();
    let own = graph.region(region).symbols.clone();
    for (operand, parameter) in carried {
        let outside = graph.ty(operand).innermost().dims.clone();
        let mut outside = outside.into_iter();
        let ty = graph.ty(parameter).clone();
        let dims = graph.dims();
        let retyped: Result<Type, std::convert::Infallible> = ty.try_map_dims(&mut |dim| {
            let initial = outside.next().unwrap_or(dim);
            let changes = dims
                .as_symbol(dim)
                .is_some_and(|symbol| own.contains(&symbol));
            Ok(if changes { dim } else { initial })
        });
        let Ok(retyped) = retyped;
        graph.set_ty(parameter, retyped);
    }
}

fn stated_types(graph: &Graph, data: &OpData) -> Vec<Type> {
    data.results
        .iter()
        .map(|&value| graph.ty(value).clone())
        .collect()
}
