//! Sample kernels and their loops, for tests.

use kiln_backend::{IsaLevel, LaunchContext};
use kiln_kernel::VerifiedKernel;

use crate::loops::{LoopNest, Loops};
use crate::strategies::{self, Problem};
use crate::winograd::Transform;

pub(crate) fn kernel(text: &str) -> VerifiedKernel {
    let kernel =
        kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// A product of `rows` by `K` elements with a right operand of the given role and shape, which names its indices.
pub(crate) fn product(rows: &str, role: &str, right: &str, columns: &str) -> VerifiedKernel {
    let indices = right.to_lowercase().replace(&columns.to_lowercase(), "n");
    kernel(&format!(
        "kernel @mm(%x: in f32[{rows}, K], %y: {role} f32[{right}], %o: out f32[{rows}, {columns}]) {{
           outer m < {rows}, n < {columns}
           s = reduce add[k < K] %x[m, k] * %y[{indices}]
           store %o[m, n] = s
         }}"
    ))
}

/// The loops that the strategies propose.
pub(crate) fn loops(kernel: &VerifiedKernel, level: IsaLevel) -> Loops {
    strategies::loops(&Problem::new(kernel, level, Transform::default()).unwrap())
}

/// The nest that a launch runs, at sizes given in the order of the kernel's symbols.
pub(crate) fn chosen<'l>(
    kernel: &VerifiedKernel,
    loops: &'l Loops,
    symbols: &[i64],
    caches: [usize; 3],
) -> &'l LoopNest {
    let context = LaunchContext {
        symbols,
        threads: 2,
        caches,
    };
    let holds = |nest: &&LoopNest| nest.when.quantity(kernel).evaluate(&context) == Ok(1);
    loops.nests.iter().find(holds).unwrap()
}
