//! `inline_control_flow`: an `if` with a known condition becomes its taken branch; a loop that runs no iteration, or
//! exactly one, is dissolved.
//!
//! The symbols bound by such an op (sizes known only after it has run) are replaced by the sizes of its branch. An op
//! is kept if a result's type is not proved to be that of its replacement; and all are kept if an op that might not run
//! could now only fault.

use crate::constants::{Splat, integers, splat};
use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::peephole::constant_of;
use crate::rebuild::rebuild_with;
use crate::replace_symbols::{Replacements, replace_symbols};
use kiln_ir::{Constant, Graph, NewOp, Op, OpData, OpId, Rebuild, RegionId, Type, ValueId, Visit};
use kiln_symbolic_shape::{DimId, DimTable, Proof, SizeRequirement, SymbolId};
use kiln_tensor::Tensor;
use std::collections::BTreeMap;

const PASS: &str = "inline_control_flow";

/// Replaces control flow with a known course.
///
/// # Errors
/// None today: if a result cannot be replaced, the op is kept.
pub fn inline_control_flow(
    graph: Graph,
    ctx: &mut PassContext,
) -> Result<Changed<Graph>, PassError> {
    if graph.ops().all(|(_, data)| data.regions.is_empty()) {
        return Ok(Changed::unchanged(graph));
    }
    let mut inliner = Inliner {
        replacements: BTreeMap::new(),
        order: Replacements::new(),
        n_inlined: 0,
    };
    let inlined = rebuild_with(&graph, &mut |rebuild, into, op| {
        if inliner.inline(rebuild, into, op) {
            Visit::Done
        } else {
            Visit::Copy
        }
    });
    let n_inlined = inliner.n_inlined;
    if n_inlined == 0 {
        return Ok(Changed::unchanged(graph));
    }
    let inlined = match inliner.order.is_empty() {
        true => Ok(inlined),
        false => replace_symbols(&inlined, &inliner.order),
    };
    match inlined {
        Ok(inlined)
            if ctx.types_hold(&inlined) && ctx.count_rewrites(PASS, "inline", n_inlined) =>
        {
            Ok(Changed {
                graph: inlined,
                rewrites: n_inlined,
            })
        }
        _ => Ok(Changed::unchanged(graph)),
    }
}

/// The replacement of a control op.
enum Course {
    /// The ops of this region, once, with these old or new values as its parameters.
    Region(RegionId),
    /// The initial values of a loop.
    Nothing,
}

struct Inliner {
    replacements: BTreeMap<SymbolId, DimId>,
    order: Replacements,
    n_inlined: usize,
}

impl Inliner {
    /// Whether the op's results were mapped to their replacements.
    fn inline(&mut self, rebuild: &mut Rebuild<'_>, into: RegionId, id: OpId) -> bool {
        let data = rebuild.old().op(id);
        let Some(course) = course(rebuild, data) else {
            return false;
        };
        let yields = match course {
            Course::Region(region) => rebuild.old().region(region).results.clone(),
            Course::Nothing => data.operands.iter().skip(2).copied().collect(),
        };
        // A loop's region first yields whether to continue.
        let skip = usize::from(matches!(
            (&data.op, &course),
            (Op::Loop { .. }, Course::Region(_))
        ));
        let places: Vec<ValueId> = yields
            .into_iter()
            .skip(skip)
            .take(data.results.len())
            .collect();
        let Some(symbols) = self.match_types(rebuild, data, &places) else {
            return false;
        };
        if let Course::Region(region) = course {
            if !enter(rebuild, into, data, region) {
                return false;
            }
            let before = rebuild.new_graph().region(into).ops.len();
            rebuild.copy_ops(region, into);
            ask_in(rebuild, into, region, before);
        }
        for (&result, &place) in data.results.iter().zip(&places) {
            let value = rebuild.value(place);
            rebuild.map(result, value);
        }
        self.replacements.extend(symbols.iter().copied());
        self.order.extend(symbols);
        self.n_inlined += 1;
        true
    }

