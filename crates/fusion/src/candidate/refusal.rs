//! Reasons why ops cannot be one kernel, as printed by plans.

use kiln_ir::{Graph, OpId, ValueId};
use kiln_kernel::Class;
use kiln_symbolic_shape::{DimId, PlanFact, Proof};

/// A rule of fusion that some ops violate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Two sizes meet that are not proved equal.
    Sizes {
        /// Where they meet.
        value: ValueId,
        /// One size.
        left: DimId,
        /// The other.
        right: DimId,
        /// Whether they may be equal where there are elements, so that a plan fact would suffice.
        possible: bool,
    },
    /// Results whose points do not correspond.
    Domains {
        /// One result.
        left: ValueId,
        /// Another.
        right: ValueId,
    },
    /// Two ops that both determine the schedule.
    Heavy {
        /// One op.
        first: OpId,
        /// The other op.
        second: OpId,
    },
    /// A reduction of the result of an op whose schedule cannot reduce it.
    Reduced {
        /// The op with the schedule.
        heavy: OpId,
        /// The reduction.
        reduction: OpId,
    },
    /// Reductions of different rows.
    Rows {
        /// One reduction.
        first: OpId,
        /// The other.
        second: OpId,
    },
    /// The whole tensor would be one row, on one thread.
    OneRow {
        /// The reduction.
        reduction: OpId,
    },
    /// The result of a reduction or contraction is not needed exactly once per point of the kernel.
    Moved {
        /// The op.
        op: OpId,
    },
    /// Work would be repeated.
    Recomputed {
        /// The most expensive part of it.
        value: ValueId,
        /// The cost of the repeated work, in simple operations.
        cost: u64,
        /// The allowed cost.
        limit: u64,
    },
    /// Positions that need divisions; a view is free instead.
    Divided {
        /// The reshape.
        op: OpId,
    },
    /// Positions that are data, into a value that is not in memory.
    Lookup {
        /// The op that looks up.
        op: OpId,
        /// The value that it looks up in.
        value: ValueId,
    },
    /// An operand of a contraction or window that its schedule cannot read.
    Operand {
        /// The op with the schedule.
        heavy: OpId,
        /// The op before its operand.
        op: OpId,
    },
    /// A row that is kept between stages and has no small bound.
    LongRow {
        /// The op.
        op: OpId,
        /// The size.
        extent: DimId,
    },
    /// An op would have to run both before and after the kernel.
    Cycle,
    /// A limit is exceeded.
    Limit {
        /// What is limited.
        what: &'static str,
        /// The given number.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// The plan's budget is spent; see [`FusionLimits::plan_work`](crate::FusionLimits::plan_work).
    Budget {
        /// The budget in steps.
        limit: u64,
    },
    /// An op that cannot be part of a kernel.
    Apart {
        /// The op.
        op: OpId,
    },
    /// There would be no gain.
    NoBenefit,
    /// Lowering refused.
    Lowering {
        /// The reason.
        reason: String,
    },
    /// The class of the kernel is not the one that its main op needs.
    Class {
        /// The class that was planned.
        expected: Class,
        /// The actual class.
        found: Class,
    },
    /// Neither reads the other, and they read nothing in common.
    Unrelated,
}

impl Refusal {
    /// The plan fact that would allow it, if there is one.
    pub fn fact(&self) -> Option<PlanFact> {
        match *self {
            Refusal::Sizes {
                value,
                left,
                right,
                possible: true,
            } => Some(PlanFact {
                left,
                right,
                origin: format!("fusion at {value}"),
            }),
            _ => None,
        }
    }

