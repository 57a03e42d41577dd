//! Graphs as ONNX models of known sizes, so that other implementations can run them.
//!
//! Most core ops have an operator with the same meaning; a graph with any other op has no model. Sizes are written as
//! numbers: those of a call with the given inputs.

mod message;
mod operators;

use kiln_ir::{Graph, ValueId};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Tensor};
use message::Message;
use operators::Exporter;

/// The version of the standard operators in the models.
pub(crate) const OPSET: i64 = 20;

/// The model of a graph called with inputs of these shapes; `None` if an op, a dtype or a size cannot be expressed in
/// ONNX.
///
/// ```
/// use kiln_testkit::export::to_onnx;
///
/// let text = "graph @double(%x: f32[N]) -> f32[N] {
///   %y = add %x, %x
///   return %y
/// }";
/// let graph = kiln_shape_inference::read_graph(text, &kiln_ir::BlobMap::new()).map_err(|e| e.to_string())?;
/// let model = to_onnx(&graph, &[vec![3]]).ok_or("no model")?;
/// let read = kiln_onnx::Model::from_bytes(&model, &kiln_onnx::NoFiles).map_err(|e| e.to_string())?;
/// assert_eq!(read.graph().nodes()[0].op_type(), "Add");
/// # Ok::<(), String>(())
/// ```
pub fn to_onnx(graph: &Graph, shapes: &[Vec<usize>]) -> Option<Vec<u8>> {
    Some(write(graph, shapes, None)?.0)
}

/// The same with the elements of constants in a file of this name next to the model, which is returned second.
pub fn to_onnx_beside(
    graph: &Graph,
    shapes: &[Vec<usize>],
    location: &str,
) -> Option<(Vec<u8>, Vec<u8>)> {
    write(graph, shapes, Some(location))
}

fn write(
    graph: &Graph,
    shapes: &[Vec<usize>],
    location: Option<&str>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let binding = binding(graph, shapes)?;
    let mut exporter = Exporter::new(graph, &binding, location);
    for &op in &graph.region(graph.body()).ops {
        exporter.op(graph.op(op))?;
    }
    let (mut content, outside) = exporter.into_contents();
    content.text(2, "generated");
    for (&input, shape) in graph.inputs().iter().zip(shapes) {
        let dtype = graph.tensor_ty(input)?.dtype;
        content.message(11, &value_info(&name(input), dtype, Some(shape)));
    }
    for (index, &output) in graph.outputs().iter().enumerate() {
        // An input, or a value that is an output twice, needs a separate name.
        let own = format!("y{index}");
        let mut node = Message::new();
        node.text(1, &name(output));
        node.text(2, &own);
        node.text(4, "Identity");
        content.message(1, &node);
        content.message(12, &value_info(&own, graph.tensor_ty(output)?.dtype, None));
    }
    let mut opset = Message::new();
    opset.number(2, OPSET);
    let mut model = Message::new();
    model.number(1, 9);
    model.text(2, "kiln");
    model.message(7, &content);
    model.message(8, &opset);
    Some((model.into_bytes(), outside))
}

/// A tensor in the file format of ONNX's test data.
pub fn tensor_file(name: &str, tensor: &Tensor) -> Option<Vec<u8>> {
    Some(tensor_message(name, tensor)?.into_bytes())
}

/// The values of the symbols that by themselves are a size of an input.
fn binding(graph: &Graph, shapes: &[Vec<usize>]) -> Option<Binding> {
    let mut binding = Binding::new();
    for (&input, shape) in graph.inputs().iter().zip(shapes) {
        for (&dim, &size) in graph.tensor_ty(input)?.dims.iter().zip(shape) {
            if let Some(symbol) = graph.dims().as_symbol(dim) {
                binding.set(symbol, i64::try_from(size).ok()?).ok()?;
            }
        }
    }
    Some(binding)
}

fn name(value: ValueId) -> String {
    value.to_string().replace('%', "v")
}

/// The ONNX number of a dtype.
fn number_of(dtype: DType) -> i64 {
    let numbers = 1..=16;
    let is_it = |&number: &i32| kiln_onnx::ElementType::from_number(number).dtype() == Some(dtype);
    numbers.into_iter().find(is_it).map_or(0, i64::from)
}

fn value_info(name: &str, dtype: DType, shape: Option<&Vec<usize>>) -> Message {
    let mut tensor = Message::new();
    tensor.number(1, number_of(dtype));
    if let Some(shape) = shape {
        let mut dims = Message::new();
        for &size in shape {
            let mut dim = Message::new();
            dim.number(1, i64::try_from(size).unwrap_or(i64::MAX));
            dims.message(1, &dim);
        }
        tensor.message(2, &dims);
    }
    let mut ty = Message::new();
    ty.message(1, &tensor);
    let mut info = Message::new();
    info.text(1, name);
    info.message(2, &ty);
    info
}

fn tensor_message(name: &str, tensor: &Tensor) -> Option<Message> {
    let mut message = typed_message(name, tensor)?;
    message.bytes(9, tensor.contiguous().ok()?.as_bytes().ok()?);
    Some(message)
}

/// A tensor's name and type, without its elements.
fn typed_message(name: &str, tensor: &Tensor) -> Option<Message> {
    let mut message = Message::new();
    for &size in tensor.shape() {
        message.number(1, i64::try_from(size).ok()?);
    }
    message.number(2, number_of(tensor.dtype()));
    message.text(8, name);
    Some(message)
}
