//! How many operands, results, regions and symbols each op has, and of what kind.

use super::error::{Location, Report, VerifyErrorKind};
use crate::graph::{Graph, OpData};
use crate::ids::{OpId, RegionId};
use crate::op::{Op, PadMode, ReduceFunction};
use crate::ty::{TensorType, Type};
use kiln_tensor::DType;

pub(super) fn check(graph: &Graph, id: OpId, data: &OpData, report: &mut Report) {
    let counts = Counts::of(graph, data);
    let before = report.is_empty();
    let mut count = |what, range: Range, found: usize| {
        if found < range.0 || found > range.1 {
            let expected = range.to_string();
            report.add(
                Location::op(graph, id),
                VerifyErrorKind::Count {
                    what,
                    expected,
                    found,
                },
            );
        }
    };
    count("operands", counts.operands, data.operands.len());
    count("results", counts.results, data.results.len());
    count("regions", counts.regions, data.regions.len());
    count("symbols", counts.symbols, data.symbols.len());
    if before && report.is_empty() {
        check_kinds(graph, id, data, report);
        check_regions(graph, id, data, report);
    }
}

/// An inclusive range of counts.
#[derive(Clone, Copy)]
struct Range(usize, usize);

const ANY: Range = Range(0, usize::MAX);

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self(low, high) if low == high => write!(f, "{low}"),
            Self(low, usize::MAX) => write!(f, "at least {low}"),
            Self(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

struct Counts {
    operands: Range,
    results: Range,
    regions: Range,
    symbols: Range,
}

impl Counts {
    fn of(graph: &Graph, data: &OpData) -> Self {
        let exactly = |n| Range(n, n);
        let plain = |n| Self {
            operands: exactly(n),
            results: exactly(1),
            regions: exactly(0),
            symbols: exactly(0),
        };
        match &data.op {
            Op::Constant(_) | Op::Iota { .. } | Op::Dims { .. } => plain(0),
            Op::RandomBits { .. } | Op::Cast { .. } | Op::Reshape { .. } | Op::Broadcast { .. } => {
                plain(1)
            }
            Op::Transpose { .. } | Op::Slice { .. } | Op::Reduce { .. } | Op::ArgReduce { .. } => {
                plain(1)
            }
            Op::Cumulate { .. } | Op::Pool { .. } | Op::ArgPool { .. } | Op::Resize(_) => plain(1),
            Op::Map { function, .. } => plain(function.arity()),
            Op::Pad { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. } => plain(2),
            Op::Matmul { .. } | Op::Conv { .. } | Op::ConvTranspose { .. } => plain(2),
            Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. } => plain(3),
            Op::Concat { .. } => Self {
                operands: Range(1, usize::MAX),
                ..plain(1)
            },
            Op::Bind => Self {
                results: exactly(0),
                symbols: ANY,
                ..plain(1)
            },
            Op::NonZero | Op::TopK { .. } => Self {
                results: exactly(2),
                ..plain(1)
            },
            Op::Suppress { .. } => Self {
                results: exactly(2),
                ..plain(4)
            },
            Op::If => Self {
                operands: Range(1, usize::MAX),
                results: ANY,
                regions: exactly(2),
                symbols: ANY,
            },
            Op::Loop { carried } => {
                let yielded = data
                    .regions
                    .first()
                    .map_or(0, |&region| graph.region(region).results.len());
                Self {
                    operands: Range(carried.saturating_add(2), usize::MAX),
                    results: exactly(yielded.saturating_sub(1)),
                    regions: exactly(1),
                    symbols: ANY,
                }
            }
            Op::Custom { .. } => Self {
                operands: ANY,
                results: ANY,
                regions: exactly(0),
                symbols: ANY,
            },
        }
    }
}

/// An op's requirement on the dtype of an operand.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AnyTensor,
    Number,
    Float,
    Integer,
    Exactly(DType),
}

impl Kind {
    fn admits(self, dtype: DType) -> bool {
        match self {
            Self::AnyTensor => true,
            Self::Number => dtype != DType::Bool,
            Self::Float => dtype.is_float(),
            Self::Integer => dtype.is_integer(),
            Self::Exactly(exactly) => dtype == exactly,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::AnyTensor => "a tensor".to_owned(),
            Self::Number => "a tensor of numbers".to_owned(),
            Self::Float => "a tensor of floats".to_owned(),
            Self::Integer => "a tensor of integers".to_owned(),
            Self::Exactly(dtype) => format!("a tensor of {dtype}"),
        }
    }
}

