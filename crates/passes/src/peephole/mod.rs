//! Peephole rewriting: one walk over the graph, with a list of rules tried on each op.
//!
//! A rule examines an op that is about to be copied and, through it, the ops of its operands, which are already
//! rewritten. It returns a value with the same elements, or another op that computes them; the rules are then tried
//! again on that op. Every value that a rule can see is in the op's own region, because regions see nothing else.
//!
//! Ops with regions, several results or symbols are not handled here; passes treat them individually. Values that no
//! longer have a reader after a rewrite are removed by `eliminate_dead_ops`.
//!
//! Invariant: the result keeps its type, so a rule returns only what is proved to have it.

mod site;

pub(crate) use site::{Site, constant_of, constant_type};

use crate::context::{Changed, PassContext};
use crate::rebuild::rebuild_with;
use kiln_ir::{Graph, NewOp, Op, OpId, Rebuild, RegionId, ValueId, Visit};
use smallvec::SmallVec;

/// How often the rules are tried again on their own output for one op.
const REWRITES_PER_OP_LIMIT: usize = 64;

/// The result of a rule.
#[derive(Debug)]
pub(crate) enum Rewrite {
    /// No op is needed: this value is the result.
    Value(ValueId),
    /// This op computes it, of the same type.
    Op(Box<Op>, SmallVec<[ValueId; 4]>),
}

impl Rewrite {
    /// An op of some operands.
    pub(crate) fn op(op: Op, operands: impl IntoIterator<Item = ValueId>) -> Self {
        Self::Op(Box::new(op), operands.into_iter().collect())
    }
}

/// A rewrite rule.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// Its name, for traces.
    pub(crate) name: &'static str,
    /// The rewrite, if the op has the required form, all conditions are proved, and sizes and constants can be built.
    pub(crate) apply: fn(&mut Site<'_>) -> Option<Rewrite>,
}

/// Applies rules to every op of a graph, including nested regions.
pub(crate) fn rewrite_ops(
    pass: &'static str,
    graph: Graph,
    ctx: &mut PassContext,
    rules: &[Rule],
) -> Changed<Graph> {
    let before = ctx.rewrites();
    let rewritten = rebuild_with(&graph, &mut |rebuild, region, op| {
        if ctx.may_rewrite() {
            rewrite_op(pass, ctx, rules, rebuild, region, op)
        } else {
            Visit::Copy
        }
    });
    match ctx.rewrites() - before {
        0 => Changed::unchanged(graph),
        rewrites => Changed {
            graph: rewritten,
            rewrites,
        },
    }
}

fn rewrite_op(
    pass: &'static str,
    ctx: &mut PassContext,
    rules: &[Rule],
    rebuild: &mut Rebuild<'_>,
    region: RegionId,
    id: OpId,
) -> Visit {
    let old = rebuild.old();
    let data = old.op(id);
    let &[result] = data.results.as_slice() else {
        return Visit::Copy;
    };
    if !data.regions.is_empty() || !data.symbols.is_empty() {
        return Visit::Copy;
    }
    let Some(ty) = old.tensor_ty(result) else {
        return Visit::Copy;
    };
    let mut op = data.op.clone();
    let mut operands: SmallVec<[ValueId; 4]> = data
        .operands
        .iter()
        .map(|&value| rebuild.value(value))
        .collect();
    let origin = data.origin.clone();
    let mut changed = false;
    for _ in 0..REWRITES_PER_OP_LIMIT {
        if !ctx.may_rewrite() {
            break;
        }
        let graph = rebuild.new_graph_mut();
        let mut site = Site::new(graph, region, &op, &operands, ty, origin.as_ref());
        let Some((name, rewrite)) = first_match(rules, &mut site) else {
            break;
        };
        ctx.count_rewrite(pass, name);
        changed = true;
        match rewrite {
            Rewrite::Value(value) => {
                rebuild.map(result, value);
                return Visit::Done;
            }
            Rewrite::Op(new_op, new_operands) => (op, operands) = (*new_op, new_operands),
        }
    }
    if !changed {
        return Visit::Copy;
    }
    let mut new = NewOp::new(op, operands, [old.ty(result).clone()]);
    new.origin = origin;
    let copy = rebuild.append(region, new);
    let value = rebuild.new_graph().op(copy).results[0];
    rebuild.map(result, value);
    Visit::Done
}

fn first_match(rules: &[Rule], site: &mut Site<'_>) -> Option<(&'static str, Rewrite)> {
    rules.iter().find_map(|rule| {
        let rewrite = (rule.apply)(site)?;
        keeps_type(site, &rewrite).then_some((rule.name, rewrite))
    })
}

/// Whether inference would give a new element-wise op the result's sizes. If the equality of two sizes is unproved, the
/// order of the operands decides which of them inference takes.
fn keeps_type(site: &mut Site<'_>, rewrite: &Rewrite) -> bool {
    match rewrite {
        Rewrite::Op(op, operands) if matches!(**op, Op::Map { .. }) => {
            site.broadcasts_to_result(operands)
        }
        _ => true,
    }
}
