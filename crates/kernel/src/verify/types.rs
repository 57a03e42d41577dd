//! Dtypes, roles, ranks and strides.

use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::Report;
use crate::error::KernelError;
use crate::form::stores;
use crate::form::{Combine, Kernel, Node, Reduction, Stage, StageOperation, Store};

pub(super) fn check(kernel: &Kernel, report: &mut Report) {
    buffers(kernel, report);
    nodes(kernel, report);
    for stage in kernel.stages().values() {
        of_stage(kernel, stage, report);
    }
    for axis in kernel.axes().values() {
        if let crate::form::Extent::Clamped { value, .. } = axis.extent {
            expect(kernel.dtype(value), DType::I64, "a clamped extent", report);
        }
    }
    for store in stores(kernel) {
        of_store(kernel, store, report);
    }
}

fn expect(found: DType, expected: DType, what: &'static str, report: &mut Report) {
    if found != expected {
        report.push(KernelError::DType {
            what,
            expected,
            found,
        });
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

fn buffers(kernel: &Kernel, report: &mut Report) {
    let dims = kernel.dims();
    for buffer in kernel.buffers().values() {
        let Some(strides) = &buffer.strides else {
            continue;
        };
        let mut wrong = |expected, found| {
            report.push(KernelError::Strides {
                buffer: buffer.name.clone(),
                expected,
                found,
            });
        };
        if strides.len() != buffer.rank() {
            wrong("one stride per axis", strides.len().to_string());
            continue;
        }
        for (&stride, &size) in strides.iter().zip(&buffer.shape) {
            let range = dims.range(stride);
            if !range.at_least(0) {
                wrong(
                    "strides that are never negative",
                    dims.display(stride).to_string(),
                );
            }
            if buffer.role.is_written() && range.at_most(0) && !dims.range(size).at_most(1) {
                wrong(
                    "strides that distinguish its elements",
                    dims.display(stride).to_string(),
                );
            }
        }
    }
}

fn nodes(kernel: &Kernel, report: &mut Report) {
    for data in kernel.nodes().values() {
        match &data.node {
            Node::Load(load) => {
                let buffer = kernel.buffer(load.buffer);
                expect(data.dtype, buffer.dtype, "a load", report);
                if !buffer.role.is_read() {
                    report.push(KernelError::Role {
                        place: "a load".to_string(),
                        expected: "a buffer that is read",
                        buffer: buffer.name.clone(),
                        role: buffer.role.as_word(),
                    });
                }
                if load.indices.len() != buffer.rank() {
                    report.push(KernelError::IndexCount {
                        what: format!("%{}", buffer.name),
                        expected: buffer.rank(),
                        found: load.indices.len(),
                    });
                }
            }
            Node::Local { stage, .. } | Node::Previous { stage, .. } | Node::Last { stage, .. } => {
                expect(
                    data.dtype,
                    kernel.stage_dtype(*stage),
                    "what reads a stage",
                    report,
                );
            }
            Node::Apply { op, operands } => {
                let dtypes: Vec<DType> = operands.iter().map(|&id| kernel.dtype(id)).collect();
                if op.signature().result_type(&dtypes) != Some(data.dtype) {
                    report.push(KernelError::OperandTypes {
                        op: op.name(),
                        found: dtypes.clone(),
                    });
                }
                half_arithmetic(*op, &dtypes, report);
            }
            Node::Call {
                function, operands, ..
            } => {
                let half = operands
                    .iter()
                    .map(|&id| kernel.dtype(id))
                    .find(|&d| is_half(d));
                if let Some(dtype) = half {
                    report.push(KernelError::HalfArithmetic {
                        place: "a value".to_string(),
                        op: function.name(),
                        dtype,
                    });
                }
            }
            Node::Literal(_) | Node::Size(_) | Node::Axis(_) => {}
        }
    }
}

fn half_arithmetic(op: ScalarOp, operands: &[DType], report: &mut Report) {
    let is_allowed = matches!(
        op,
        ScalarOp::Cast(_)
            | ScalarOp::Select
            | ScalarOp::Eq
            | ScalarOp::Ne
            | ScalarOp::Lt
            | ScalarOp::Le
            | ScalarOp::Gt
            | ScalarOp::Ge
            | ScalarOp::IsNan
            | ScalarOp::IsInf
    );
    let half = operands.iter().copied().find(|&dtype| is_half(dtype));
    if let Some(dtype) = half.filter(|_| !is_allowed) {
        report.push(KernelError::HalfArithmetic {
            place: "a value".to_string(),
            op: op.name(),
            dtype,
        });
    }
}

fn of_stage(kernel: &Kernel, stage: &Stage, report: &mut Report) {
    if let StageOperation::Reduce {
        reduction,
        axes,
        accumulator,
    } = &stage.operation
    {
        let value = kernel.dtype(stage.value);
        if axes.is_empty() || (reduction.is_arg() && axes.len() != 1) {
            report.push(KernelError::ReducedAxes {
                stage: stage.name.clone(),
                expected: if reduction.is_arg() {
                    "one axis"
                } else {
                    "at least one axis"
                },
                found: axes.len(),
            });
        }
        if !reduces(*reduction, value, *accumulator) {
            report.push(KernelError::ReducedType {
                stage: stage.name.clone(),
                reduction: reduction.as_word(),
                accumulator: *accumulator,
                found: value,
            });
        }
    }
    if let Some(init) = stage.init {
        let dtype = match &stage.operation {
            StageOperation::Map => kernel.dtype(stage.value),
            StageOperation::Reduce { reduction, .. } if reduction.is_arg() => DType::I64,
            StageOperation::Reduce { accumulator, .. } => *accumulator,
        };
        expect(kernel.dtype(init), dtype, "an init", report);
    }
}

/// Whether values of a dtype can be reduced this way.
fn reduces(reduction: Reduction, value: DType, accumulator: DType) -> bool {
    let is_number = value.is_float() || value.is_integer();
    match reduction {
        Reduction::And | Reduction::Or => value == DType::Bool && accumulator == DType::Bool,
        Reduction::ArgMin { .. } | Reduction::ArgMax { .. } => value != DType::Bool && is_number,
        Reduction::Min | Reduction::Max => is_number && accumulator == value,
        Reduction::Add | Reduction::Mul => {
            let same_kind = (value.is_float() && accumulator.is_float())
                || (value.is_integer() && accumulator.is_integer());
            same_kind && !is_half(accumulator) && accumulator.bits() >= value.bits()
        }
    }
}

fn of_store(kernel: &Kernel, store: &Store, report: &mut Report) {
    let buffer = kernel.buffer(store.buffer);
    expect(
        kernel.dtype(store.value),
        buffer.dtype,
        "a stored value",
        report,
    );
    if store.indices.len() != buffer.rank() {
        report.push(KernelError::IndexCount {
            what: format!("%{}", buffer.name),
            expected: buffer.rank(),
            found: store.indices.len(),
        });
    }
    let (is_right, expected) = match store.combine {
        None => (buffer.role == crate::form::Role::Out, "an `out` buffer"),
        Some(_) => (buffer.role == crate::form::Role::InOut, "an `inout` buffer"),
    };
    if !is_right {
        report.push(KernelError::Role {
            place: match store.combine {
                None => "a store".to_string(),
                Some(combine) => format!("a store that combines with `{}`", combine.as_word()),
            },
            expected,
            buffer: buffer.name.clone(),
            role: buffer.role.as_word(),
        });
    }
    if let Some(combine) = store.combine {
        let is_number = buffer.dtype.is_float() || buffer.dtype.is_integer();
        let is_right = match combine {
            Combine::Set => true,
            Combine::Min | Combine::Max => is_number,
            Combine::Add | Combine::Mul => is_number && !is_half(buffer.dtype),
        };
        if !is_right {
            report.push(KernelError::CombineType {
                combine: combine.as_word(),
                buffer: buffer.name.clone(),
                dtype: buffer.dtype,
            });
        }
    }
}
