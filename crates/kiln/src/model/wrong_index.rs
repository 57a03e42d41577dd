//! Finds the input with the out-of-range index that made a call fail.
//!
//! Compiled code reports that an index was out of range, and the interpreter also which one; neither knows that the
//! indices are an input of the model, such as the tokens looked up in an embedding. The search runs only after a call
//! has failed.

use crate::error::{Error, Failure};
use kiln_interpreter::{InterpretError, OpFault, bind_symbols};
use kiln_ir::{Definition, Graph, Op, OpId, ValueId};
use kiln_lazy_runtime::RuntimeError;
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Element, Tensor};

/// The error of a call, which names the input, the position and the value if an index of an input is out of range.
#[cold]
pub(super) fn named(error: Error, graph: &Graph, inputs: &[Tensor]) -> Error {
    if !is_about_an_index(&error) {
        return error;
    }
    let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
    let Ok(binding) = bind_symbols(graph, &shapes) else {
        return error;
    };
    // Ops of the body are always executed, and each element of the indices is read: the first invalid one is a cause,
    // even if the fault was reported for another.
    let ops = graph.region(graph.body()).ops.iter();
    let mut found = ops.filter_map(|&op| wrong_index(graph, op, inputs, &binding));
    found.next().map_or(error, Error::from)
}

fn is_about_an_index(error: &Error) -> bool {
    let of_interpreter = |error: &InterpretError| {
        matches!(error, InterpretError::Op { fault, .. }
            if matches!(**fault, OpFault::IndexOutOfRange { .. }))
    };
    match error.failure() {
        Failure::Run(error) | Failure::Runtime(RuntimeError::Interpret(error)) => {
            of_interpreter(error)
        }
        Failure::Runtime(error @ RuntimeError::Fault { .. }) => {
            error.code() == OpFault::INDEX_OUT_OF_RANGE
        }
        _ => false,
    }
}

/// The first index of an op that is out of range, if the op's indices are an input.
fn wrong_index(graph: &Graph, op: OpId, inputs: &[Tensor], binding: &Binding) -> Option<Failure> {
    let data = graph.op(op);
    let axis = match data.op {
        Op::Gather { axis } | Op::GatherElements { axis } | Op::ScatterElements { axis, .. } => {
            axis
        }
        _ => return None,
    };
    let (&indexed, &indices) = (data.operands.first()?, data.operands.get(1)?);
    let number = source(graph, indices)?;
    let input = inputs.get(number)?;
    let size = *graph.tensor_ty(indexed)?.dims.get(axis)?;
    let size = graph.dims().evaluate(size, binding).ok()?;
    let (at, index) = first_outside(input, size)?;
    let expected = match size {
        0 => "no index, as the axis is empty".to_owned(),
        size => format!("indices from -{size} to {}", size - 1),
    };
    let name = graph.input_name(*graph.inputs().get(number)?);
    let origin = match &data.origin {
        Some(origin) => format!(" ({})", origin.escape_debug()),
        None => String::new(),
    };
    Some(Failure::Index {
        input: name.escape_debug().to_string(),
        expected,
        index,
        at: place(at, input.shape()),
        op: format!("{}{origin}", data.op.mnemonic()),
        indexed: described(graph, indexed),
    })
}

/// The position of the input that holds the indices: unchanged, or reordered or converted without losing elements.
fn source(graph: &Graph, indices: ValueId) -> Option<usize> {
    let mut value = indices;
    loop {
        match graph.value(value).definition {
            Definition::Parameter { region, index } => {
                return (region == graph.body()).then_some(index);
            }
            Definition::Result { op, .. } => {
                let data = graph.op(op);
                let operand = *data.operands.first()?;
                let keeps = match data.op {
                    Op::Reshape { .. } | Op::Transpose { .. } => true,
                    Op::Cast { to } => {
                        to == DType::I64
                            && graph.tensor_ty(operand)?.dtype != DType::U64
                            && is_integer(graph.tensor_ty(operand)?.dtype)
                    }
                    _ => false,
                };
                if !keeps {
                    return None;
                }
                value = operand;
            }
        }
    }
}

