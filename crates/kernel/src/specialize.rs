//! Specialises a kernel to known sizes: a variant is the same kernel with more facts.
//!
//! The symbols stay, in order, so the arguments of a launch of either kernel fit the other. Each known symbol is
//! replaced by its value; the computation at each point, and its order, are unchanged. Where a broadcast was decided at run
//! time, it is decided now, and axes that it kept apart are merged.

use kiln_symbolic_shape::Binding;

use crate::canonicalize::{as_good, merge_axes, put, slots};
use crate::fold_selections::fold_selections;
use crate::verified::VerifiedKernel;
use crate::verify::verify;

/// The kernel with these values in place of the symbols; valid only for these values. `None` if no size becomes known,
/// or if less could be proved of the result.
///
/// ```
/// use kiln_kernel::{specialize, text, verify};
/// use kiln_symbolic_shape::Binding;
///
/// let kernel = verify(text::read(
///     "kernel @twice(%x: in f32[N], %y: out f32[N]) {
///        outer i < N
///        store %y[i] = %x[i] + %x[i]
///      }",
/// )?)?;
/// let symbol = kernel.dims().symbols().next().expect("it has one symbol");
/// let mut sizes = Binding::new();
/// sizes.set(symbol, 128)?;
/// let known = specialize(&kernel, &sizes).expect("the size is known now");
/// assert!(text::print(&known).contains("outer i < 128"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn specialize(kernel: &VerifiedKernel, sizes: &Binding) -> Option<VerifiedKernel> {
    let mut known = kernel.kernel().clone();
    let mut is_changed = false;
    for (slot, dim) in slots(kernel) {
        if known.dims.as_constant(dim).is_some() {
            continue;
        }
        let Ok(size) = kernel.dims().evaluate(dim, sizes) else {
            continue;
        };
        let constant = known.dims.constant(size);
        put(&mut known, slot, constant);
        is_changed = true;
    }
    if !is_changed {
        return None;
    }
    let merged = fold_selections(&mut known).then(|| merge_axes(known.clone()));
    let known = merged.into_iter().chain([known]).find_map(|known| {
        let known = verify(known).ok()?;
        as_good(kernel, &known).then_some(known)
    })?;
    Some(known.labelled(kernel.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Class;
    use crate::text;

    fn kernel(source: &str) -> VerifiedKernel {
        verify(text::read(source).unwrap()).unwrap()
    }

    fn sizes(kernel: &VerifiedKernel, values: &[i64]) -> Binding {
        let symbols = kernel.dims().symbols();
        symbols.zip(values.iter().copied()).collect()
    }

    const PRODUCT: &str = "kernel @mm(%x: in f32[M, K], %w: const f32[K, N], %y: out f32[M, N]) {
      outer m < M, n < N
      acc = reduce add[k < K] %x[m, k] * %w[k, n]
      store %y[m, n] = acc
    }";

    #[test]
    fn specialize_replaces_symbols_by_sizes_and_keeps_symbol_order() {
        let generic = kernel(PRODUCT);
        let known = specialize(&generic, &sizes(&generic, &[8, 384, 64])).unwrap();
        insta::assert_snapshot!(text::print(&known), @"
        kernel @mm<M, K, N>(%x: in f32[8, 384], %w: const f32[384, 64], %y: out f32[8, 64]) {
          outer m < 8, n < 64
          acc = reduce add[k < 384] %x[m, k] * %w[k, n]
          store %y[m, n] = acc
        }
        ");
        assert_eq!(known.classification().class, Class::Contraction);
        let names = |kernel: &VerifiedKernel| -> Vec<String> {
            let dims = kernel.dims();
            dims.symbols()
                .map(|symbol| dims.symbol_name(symbol).to_owned())
                .collect()
        };
        assert_eq!(names(&known), names(&generic));
    }

    #[test]
    fn broadcasts_decided_at_run_time_are_decided_by_known_sizes() {
        let source = "kernel @add(%x: in f32[N, C, H], %b: in f32[A, C, D], %y: out f32[N, C, H])
            where (A - 1) * (A - N) == 0, (D - 1) * (D - H) == 0 {
              outer n < N, c < C, h < H
              store %y[n, c, h] = %x[n, c, h] + %b[select(A == 1, 0, n), c, select(D == 1, 0, h)]
            }";
        let generic = kernel(source);
        let known =
            |values: &[i64]| text::print(&specialize(&generic, &sizes(&generic, values)).unwrap());
        insta::assert_snapshot!(known(&[4, 64, 56, 1, 1]), @"
        kernel @add<N, C, H, A, D>(%x: in f32[4, 64, 56], %b: in f32[1, 64, 1], %y: out f32[4, 64, 56]) where A*A - A*N - A + N == 0, D*D - D*H - D + H == 0 {
          outer n < 4, c < 64, h < 56
          store %y[n, c, h] = %x[n, c, h] + %b[0, c, 0]
        }
        ");
        let merged = known(&[4, 64, 56, 4, 56]);
        assert!(merged.contains("%y[n] = %x[n] + %b[n]"), "{merged}");
    }

    #[test]
    fn specialize_may_leave_some_sizes_symbolic() {
        let generic = kernel(PRODUCT);
        let known = specialize(&generic, &sizes(&generic, &[8])).unwrap();
        let printed = text::print(&known);
        assert!(
            printed.contains("m < 8") && printed.contains("k < K"),
            "{printed}"
        );
    }

    #[test]
    fn specialize_leaves_a_kernel_without_symbols_unchanged() {
        let fixed =
            kernel("kernel @c(%x: in f32[4], %y: out f32[4]) { outer i < 4 store %y[i] = %x[i] }");
        assert!(specialize(&fixed, &Binding::new()).is_none());
        let generic = kernel(PRODUCT);
        assert!(specialize(&generic, &Binding::new()).is_none());
    }
}
