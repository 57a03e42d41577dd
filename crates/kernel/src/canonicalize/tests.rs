//! What canonical kernels look like, and that equal structure gives equal text.

use super::*;
use crate::text::read;

fn verified(text: &str) -> VerifiedKernel {
    let kernel = read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    verify(kernel).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The canonical text and the values of its symbols.
fn canonical(text: &str) -> String {
    let kernel = canonicalize(&verified(text));
    let mut out = kernel.text();
    let dims = kernel.kernel.dims();
    for (symbol, &value) in dims.symbols().zip(&kernel.values) {
        out += &format!(
            "{} = {}\n",
            dims.symbol_name(symbol),
            kernel.dims.display(value)
        );
    }
    out
}

#[test]
fn examples() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let once = canonical(&std::fs::read_to_string(&path).unwrap());
        text += &once;
        text += "\n";
    }
    insta::assert_snapshot!(text);
}
