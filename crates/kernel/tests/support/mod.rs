//! Reads examples, makes tensors, and compares results.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::BlobMap;
use kiln_kernel::{Kernel, evaluate};
use kiln_scalar::Mode;
use kiln_tensor::Tensor;
use kiln_testkit::cases::topic;
use kiln_testkit::kernels::{Elements, kernel_tensors};
use kiln_testkit::random::SplitMix64;

/// Sizes by name.
pub(crate) type NamedSizes<'a> = &'a [(&'a str, i64)];

/// An example as written.
pub(crate) fn example_text(name: &str) -> String {
    let cases = topic("examples").unwrap();
    let case = cases.iter().find(|case| case.name() == name);
    case.unwrap().text()
}

pub(crate) fn kernel(text: &str) -> Kernel {
    kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

/// The values of a kernel's symbols, in its order.
pub(crate) fn symbols(kernel: &Kernel, sizes: NamedSizes<'_>) -> Vec<i64> {
    let dims = kernel.dims();
    let value = |symbol| {
        let name = dims.symbol_name(symbol);
        let found = sizes.iter().find(|(given, _)| *given == name);
        found.unwrap_or_else(|| panic!("no size {name}")).1
    };
    dims.symbols().map(value).collect()
}

pub(crate) fn as_f64(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap()
}

pub(crate) fn expect_close(found: &Tensor, expected: &[f64], tolerance: f64, what: &str) {
    let found = as_f64(found);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_close =
            (found - expected).abs() <= tolerance * expected.abs().max(1.0) || found == expected;
        assert!(
            is_close || (found.is_nan() && expected.is_nan()),
            "{what} at {position}: {found}, not {expected}"
        );
    }
}

/// Evaluates a kernel in both modes, with `i64`s from `integers.0` to `integers.1` (exclusive), and compares what it
/// writes with the result of `expected` in `f64`.
pub(crate) fn compare(
    text: &str,
    sizes: NamedSizes<'_>,
    integers: (i64, i64),
    expected: &dyn Fn(&[Tensor]) -> Vec<Vec<f64>>,
) {
    let kernel = kernel(text);
    let symbols = symbols(&kernel, sizes);
    let elements = Elements {
        indices: integers,
        ..Elements::default()
    };
    let inputs = kernel_tensors(&mut SplitMix64::new(1), &kernel, &symbols, elements);
    let inputs = inputs.unwrap().unwrap();
    let expected = expected(&inputs);
    for (mode, tolerance) in [(Mode::Promoted, 1e-9), (Mode::Declared, 1e-4)] {
        let mut buffers = inputs.clone();
        evaluate(&kernel, &symbols, &mut buffers, mode)
            .unwrap_or_else(|error| panic!("{} with {sizes:?}: {error}", kernel.name()));
        let written = kernel
            .buffers()
            .iter()
            .zip(&buffers)
            .filter(|((_, buffer), _)| buffer.role.is_written());
        let written: Vec<_> = written.collect();
        assert_eq!(written.len(), expected.len());
        for (((_, buffer), found), expected) in written.iter().zip(&expected) {
            let what = format!("{} %{} {mode:?} {sizes:?}", kernel.name(), buffer.name);
            expect_close(found, expected, tolerance, &what);
            assert_eq!(found.dtype(), mode.stored(buffer.dtype), "{what}");
        }
    }
}

/// Compares a kernel with a graph whose inputs are the buffers that the kernel reads, in order.
pub(crate) fn compare_with_graph(
    text: &str,
    graph: &str,
    sizes: NamedSizes<'_>,
    integers: (i64, i64),
) {
    let parsed = kiln_shape_inference::read_graph(graph, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(graph)));
    let is_read: Vec<bool> = kernel(text)
        .buffers()
        .values()
        .map(|buffer| buffer.role.is_read())
        .collect();
    compare(text, sizes, integers, &|buffers| {
        let inputs = buffers
            .iter()
            .zip(&is_read)
            .filter(|(_, is_read)| **is_read);
        let inputs: Vec<Tensor> = inputs.map(|(tensor, _)| tensor.clone()).collect();
        let options = InterpretOptions {
            mode: Mode::Promoted,
            ..InterpretOptions::default()
        };
        let outputs = interpret(&parsed, &inputs, &options)
            .unwrap_or_else(|error| panic!("{sizes:?}: {error}"));
        outputs.iter().map(as_f64).collect()
    });
}
