//! The cost of shapes in the compiler: microseconds for the size expressions of one operator, for a proof, and for binding.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use kiln::internals::symbolic_shape::text::{Cursor, parse_shape, parse_where};
use kiln::internals::symbolic_shape::{Binding, DimError, DimId, DimTable, Predicate, SymbolId};

/// The output sizes of one convolution: `(H + 2*1 - 3) / 2 + 1` and the same for `W`.
fn convolution(table: &mut DimTable, size: DimId) -> Result<DimId, DimError> {
    let (padding, stride, one) = (table.constant(-1), table.constant(2), table.constant(1));
    let padded = table.add(size, padding)?;
    let steps = table.floor_div(padded, stride)?;
    table.add(steps, one)
}

/// A chain of five strided convolutions over `[N, C, H, W]`, as in detectors.
fn pyramid(
    table: &mut DimTable,
    mut height: DimId,
    mut width: DimId,
) -> Result<(DimId, DimId), DimError> {
    for _ in 0..5 {
        height = convolution(table, height)?;
        width = convolution(table, width)?;
    }
    Ok((height, width))
}

fn table_of(shape: &str, facts: &str) -> (DimTable, Vec<DimId>) {
    let mut table = DimTable::new();
    if !facts.is_empty() {
        parse_where(&mut Cursor::new(facts), &mut table).expect("the facts are well formed");
    }
    let dims = parse_shape(&mut Cursor::new(shape), &mut table).expect("the shape is well formed");
    (table, dims)
}

fn infer(c: &mut Criterion) {
    let (table, dims) = table_of("[N, C, H, W]", "H >= 1, W >= 1");
    c.bench_function("symbolic_shape/infer_convolution_new_sizes", |b| {
        b.iter_batched_ref(
            || table.clone(),
            |table| pyramid(table, dims[2], dims[3]),
            BatchSize::SmallInput,
        );
    });
    let (mut seen, dims) = table_of("[N, C, H, W]", "H >= 1, W >= 1");
    c.bench_function("symbolic_shape/infer_convolution_sizes_seen_before", |b| {
        b.iter(|| pyramid(&mut seen, black_box(dims[2]), black_box(dims[3])));
    });
    let (mut table, dims) = table_of("[B, S, 12, 32, B*S]", "B >= 1, S >= 1");
    c.bench_function("symbolic_shape/infer_reshape_and_broadcast", |b| {
        b.iter(|| {
            let product = table.product(black_box(&dims[..4])).expect("small sizes");
            let quotient = table.exact_quotient(product, dims[4]);
            (quotient, table.broadcast_dim(dims[0], dims[1], "add %7"))
        });
    });
}

fn prove(c: &mut Criterion) {
    let (mut table, dims) = table_of(
        "[B, S, H, 2*(H / 32), ceil(H / 16), i*S + j, B*S]",
        "H % 32 == 0, i < B, j < S",
    );
    c.bench_function("symbolic_shape/prove_equal_sizes", |b| {
        b.iter(|| table.prove(black_box(&Predicate::Equal(dims[3], dims[4]))));
    });
    c.bench_function("symbolic_shape/prove_index_in_bounds", |b| {
        b.iter(|| table.prove(black_box(&Predicate::Less(dims[5], dims[6]))));
    });
    let many: Vec<DimId> = (0..64)
        .map(|n| table.symbol(&format!("x{n}")).expect("a name"))
        .collect();
    let (left, right) = (
        table.sum(&many[..32]).expect("small"),
        table.sum(&many[32..]).expect("small"),
    );
    c.bench_function("symbolic_shape/give_up_on_64_symbols", |b| {
        b.iter(|| table.prove(black_box(&Predicate::LessEqual(left, right))));
    });
}

fn bind(c: &mut Criterion) {
    let (mut table, dims) = table_of("[N, C, H, W]", "");
    let (height, width) = pyramid(&mut table, dims[2], dims[3]).expect("small sizes");
    let area = table.mul(height, width).expect("small sizes");
    let symbol = |name: &str| -> SymbolId { table.symbol_named(name).expect("declared above") };
    let sizes: Binding = [("N", 1), ("C", 3), ("H", 640), ("W", 480)]
        .map(|(name, size)| (symbol(name), size))
        .into_iter()
        .collect();
    c.bench_function("symbolic_shape/evaluate_output_shape", |b| {
        b.iter(|| table.evaluate_all(black_box(&[dims[0], height, width, area]), &sizes));
    });
}

criterion_group!(benches, infer, prove, bind);
criterion_main!(benches);
