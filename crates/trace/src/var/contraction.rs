//! Contractions: sums of products.

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

    /// Einsum: the product of this and other variables of one element type, summed over the letters that are not in the
    /// result. The equation is NumPy's: a letter for each axis, `...` for any further ones. A letter that occurs twice
    /// in one term selects the diagonal; without `->`, the result has the letters that occur once. Operands are
    /// contracted from left to right, as matrix products.
    ///
    /// All sizes of a letter must be equal, except that a size that is known to be 1 is broadcast, as in NumPy.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Var, trace};
    ///
    /// let scores = |q: Var, k: Var| q.einsum("bqhd,bkhd->bhqk", &[&k]).softmax(-1);
    /// let graph = trace("scores", &scores, &[ArgumentType::new(DType::F32, 4); 2])?;
    /// let result = graph.ty(graph.outputs()[0]).display(graph.dims()).to_string();
    /// assert_eq!(result, "f32[bcast(x0_0, x1_0), bcast(x0_2, x1_2), x0_1, x1_1]");
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn einsum(&self, equation: &str, others: &[&Var]) -> Var {
        self.record_with(others, |builder, x, others| {
            builder.einsum(equation, &[&[x], others].concat())
        })
    }
}
