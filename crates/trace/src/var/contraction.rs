//! Sums of products.

use super::Var;

impl Var {
    /// `[batch.., M, K], [batch.., K, N] -> [batch.., M, N]`.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: impl AsRef<Var>) -> Var {
        self.record_with(&[other.as_ref()], |builder, x, others| match others {
            [other] => builder.matmul(x, *other),
            _ => unreachable!("one other operand was given"),
        })
    }
}
