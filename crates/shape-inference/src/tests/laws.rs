//! Laws, checked by enumeration and at random: symbolic results evaluate to the concrete ones.

use crate::GraphBuilder;
use kiln_ir::ValueId;
use kiln_symbolic_shape::{Binding, DimId, SymbolicDimension};
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;

/// A builder with an input `f32[N]` and the integer symbols `p` and `q`.
struct Fixture {
    builder: GraphBuilder,
    x: ValueId,
    n: DimId,
}

impl Fixture {
    fn new() -> Self {
        let mut builder = GraphBuilder::new("t");
        let n = builder.symbol("N").unwrap();
        let x = builder.input("x", DType::F32, &[n]);
        Self { builder, x, n }
    }

    fn integer(&mut self, name: &str) -> DimId {
        let symbol = self
            .builder
            .dims_mut()
            .declare(SymbolicDimension::integer(name))
            .unwrap();
        self.builder.dims_mut().dim(symbol)
    }

    fn evaluate(&self, dim: DimId, values: &[(DimId, i64)]) -> i64 {
        let dims = self.builder.dims();
        let symbol = |&(dim, value): &(DimId, i64)| (dims.as_symbol(dim).unwrap(), value);
        let binding: Binding = values.iter().map(symbol).collect();
        dims.evaluate(dim, &binding).unwrap()
    }
}