fn kind_of(op: &Op, index: usize) -> Option<Kind> {
    Some(match (op, index) {
        (Op::If, 0) | (Op::Loop { .. }, 1) => Kind::Exactly(DType::Bool),
        (Op::Loop { .. }, 0) => Kind::Exactly(DType::I64),
        // Carried values and captures may be of any type.
        (Op::If | Op::Loop { .. } | Op::Custom { .. }, _) => return None,
        (Op::Suppress { .. }, _) => Kind::Exactly(DType::F32),
        (Op::RandomBits { .. }, _) => Kind::Exactly(DType::U64),
        (Op::Bind, _) => Kind::Integer,
        (Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. }, 1) => Kind::Integer,
        (Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. }, 1) => {
            Kind::Integer
        }
        (Op::Matmul { .. } | Op::Conv { .. }, _) => Kind::Number,
        (Op::ConvTranspose { .. } | Op::Resize(_), _) => Kind::Float,
        (
            Op::Reduce {
                function: ReduceFunction::Any | ReduceFunction::All,
                ..
            },
            _,
        ) => Kind::Exactly(DType::Bool),
        (
            Op::Reduce {
                function: ReduceFunction::Mean,
                ..
            },
            _,
        ) => Kind::Float,
        (
            Op::Pool { .. }
            | Op::ArgPool { .. }
            | Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulate { .. }
            | Op::TopK { .. },
            _,
        ) => Kind::Number,
        _ => Kind::AnyTensor,
    })
}

fn check_kinds(graph: &Graph, id: OpId, data: &OpData, report: &mut Report) {
    let mut types: Vec<&TensorType> = Vec::with_capacity(data.operands.len());
    for (index, &value) in data.operands.iter().enumerate() {
        let Some(kind) = kind_of(&data.op, index) else {
            continue;
        };
        let ty = graph.ty(value);
        match ty.as_tensor() {
            Some(tensor) if kind.admits(tensor.dtype) => types.push(tensor),
            _ => {
                let found = ty.display(graph.dims()).to_string();
                let kind = VerifyErrorKind::OperandKind {
                    index,
                    expected: kind.describe(),
                    found,
                };
                report.add(Location::op(graph, id), kind);
                return;
            }
        }
    }
    let scalar_operands: &[usize] = match data.op {
        Op::If => &[0],
        Op::Loop { .. } => &[0, 1],
        Op::Pad { .. } => &[1],
        _ => &[],
    };
    for &index in scalar_operands {
        let rank = types.get(index).map_or(0, |ty| ty.rank());
        if rank != 0 {
            let kind = VerifyErrorKind::OperandKind {
                index,
                expected: "a scalar".to_owned(),
                found: format!("a tensor of rank {rank}"),
            };
            report.add(Location::op(graph, id), kind);
        }
    }
    check_dtypes(graph, id, data, &types, report);
}

/// Operands whose dtypes must be equal: there is no implicit promotion.
fn check_dtypes(
    graph: &Graph,
    id: OpId,
    data: &OpData,
    types: &[&TensorType],
    report: &mut Report,
) {
    let same: &[usize] = match data.op {
        Op::Pad {
            mode: PadMode::Constant,
            ..
        }
        | Op::ConvTranspose { .. } => &[0, 1],
        Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. } => &[0, 2],
        _ => &[],
    };
    let dtypes: Vec<DType> = types.iter().map(|ty| ty.dtype).collect();
    let mut differ = |index: usize, expected: DType| {
        let kind = VerifyErrorKind::OperandKind {
            index,
            expected: Kind::Exactly(expected).describe(),
            found: Kind::Exactly(dtypes[index]).describe(),
        };
        report.add(Location::op(graph, id), kind);
    };
    match &data.op {
        Op::Concat { .. } => {
            for index in (1..dtypes.len()).filter(|&index| dtypes[index] != dtypes[0]) {
                differ(index, dtypes[0]);
            }
        }
        Op::Matmul { out } | Op::Conv { out, .. } => {
            let narrow = |dtype: DType| dtype.is_integer() && dtype.bits() <= 16;
            let widened =
                matches!(out, DType::I32 | DType::I64) && dtypes.iter().all(|&dtype| narrow(dtype));
            if !widened {
                for index in (0..dtypes.len()).filter(|&index| dtypes[index] != *out) {
                    differ(index, *out);
                }
            }
        }
        Op::Map { function, .. } => {
            if let Err(error) = function.result_type(&dtypes) {
                report.add(
                    Location::op(graph, id),
                    VerifyErrorKind::ScalarOperands(error.to_string()),
                );
            }
        }
        _ => {
            if let [first, second] = same
                && dtypes[*first] != dtypes[*second]
            {
                differ(*second, dtypes[*first]);
            }
        }
    }
}

