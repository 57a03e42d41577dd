//! Permutations of lanes by an index per lane.

use super::{Elem, Emitter, Value, elem, lanes};

impl<'ctx> Emitter<'_, 'ctx> {
    /// The lanes of two vectors, those of the second numbered after those of the first, at the positions that a vector of i32
    /// names; `None` if the level has no such instruction, or lanes are wider than 32 bits.
    pub(crate) fn permuted_pair(
        &self,
        [first, second]: [Value<'ctx>; 2],
        positions: Value<'ctx>,
    ) -> Option<Value<'ctx>> {
        let of = elem(first);
        let name = match (lanes(first), of) {
            _ if !self.level().has_avx512() => return None,
            (8, Elem::F32) => "llvm.x86.avx512.vpermi2var.ps.256",
            (8, _) => "llvm.x86.avx512.vpermi2var.d.256",
            (16, Elem::F32) => "llvm.x86.avx512.vpermi2var.ps.512",
            (16, _) => "llvm.x86.avx512.vpermi2var.d.512",
            _ => return None,
        };
        match of {
            Elem::F32 | Elem::I32 => self.intrinsic(name, &[], &[first, positions, second]),
            Elem::I1 | Elem::I8 | Elem::I16 => {
                let [first, second] = [first, second].map(|vector| self.zext(vector, Elem::I32));
                let permuted = self.intrinsic(name, &[], &[first, positions, second])?;
                Some(self.trunc_int(permuted, of))
            }
            Elem::I64 | Elem::I128 | Elem::F64 | Elem::Pointer => None,
        }
    }

    /// The lanes of a vector at the positions that a vector of i32 names; `None` if the level has no such instruction, or
    /// lanes are wider than 32 bits.
    pub(crate) fn permuted(
        &self,
        vector: Value<'ctx>,
        positions: Value<'ctx>,
    ) -> Option<Value<'ctx>> {
        let of = elem(vector);
        let name = match (lanes(vector), of) {
            (8, Elem::F32) if self.level().has_fma() => "llvm.x86.avx2.permps",
            (8, _) if self.level().has_fma() => "llvm.x86.avx2.permd",
            (16, Elem::F32) if self.level().has_avx512() => "llvm.x86.avx512.permvar.sf.512",
            (16, _) if self.level().has_avx512() => "llvm.x86.avx512.permvar.si.512",
            _ => return None,
        };
        match of {
            Elem::F32 | Elem::I32 => self.intrinsic(name, &[], &[vector, positions]),
            Elem::I1 | Elem::I8 | Elem::I16 => {
                let wide = self.zext(vector, Elem::I32);
                let permuted = self.intrinsic(name, &[], &[wide, positions])?;
                Some(self.trunc_int(permuted, of))
            }
            Elem::I64 | Elem::I128 | Elem::F64 | Elem::Pointer => None,
        }
    }
}