    /// The rule and its violation, in words.
    pub fn describe(&self, graph: &Graph) -> String {
        let op = |op: OpId| describe_op(graph, op);
        let value = |value: ValueId| name_of(graph, value);
        let typed = |value: ValueId| {
            format!(
                "{}: {}",
                name_of(graph, value),
                graph.ty(value).display(graph.dims())
            )
        };
        let dim = |dim: DimId| graph.dims().display(dim).to_string();
        match self {
            Refusal::Sizes {
                value: at,
                left,
                right,
                possible,
            } => {
                let never = graph.dims().equal(*left, *right) == Proof::Disproved;
                let (left, right) = (dim(*left), dim(*right));
                if *possible {
                    format!(
                        "{left} and {right}, which meet at {}, are not proved equal; under the fact {left} == {right} the ops would fuse",
                        value(*at)
                    )
                } else {
                    let exception = if never {
                        ""
                    } else {
                        " except for empty tensors"
                    };
                    format!(
                        "{left} and {right}, which meet at {}, are never equal{exception}",
                        value(*at)
                    )
                }
            }
            Refusal::Domains { left, right } => format!(
                "{} and {} do not have the same points",
                typed(*left),
                typed(*right)
            ),
            Refusal::Heavy { first, second } => format!(
                "a kernel has one contraction, window or scan, and {} and {} would be two",
                op(*first),
                op(*second)
            ),
            Refusal::Reduced { heavy, reduction } => format!(
                "{} reduces the result of {}, whose schedule does not keep whole rows",
                op(*reduction),
                op(*heavy)
            ),
            Refusal::Rows { first, second } => {
                format!("{} and {} reduce different rows", op(*first), op(*second))
            }
            Refusal::OneRow { reduction } => format!(
                "{} reduces the whole tensor: one kernel would be one row on one thread",
                op(*reduction)
            ),
            Refusal::Moved { op: at } => format!(
                "the result of {} is not read once per point of the kernel, so it would be recomputed or lose its class",
                op(*at)
            ),
            Refusal::Recomputed {
                value: at,
                cost,
                limit,
            } => format!(
                "{} and what it needs would be recomputed: {cost} operations each time, more than the limit of {limit}",
                value(*at)
            ),
            Refusal::Divided { op: at } => format!(
                "{} needs divisions to find its elements; as a view it costs nothing",
                op(*at)
            ),
            Refusal::Lookup { op: at, value: of } => format!(
                "{} looks up positions that are data, so {} has to be in memory",
                op(*at),
                value(*of)
            ),
            Refusal::Operand { heavy, op: at } => {
                format!(
                    "the schedule of {} cannot read through {}",
                    op(*heavy),
                    op(*at)
                )
            }
            Refusal::LongRow { op: at, extent } => format!(
                "{} would keep rows of {} elements, which have no small bound",
                op(*at),
                dim(*extent)
            ),
            Refusal::Cycle => {
                "another op depends on one of them, and the other depends on that op".to_owned()
            }
            Refusal::Limit { what, given, limit } => {
                format!("a kernel has at most {limit} {what}, and this would have {given}")
            }
            Refusal::Budget { limit } => {
                format!(
                    "the budget of {limit} steps of planning is spent, so nothing more is joined"
                )
            }
            Refusal::Apart { op: at } => format!("{} is not part of a kernel", op(*at)),
            Refusal::NoBenefit => "nothing would be saved".to_owned(),
            Refusal::Lowering { reason } => format!("lowering refuses: {reason}"),
            Refusal::Class { expected, found } => {
                format!(
                    "the kernel would be {} and no {expected}",
                    with_article(*found)
                )
            }
            Refusal::Unrelated => {
                "neither reads the other, and they read nothing in common".to_owned()
            }
        }
    }
}

/// An op in messages: `matmul %7`.
pub(crate) fn describe_op(graph: &Graph, op: OpId) -> String {
    let data = graph.op(op);
    let mnemonic = data.op.mnemonic();
    match data.results.first() {
        Some(&result) => format!("{mnemonic} {}", name_of(graph, result)),
        None => format!("{mnemonic} ({op})"),
    }
}

/// A class with its article.
pub(crate) fn with_article(class: Class) -> String {
    let word = class.as_word();
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {word}")
}

/// A value in the text form; safe to print.
pub(crate) fn name_of(graph: &Graph, value: ValueId) -> String {
    match graph.value(value).name.as_deref() {
        Some(name) => format!("%{}", name.escape_debug()),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_take_the_right_article() {
        assert_eq!(with_article(Class::Attention), "an attention");
        assert_eq!(with_article(Class::Window), "a window");
    }
}
