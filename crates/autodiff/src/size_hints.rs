//! Assumed values for unknown sizes, used where a choice between correct graphs depends on costs.

use kiln_ir::Graph;
use kiln_symbolic_shape::{Binding, DimId, DimTable};

/// The default value of a symbol, unless the caller gives another, or the symbol's range excludes it.
pub(crate) const SIZE_HINT: i64 = 64;

/// A value for each symbol of a graph.
pub(crate) struct SizeHints<'g> {
    dims: &'g DimTable,
    sizes: Binding,
}

impl<'g> SizeHints<'g> {
    /// `hint` for each symbol of a graph, or the nearest value in the symbol's range.
    pub(crate) fn of(graph: &'g Graph, hint: i64) -> Self {
        let dims = graph.dims();
        let mut sizes = Binding::new();
        for symbol in dims.symbols() {
            let info = dims.symbol_info(symbol);
            let hint = hint.max(info.min());
            let hint = info.max().map_or(hint, |max| hint.min(max));
            // A fresh binding has no other value for the symbol.
            let _ = sizes.set(symbol, hint);
        }
        Self { dims, sizes }
    }

    /// The elements of a tensor of these sizes.
    pub(crate) fn elements(&self, dims: &[DimId]) -> u64 {
        let size = |&dim: &DimId| {
            let size = self.dims.evaluate(dim, &self.sizes);
            let size = size.ok().and_then(|size| u64::try_from(size).ok());
            size.unwrap_or(1)
        };
        dims.iter().map(size).fold(1, u64::saturating_mul)
    }
}