/// Compares a region's parameters and results with the op's operands and results. Sizes may differ where the region or
/// the op has its own symbol for them, so only dtypes and ranks are compared here.
fn check_regions(graph: &Graph, id: OpId, data: &OpData, report: &mut Report) {
    match data.op {
        Op::If => {
            for &region in &data.regions {
                check_edge(
                    graph,
                    id,
                    "parameter",
                    &data.operands[1..],
                    &graph.region(region).parameters,
                    report,
                );
                check_edge(
                    graph,
                    id,
                    "result",
                    &data.results,
                    &graph.region(region).results,
                    report,
                );
            }
        }
        Op::Loop { carried } => {
            let Some(&region) = data.regions.first() else {
                return;
            };
            check_loop(graph, id, data, region, carried, report);
        }
        _ => {}
    }
}

fn check_loop(
    graph: &Graph,
    id: OpId,
    data: &OpData,
    region: RegionId,
    carried: usize,
    report: &mut Report,
) {
    let inner = graph.region(region);
    let trips = &data.operands[..1];
    let outside: Vec<_> = trips.iter().chain(&data.operands[2..]).copied().collect();
    check_edge(graph, id, "parameter", &outside, &inner.parameters, report);
    if inner.results.len() <= carried {
        let expected = format!("at least {}", carried + 1);
        let kind = VerifyErrorKind::Count {
            what: "region results",
            expected,
            found: inner.results.len(),
        };
        report.add(Location::op(graph, id), kind);
        return;
    }
    let outside: Vec<_> = data.operands[1..2 + carried].to_vec();
    check_edge(
        graph,
        id,
        "result",
        &outside,
        &inner.results[..=carried],
        report,
    );
    check_edge(
        graph,
        id,
        "result",
        &data.results[..carried],
        &inner.results[1..=carried],
        report,
    );
    for (index, (&stacked, &each)) in data.results[carried..]
        .iter()
        .zip(&inner.results[1 + carried..])
        .enumerate()
    {
        let fits = match (graph.ty(stacked), graph.ty(each)) {
            (Type::Tensor(stacked), Type::Tensor(each)) => {
                stacked.dtype == each.dtype && stacked.rank() == each.rank() + 1
            }
            _ => false,
        };
        if !fits {
            let expected = format!(
                "{} without its outermost axis",
                graph.ty(stacked).display(graph.dims())
            );
            let found = graph.ty(each).display(graph.dims()).to_string();
            let kind = VerifyErrorKind::EdgeType {
                what: "stacked result",
                index,
                expected,
                found,
            };
            report.add(Location::op(graph, id), kind);
        }
    }
}

fn check_edge(
    graph: &Graph,
    id: OpId,
    what: &'static str,
    outside: &[crate::ids::ValueId],
    inside: &[crate::ids::ValueId],
    report: &mut Report,
) {
    if outside.len() != inside.len() {
        let what = if what == "parameter" {
            "region parameters"
        } else {
            "region results"
        };
        let kind = VerifyErrorKind::Count {
            what,
            expected: outside.len().to_string(),
            found: inside.len(),
        };
        report.add(Location::op(graph, id), kind);
        return;
    }
    for (index, (&outer, &inner)) in outside.iter().zip(inside).enumerate() {
        if !same_kind(graph.ty(outer), graph.ty(inner)) {
            let expected = graph.ty(outer).display(graph.dims()).to_string();
            let found = graph.ty(inner).display(graph.dims()).to_string();
            report.add(
                Location::op(graph, id),
                VerifyErrorKind::EdgeType {
                    what,
                    index,
                    expected,
                    found,
                },
            );
        }
    }
}

fn same_kind(left: &Type, right: &Type) -> bool {
    let (mut left, mut right) = (left, right);
    loop {
        match (left, right) {
            (Type::Tensor(left), Type::Tensor(right)) => {
                return left.dtype == right.dtype && left.rank() == right.rank();
            }
            (Type::Sequence(l), Type::Sequence(r)) | (Type::Optional(l), Type::Optional(r)) => {
                (left, right) = (l, r)
            }
            _ => return false,
        }
    }
}
