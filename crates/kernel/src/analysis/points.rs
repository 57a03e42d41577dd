//! The amount of work of a kernel at given sizes.

use kiln_symbolic_shape::Binding;

use crate::form::{AxisId, Item, Kernel, StageOperation};

/// The approximate number of points that a kernel computes for these values of its symbols: those of every stage and
/// store, at each outer point. An extent without a value counts as 1, and one clamped by data as its bound.
pub fn points(kernel: &Kernel, symbols: &[i64]) -> f64 {
    let dims = kernel.dims();
    let named = dims.symbols().zip(symbols.iter().copied());
    let named = named.filter(|&(symbol, _)| dims.definition(symbol).is_none());
    let binding: Binding = named.collect();
    let size = |axis: AxisId| {
        let bound = kernel.axis(axis).extent.bound();
        dims.evaluate(bound, &binding)
            .map_or(1.0, |size| size as f64)
    };
    let product = |axes: &[AxisId]| axes.iter().map(|&axis| size(axis)).product::<f64>();
    let one = |item: &Item| match item {
        Item::Stage(stage) => {
            let stage = kernel.stage(*stage);
            let reduced = match &stage.operation {
                StageOperation::Reduce { axes, .. } => product(axes),
                StageOperation::Map => 1.0,
            };
            product(&stage.axes) * reduced
        }
        Item::Store(store) => product(&store.axes),
        Item::Carry(_) => 0.0,
    };
    let inner = kernel.items().iter().map(|item| match item {
        Item::Carry(carry) => size(carry.axis) * carry.items.iter().map(one).sum::<f64>(),
        other => one(other),
    });
    product(kernel.outer()) * inner.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn stages_and_stores_count_at_each_outer_point() {
        let kernel = text::read(
            "kernel @mm(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
               outer m < M, n < N
               s = reduce add[k < K] %x[m, k] * %y[k, n]
               store %o[m, n] = s
             }",
        )
        .unwrap();
        let symbols: Vec<i64> = kernel
            .dims()
            .symbols()
            .map(|symbol| match kernel.dims().symbol_name(symbol) {
                "M" => 2,
                "N" => 3,
                _ => 10,
            })
            .collect();
        assert_eq!(points(&kernel, &symbols), 2.0 * 3.0 * (10.0 + 1.0));
    }
}
