//! Checks attributes against the ranks and dtypes of operands.

use super::error::{Location, Report, VerifyErrorKind};
use crate::graph::{Graph, OpData};
use crate::ids::OpId;
use crate::op::{Op, Window};
use crate::ty::TensorType;
use kiln_tensor::DType;

pub(super) fn check(graph: &Graph, id: OpId, data: &OpData, report: &mut Report) {
    let operands: Vec<Option<&TensorType>> = data
        .operands
        .iter()
        .map(|&value| graph.tensor_ty(value))
        .collect();
    let results: Vec<Option<&TensorType>> = data
        .results
        .iter()
        .map(|&value| graph.tensor_ty(value))
        .collect();
    if let Err(Problem { name, problem }) = check_op(&data.op, &operands, &results) {
        report.add(
            Location::op(graph, id),
            VerifyErrorKind::Attribute { name, problem },
        );
    }
    if let Op::Constant(constant) = &data.op {
        let tensor = constant.tensor();
        let expected = results.first().copied().flatten();
        let sizes = expected.map(|ty| {
            ty.dims
                .iter()
                .map(|&dim| graph.dims().as_constant(dim))
                .collect::<Vec<_>>()
        });
        let same = expected.is_some_and(|ty| ty.dtype == tensor.dtype())
            && sizes.is_some_and(|sizes| {
                sizes.len() == tensor.rank()
                    && sizes
                        .iter()
                        .zip(tensor.shape())
                        .all(|(size, &given)| *size == i64::try_from(given).ok())
            });
        if !same {
            let expected = data
                .results
                .first()
                .map(|&value| graph.ty(value).display(graph.dims()).to_string());
            let kind = VerifyErrorKind::ConstantType {
                expected: expected.unwrap_or_default(),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            };
            report.add(Location::op(graph, id), kind);
        }
    }
}

struct Problem {
    name: &'static str,
    problem: String,
}

type Checked = Result<(), Problem>;

fn problem(name: &'static str, problem: impl Into<String>) -> Checked {
    Err(Problem {
        name,
        problem: problem.into(),
    })
}

