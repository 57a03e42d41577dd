//! A copy of the table in which every size is at least 1.

use super::{DimTable, Values};
use crate::congruence::Congruence;
use crate::range::DimRange;

impl DimTable {
    /// A copy in which every symbol that is a size is at least 1, unless it is known to be 0.
    ///
    /// For queries about tensors that have elements; what it proves may not hold for empty ones.
    #[must_use]
    pub fn where_sizes_are_positive(&self) -> DimTable {
        let mut table = self.clone();
        let positive = Values {
            range: DimRange {
                min: Some(1),
                max: None,
            },
            congruence: Congruence::ANY,
        };
        for symbol in self.symbols() {
            if self.definition(symbol).is_some() || self.declared_min(symbol) < 0 {
                continue;
            }
            let Some(id) = self.polynomial(self.dim(symbol)).as_atom() else {
                continue;
            };
            let info = &mut table.atoms[id];
            if let (Some(assumed), Some(values)) =
                (info.assumed.meet(&positive), info.values.meet(&positive))
            {
                info.assumed = assumed;
                info.values = values;
            }
        }
        // All symbols are narrowed at once: otherwise the table would be walked once for each symbol.
        table.rebuilt = 0;
        table.assuming = true;
        table.refresh(0);
        table.assuming = false;
        table.resample_all();
        table
    }
}