/// The elements of Python's `list(range(size))[start:end:step]`.
fn python_slice(size: i64, start: i64, end: i64, step: i64) -> Vec<i64> {
    let clamp =
        |at: i64, low: i64, high: i64| (if at < 0 { at + size } else { at }).clamp(low, high);
    let (mut at, end) = if step > 0 {
        (clamp(start, 0, size), clamp(end, 0, size))
    } else {
        (clamp(start, -1, size - 1), clamp(end, -1, size - 1))
    };
    let mut indices = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        indices.push(at);
        at += step;
    }
    indices
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn slices_match_python(
        start in -9_i64..9,
        end in -9_i64..9,
        step in prop_oneof![-3_i64..0, 1_i64..4],
        symbolic in any::<[bool; 2]>(),
    ) {
        let mut fixture = Fixture::new();
        let first = if symbolic[0] { fixture.integer("p") } else { fixture.builder.size(start) };
        let last = if symbolic[1] { fixture.integer("q") } else { fixture.builder.size(end) };
        let mut values = Vec::new();
        if symbolic[0] { values.push((first, start)); }
        if symbolic[1] { values.push((last, end)); }
        let y = fixture.builder.slice_range(fixture.x, 0, first, last, step).unwrap();
        let size = fixture.builder.shape(y).unwrap()[0];
        let starts = match fixture.builder.graph().value(y).definition {
            kiln_ir::Definition::Result { op, .. } => match &fixture.builder.graph().op(op).op {
                kiln_ir::Op::Slice { starts, .. } => starts[0],
                _ => unreachable!("a slice gives it"),
            },
            // The whole operand.
            kiln_ir::Definition::Parameter { .. } => fixture.builder.dims_mut().constant(0),
        };
        for n in 0..7 {
            let expected = python_slice(n, start, end, step);
            let values: Vec<_> = values.iter().copied().chain([(fixture.n, n)]).collect();
            prop_assert_eq!(fixture.evaluate(size, &values), expected.len() as i64, "size {}", n);
            if let Some(&at) = expected.first() {
                prop_assert_eq!(fixture.evaluate(starts, &values), at, "start {}", n);
            }
        }
    }

    #[test]
    fn window_counts_match_enumeration(
        kernel in 1_i64..5,
        stride in 1_i64..4,
        dilation in 1_i64..3,
        low in 0_i64..3,
        high in 0_i64..3,
    ) {
        let mut builder = GraphBuilder::new("t");
        let one = builder.size(1);
        let n = builder.symbol("N").unwrap();
        let x = builder.input("x", DType::F32, &[one, one, n]);
        let window = builder.window(&[stride], &[dilation], &[low], &[high]);
        let y = builder.pool(x, kiln_ir::PoolFunction::Max, &[kernel], window).unwrap();
        let size = builder.shape(y).unwrap()[2];
        let fixture = Fixture { builder, x, n };
        let reach = (kernel - 1) * dilation + 1;
        for n in 0..12 {
            let counted = (0..).take_while(|index| index * stride + reach <= n + low + high).count() as i64;
            // If the window does not fit, the formula may be 0 or negative, which is rejected at run time.
            prop_assert_eq!(fixture.evaluate(size, &[(fixture.n, n)]).max(0), counted, "size {}", n);
        }
    }

    #[test]
    fn same_padding_divides_rounded_up(kernel in 1_i64..6, stride in 1_i64..4, dilation in 1_i64..3, upper in any::<bool>()) {
        let mut builder = GraphBuilder::new("t");
        let one = builder.size(1);
        let n = builder.symbol("N").unwrap();
        let x = builder.input("x", DType::F32, &[one, one, n]);
        let size = builder.size(kernel);
        let (low, high) = builder.same_padding(n, size, stride, dilation, upper).unwrap();
        let mut window = builder.window(&[stride], &[dilation], &[0], &[0]);
        (window.low[0], window.high[0]) = (low, high);
        let y = builder.pool(x, kiln_ir::PoolFunction::Max, &[kernel], window).unwrap();
        let y = builder.shape(y).unwrap()[2];
        let fixture = Fixture { builder, x, n };
        for n in 1..12 {
            let at = [(fixture.n, n)];
            prop_assert_eq!(fixture.evaluate(y, &at), (n + stride - 1) / stride, "size {}", n);
            let (low, high) = (fixture.evaluate(low, &at), fixture.evaluate(high, &at));
            let (less, more) = if upper { (low, high) } else { (high, low) };
            prop_assert!(more - less == 0 || more - less == 1);
        }
    }

    /// Sizes that pass through f32 equal the f32 results.
    #[test]
    fn sizes_scaled_through_f32_match_float_arithmetic(
        factor in prop_oneof![Just(0.5_f32), Just(2.0), Just(1.5), Just(3.0), Just(7.0), Just(0.375), Just(12.0)],
        shift in prop_oneof![Just(0.0_f32), Just(1.0), Just(0.5), Just(-0.25)],
        divide in any::<bool>(),
        up in any::<bool>(),
        sizes in proptest::collection::vec(prop_oneof![0_i64..40, 0_i64..2_000_000], 8),
    ) {
        let mut fixture = Fixture::new();
        let builder = &mut fixture.builder;
        let shape = builder.dims_of(fixture.x).unwrap();
        let float = builder.cast(shape, DType::F32).unwrap();
        let factor_value = builder.constant(Tensor::scalar(factor)).unwrap();
        let shift_value = builder.constant(Tensor::scalar(shift)).unwrap();
        let moved = builder.add(float, shift_value).unwrap();
        let scaled = if divide { builder.div(moved, factor_value) } else { builder.mul(moved, factor_value) }.unwrap();
        let rounded = if up { builder.ceil(scaled) } else { builder.floor(scaled) }.unwrap();
        let size = builder.cast(rounded, DType::I64).unwrap();
        let size = builder.known_values(size).map(|dims| dims[0]);
        prop_assert!(size.is_some() || shift < 0.0);
        let Some(size) = size else { return Ok(()) };
        for n in sizes {
            let binding: Binding = [(fixture.builder.dims().as_symbol(fixture.n).unwrap(), n)].into_iter().collect();
            if fixture.builder.dims().check(&binding).is_err() {
                continue;
            }
            let moved = n as f32 + shift;
            let scaled = if divide { moved / factor } else { moved * factor };
            let expected = if up { scaled.ceil() } else { scaled.floor() } as i64;
            prop_assert_eq!(fixture.evaluate(size, &[(fixture.n, n)]), expected, "size {}", n);
        }
    }
}