fn check_op(op: &Op, operands: &[Option<&TensorType>], results: &[Option<&TensorType>]) -> Checked {
    let rank = |index: usize| {
        operands
            .get(index)
            .copied()
            .flatten()
            .map_or(0, TensorType::rank)
    };
    match op {
        Op::Iota { dims, axis, dtype } => {
            if *dtype == DType::Bool {
                return problem("dtype", "expected a number, found bool");
            }
            axis_in("axis", *axis, dims.len())
        }
        Op::Transpose { permutation } => {
            let mut sorted = permutation.clone();
            sorted.sort_unstable();
            if sorted.iter().copied().eq(0..rank(0)) {
                return Ok(());
            }
            problem(
                "permutation",
                format!(
                    "expected each of {} axes once, found {permutation:?}",
                    rank(0)
                ),
            )
        }
        Op::Slice {
            starts,
            sizes,
            steps,
        } => {
            length("starts", starts.len(), rank(0))?;
            length("sizes", sizes.len(), rank(0))?;
            length("steps", steps.len(), rank(0))?;
            if steps.contains(&0) {
                return problem("steps", "expected steps that are not 0");
            }
            Ok(())
        }
        Op::Pad { low, high, .. } => {
            length("low", low.len(), rank(0))?;
            length("high", high.len(), rank(0))
        }
        Op::Broadcast { dims } if dims.len() < rank(0) => problem(
            "dims",
            format!("expected at least {} sizes, found {}", rank(0), dims.len()),
        ),
        Op::Concat { axis } => {
            for index in 1..operands.len() {
                if rank(index) != rank(0) {
                    return problem(
                        "axis",
                        format!("operands have ranks {} and {}", rank(0), rank(index)),
                    );
                }
            }
            axis_in("axis", *axis, rank(0))
        }
        Op::Gather { axis } => axis_in("axis", *axis, rank(0)),
        Op::GatherElements { axis } | Op::ScatterElements { axis, .. } => {
            length("axis", rank(1), rank(0))?;
            if operands.len() == 3 {
                length("axis", rank(2), rank(0))?;
            }
            axis_in("axis", *axis, rank(0))
        }
        Op::GatherNd { batch_axes } => {
            if *batch_axes >= rank(1) || *batch_axes > rank(0) {
                return problem(
                    "batch_axes",
                    format!(
                        "{batch_axes} with operands of ranks {} and {}",
                        rank(0),
                        rank(1)
                    ),
                );
            }
            Ok(())
        }
        Op::ScatterNd { .. } if rank(1) == 0 => problem(
            "combine",
            "expected indices of rank 1 or more, found a scalar",
        ),
        Op::UpdateSlice { axes } => {
            length("axes", rank(2), rank(0))?;
            ascending(axes, rank(0))?;
            if rank(1) == 1 {
                return Ok(());
            }
            let found = format!("expected positions of rank 1, found rank {}", rank(1));
            problem("axes", found)
        }
        Op::Matmul { .. } if rank(0) < 2 || rank(1) < 2 => problem(
            "out",
            format!(
                "expected operands of rank 2 or more, found {} and {}",
                rank(0),
                rank(1)
            ),
        ),
        Op::Conv { window, groups, .. } => convolution(window, *groups, rank(0), rank(1)),
        Op::ConvTranspose {
            window,
            groups,
            output_padding,
        } => {
            length(
                "output_padding",
                output_padding.len(),
                window.spatial_rank(),
            )?;
            convolution(window, *groups, rank(0), rank(1))
        }
        Op::Reduce { axes, .. } => ascending(axes, rank(0)),
        Op::ArgReduce { axis, .. } | Op::Cumulate { axis, .. } | Op::TopK { axis, .. } => {
            axis_in("axis", *axis, rank(0))
        }
        Op::Pool { size, window, .. } | Op::ArgPool { size, window } => {
            length("size", size.len(), window.spatial_rank())?;
            if size.iter().any(|&size| size < 1) {
                return problem("size", "expected sizes of at least 1");
            }
            spatial(window, rank(0))
        }
        Op::Resize(resize) => {
            length("sizes", resize.sizes.len(), resize.axes.len())?;
            length("scales", resize.scales.len(), resize.axes.len())?;
            if resize
                .scales
                .iter()
                .any(|&scale| !scale.is_finite() || scale < 0.0)
            {
                return problem(
                    "scales",
                    "expected finite scales of at least 0 (0: the quotient of the sizes)",
                );
            }
            let mut axes = resize.axes.clone();
            axes.sort_unstable();
            if axes.windows(2).any(|pair| pair[0] == pair[1]) {
                return problem(
                    "axes",
                    format!("expected each axis at most once, found {:?}", resize.axes),
                );
            }
            resize
                .axes
                .iter()
                .try_for_each(|&axis| axis_in("axes", axis, rank(0)))
        }
        Op::Bind if rank(0) > 1 => problem(
            "symbols",
            format!("expected an operand of rank 0 or 1, found {}", rank(0)),
        ),
        Op::Map {
            parameters,
            function,
        } => length("parameters", parameters.len(), function.parameters().len()),
        Op::Cast { to }
            if results
                .first()
                .copied()
                .flatten()
                .is_some_and(|ty| ty.dtype != *to) =>
        {
            problem("to", "differs from the result's dtype")
        }
        _ => Ok(()),
    }
}

fn axis_in(name: &'static str, axis: usize, rank: usize) -> Checked {
    if axis < rank {
        Ok(())
    } else {
        problem(name, format!("axis {axis} of a tensor of rank {rank}"))
    }
}

/// Axes of a tensor of a rank, each at most once, in order.
fn ascending(axes: &[usize], rank: usize) -> Checked {
    if !axes.is_sorted_by(|left, right| left < right) {
        return problem("axes", format!("expected ascending axes, found {axes:?}"));
    }
    axes.iter()
        .try_for_each(|&axis| axis_in("axes", axis, rank))
}

fn length(name: &'static str, found: usize, expected: usize) -> Checked {
    if found == expected {
        Ok(())
    } else {
        problem(name, format!("expected {expected} entries, found {found}"))
    }
}

fn spatial(window: &Window, rank: usize) -> Checked {
    let Some(spatial) = rank.checked_sub(2) else {
        return problem(
            "strides",
            format!("expected an operand of rank 2 or more, found {rank}"),
        );
    };
    length("strides", window.strides.len(), spatial)?;
    length("dilations", window.dilations.len(), spatial)?;
    length("low", window.low.len(), spatial)?;
    length("high", window.high.len(), spatial)?;
    if window.strides.iter().any(|&stride| stride < 1) {
        return problem("strides", "expected strides of at least 1");
    }
    if window.dilations.iter().any(|&dilation| dilation < 1) {
        return problem("dilations", "expected dilations of at least 1");
    }
    Ok(())
}

fn convolution(window: &Window, groups: usize, rank: usize, weight_rank: usize) -> Checked {
    if groups == 0 {
        return problem("groups", "expected at least 1");
    }
    length("strides", weight_rank, rank)?;
    spatial(window, rank)
}
