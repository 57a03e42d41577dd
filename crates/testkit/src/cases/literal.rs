//! Elements as text, as constants of graphs write them, and back.

use kiln_ir::{BlobMap, Op};
use kiln_tensor::{DType, Tensor, TensorError, match_dtype};

/// A tensor from its elements, `[1.0, -inf]`, row by row.
pub(super) fn read(text: &str, dtype: DType, shape: &[usize]) -> Result<Tensor, String> {
    let graph =
        format!("graph @literal() -> () {{\n%x: {dtype}{shape:?} = constant {text}\nreturn\n}}");
    let graph = kiln_shape_inference::read_graph(&graph, &BlobMap::new())
        .map_err(|errors| format!("expected elements of {dtype}{shape:?}: {errors}"))?;
    let constant = graph.ops().find_map(|(_, data)| match &data.op {
        Op::Constant(constant) => Some(constant.tensor()),
        _ => None,
    });
    constant.ok_or_else(|| format!("expected elements, found `{text}`"))
}

/// The elements of a tensor in the form that [`read`] accepts.
pub(super) fn print(tensor: &Tensor) -> Result<String, TensorError> {
    Ok(match_dtype!(tensor.dtype(), T => {
        let elements = tensor.to_vec::<T>()?;
        let words: Vec<String> = elements.iter().map(|x| format!("{x:?}").replace("NaN", "nan")).collect();
        format!("[{}]", words.join(", "))
    }))
}