fn is_integer(dtype: DType) -> bool {
    use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// The first element that is not a valid index into an axis of this size, with its position in row-major order.
fn first_outside(input: &Tensor, size: i64) -> Option<(usize, i128)> {
    fn outside<T: Element + Into<i128>>(input: &Tensor, size: i64) -> Option<(usize, i128)> {
        let size = i128::from(size);
        let elements = input.to_vec::<T>().ok()?.into_iter().map(Into::into);
        elements
            .enumerate()
            .find(|(_, index)| !(-size..size).contains(index))
    }
    match input.dtype() {
        DType::I64 => outside::<i64>(input, size),
        DType::I32 => outside::<i32>(input, size),
        DType::I16 => outside::<i16>(input, size),
        DType::I8 => outside::<i8>(input, size),
        DType::U64 => outside::<u64>(input, size),
        DType::U32 => outside::<u32>(input, size),
        DType::U16 => outside::<u16>(input, size),
        DType::U8 => outside::<u8>(input, size),
        _ => None,
    }
}

/// A position in row-major order, axis by axis: `[0, 3]`.
fn place(mut position: usize, shape: &[usize]) -> String {
    let mut indices = vec![0; shape.len()];
    for (index, &size) in indices.iter_mut().zip(shape).rev() {
        *index = position % size.max(1);
        position /= size.max(1);
    }
    format!("{indices:?}")
}

/// `%table: f32[30522, 384]`, or only the type of a value without a name.
fn described(graph: &Graph, value: ValueId) -> String {
    let ty = graph.ty(value).display(graph.dims());
    match graph.value(value).name.as_deref() {
        Some(name) => format!("%{}: {ty}", name.escape_debug()),
        None => ty.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, ErrorKind, Options, Source};

    /// The error of a call, from every device that this build has.
    fn errors(text: &str, inputs: &[Tensor]) -> Vec<String> {
        let mut devices = vec![Device::interpreter()];
        if cfg!(feature = "llvm") {
            devices.push(Device::cpu());
        }
        let messages = devices.into_iter().map(|device| {
            let model = Options::new()
                .device(device)
                .load(Source::text(text))
                .unwrap();
            let error = model.run(inputs).unwrap_err();
            assert_eq!(error.code(), "E0822");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            error.to_string()
        });
        messages.collect()
    }

    fn table(rows: usize) -> Tensor {
        Tensor::full(&[rows, 2], 0.5_f32).unwrap()
    }

    #[test]
    fn the_wrong_token_of_an_embedding_is_named() {
        let text = "graph @embed(%table: f32[V, 2], %ids: i64[B, S]) -> f32[B, S, 2] {
            %y = gather %table, %ids {axis = 0} from \"/embeddings/Gather\"
            return %y
        }";
        let ids = Tensor::from_slice(&[2, 3], &[0_i64, 1, -5, 4, 3, 5]).unwrap();
        for message in errors(text, &[table(5), ids]) {
            assert_eq!(
                message,
                "input ids: expected indices from -5 to 4, found 5 at [1, 2]; gather (/embeddings/Gather) looks them up in \
                 %table: f32[V, 2]"
            );
        }
    }

    #[test]
    fn indices_are_followed_to_their_input() {
        let text = "graph @rows(%table: f32[V, 2], %other: i64[N], %ids: i32[N, 1]) -> (f32[N, 2], f32[N, 2]) {
            %wide = cast %ids {to = i64}
            %flat = reshape %wide {dims = [N]}
            %a = gather %table, %other {axis = 0}
            %b = gather %table, %flat {axis = 0}
            return %a, %b
        }";
        let right = Tensor::from_slice(&[2], &[0_i64, 1]).unwrap();
        let wrong = Tensor::from_slice(&[2, 1], &[-1_i32, -4]).unwrap();
        for message in errors(text, &[table(3), right, wrong]) {
            assert!(
                message.starts_with(
                    "input ids: expected indices from -3 to 2, found -4 at [1, 0]; gather"
                ),
                "{message}"
            );
        }
    }

    #[test]
    fn indices_that_are_computed_have_no_input_to_name() {
        let text = "graph @sum(%table: f32[V, 2], %ids: i64[N]) -> f32[N, 2] {
            %twice = add %ids, %ids
            %y = gather %table, %twice {axis = 0}
            return %y
        }";
        let ids = Tensor::from_slice(&[1], &[2_i64]).unwrap();
        for message in errors(text, &[table(3), ids]) {
            assert!(!message.contains("input ids"), "{message}");
        }
    }

    #[test]
    fn empty_tables_and_places_are_described() {
        let text = "graph @empty(%table: f32[V, 2], %ids: i64[N]) -> f32[N, 2] {
            %y = gather %table, %ids {axis = 0}
            return %y
        }";
        let ids = Tensor::from_slice(&[1], &[0_i64]).unwrap();
        for message in errors(text, &[table(0), ids]) {
            assert!(
                message.starts_with(
                    "input ids: expected no index, as the axis is empty, found 0 at [0];"
                ),
                "{message}"
            );
        }
        assert_eq!(place(7, &[2, 2, 3]), "[1, 0, 1]");
        assert_eq!(place(0, &[]), "[]");
    }
}
