//! Random numbers, as integer arithmetic on positions and a key.

use super::Var;
use crate::size::Size;
use kiln_ir::Op;
use kiln_tensor::DType;

impl Var {
    /// Random bits `u32[sizes..]`, of the positions in row-major order: the variable is their key, `u64[2]`. The same key gives
    /// the same bits on every machine (Philox 4x32-10).
    #[must_use]
    #[track_caller]
    pub fn random_bits<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        match self.dims(sizes) {
            // An argument has symbols as sizes, and the key has to have two elements.
            Some(dims) => self.reshape([2]).record(|builder, key| {
                let dims = dims.iter().copied().collect();
                builder.op1(Op::RandomBits { dims }, &[key])
            }),
            None => Var::new(&self.recorder, None),
        }
    }

    /// Random numbers from 0 to below 1, in `f32`, under this key; see [`random_bits`](Self::random_bits).
    #[must_use]
    #[track_caller]
    pub fn random_uniform<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        /// The bits that an `f32` holds exactly.
        const BITS: i64 = 24;
        let bits = self.random_bits(sizes);
        let high = bits.map2("shr", 32 - BITS);
        high.cast(DType::F32) * (-BITS as f64).exp2()
    }

    /// Each element zero with the probability `share`, otherwise divided by `1 - share`; under a key `u64[2]`. A share of 0
    /// changes nothing.
    #[must_use]
    #[track_caller]
    pub fn dropout(&self, key: impl AsRef<Var>, share: f64) -> Var {
        let sizes = (0..self.rank()).map(|axis| self.size(i64::try_from(axis).unwrap_or(0)));
        let kept = key.as_ref().random_uniform(sizes).greater_equal(share);
        let scaled = self / (1.0 - share);
        let zero = scaled.scalar(0.0);
        kept.select(scaled, zero)
    }
}