    /// The op's symbols as sizes of its results' replacements; `None` unless every result's type is proved to be that of
    /// its replacement.
    fn match_types(
        &self,
        rebuild: &mut Rebuild<'_>,
        data: &OpData,
        places: &[ValueId],
    ) -> Option<Replacements> {
        let old = rebuild.old();
        let dims = rebuild.new_graph_mut().dims_mut();
        let mut found: BTreeMap<SymbolId, DimId> = BTreeMap::new();
        if places.len() != data.results.len() {
            return None;
        }
        for (&result, &place) in data.results.iter().zip(places) {
            let (result, place) = (old.ty(result), old.ty(place));
            if !same_kind(result, place) {
                return None;
            }
            let (result, place) = (result.innermost(), place.innermost());
            for (&expected, &dim) in result.dims.iter().zip(&place.dims) {
                let dim = dims.substitute(dim, &self.replacements).ok()?;
                let symbol = dims
                    .as_symbol(expected)
                    .filter(|symbol| data.symbols.contains(symbol));
                let expected = match symbol {
                    Some(symbol) => *found.entry(symbol).or_insert(dim),
                    None => dims.substitute(expected, &self.replacements).ok()?,
                };
                if !equal(dims, expected, dim) {
                    return None;
                }
            }
        }
        data.symbols
            .iter()
            .map(|&symbol| Some((symbol, *found.get(&symbol)?)))
            .collect()
    }
}

/// How a control op runs, if that is known. Regions that bind symbols are kept.
fn course(rebuild: &Rebuild<'_>, data: &OpData) -> Option<Course> {
    let constant = |index: usize| -> Option<&Constant> {
        constant_of(
            rebuild.new_graph(),
            rebuild.value(*data.operands.get(index)?),
        )
    };
    let flag = |constant: &Constant| splat(&constant.tensor()) == Some(Splat::Bool(true));
    let plain = |region: RegionId| rebuild.old().region(region).symbols.is_empty();
    match (&data.op, data.regions.as_slice()) {
        (Op::If, &[yes, no]) => {
            let taken = if flag(constant(0)?) { yes } else { no };
            plain(taken).then_some(Course::Region(taken))
        }
        (&Op::Loop { carried }, &[body]) => {
            let trips = || integers(&constant(0)?.tensor())?.first().copied();
            let going_on = constant(1).map(flag);
            let only_carried = data.results.len() == carried;
            if !only_carried {
                return None;
            }
            if going_on == Some(false) || trips().is_some_and(|trips| trips <= 0) {
                return Some(Course::Nothing);
            }
            (going_on == Some(true) && trips() == Some(1) && plain(body))
                .then_some(Course::Region(body))
        }
        _ => None,
    }
}

/// Replaces a region's parameters by the op's operands; a loop's first iteration is number 0. Returns false, with
/// nothing changed, if memory cannot be allocated.
fn enter(rebuild: &mut Rebuild<'_>, into: RegionId, data: &OpData, region: RegionId) -> bool {
    let old = rebuild.old();
    let mut parameters = old.region(region).parameters.iter();
    let mut operands = data.operands.iter().skip(1);
    if matches!(data.op, Op::Loop { .. }) {
        operands.next();
        let (Some(&iteration), Ok(zero)) =
            (parameters.next(), Constant::new(Tensor::scalar(0_i64)))
        else {
            return false;
        };
        let new = NewOp::new(Op::Constant(zero), [], [old.ty(iteration).clone()]);
        rebuild.append_mapped(into, new, &[iteration]);
    }
    for (&parameter, &operand) in parameters.zip(operands) {
        let value = rebuild.value(operand);
        rebuild.map(parameter, value);
    }
    true
}

/// The requirements of a dissolved region are added to the surrounding one, in program order; so are those of the control
/// flow in it, its ops being those from `first` on.
fn ask_in(rebuild: &mut Rebuild<'_>, into: RegionId, dissolved: RegionId, first: usize) {
    let old = rebuild.old().region(dissolved);
    let new = rebuild.new_graph_mut();
    let within = |position: &[u32]| [&old.position, position].concat();
    let outer = new.region(into).clone();
    let nested = outer.ops.get(first..).unwrap_or_default().iter();
    let nested: Vec<RegionId> = nested.flat_map(|&op| new.op(op).regions.clone()).collect();
    for region in nested {
        let data = new.region(region).clone();
        new.set_requirements(region, data.requirements, within(&data.position));
    }
    let mut requirements = outer.requirements;
    requirements.extend(old.requirements.iter().map(|asked| SizeRequirement {
        position: within(&asked.position),
        ..asked.clone()
    }));
    requirements.sort_by(|a, b| a.position.cmp(&b.position));
    new.set_requirements(into, requirements, outer.position);
}

fn same_kind(left: &Type, right: &Type) -> bool {
    let (mut left, mut right) = (left, right);
    loop {
        match (left, right) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                return a.dtype == b.dtype && a.rank() == b.rank();
            }
            (Type::Sequence(a), Type::Sequence(b)) | (Type::Optional(a), Type::Optional(b)) => {
                (left, right) = (a, b)
            }
            _ => return false,
        }
    }
}

fn equal(dims: &DimTable, left: DimId, right: DimId) -> bool {
    left == right || dims.equal(left, right) == Proof::Proved
}
