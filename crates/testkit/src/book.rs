//! The book's examples: fenced blocks by language, and Rust blocks as doctests.
//!
//! Rust blocks run because each chapter that has any is the documentation of an item that exists only in doctests; a test
//! compares the list with the book's folder. Blocks in Kiln's own text are found with [`blocks`] and read, verified and
//! printed by a test.

use kiln_tensor::{Tensor, TensorError};
use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The content.
    pub text: String,
}

/// The fenced blocks of one language in a Markdown page.
pub fn blocks(page: &str, language: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(bool, Block)> = None;
    for (index, line) in page.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        open = match (open, fence) {
            (None, Some(info)) => {
                let wanted = info.trim().split(',').next() == Some(language);
                Some((
                    wanted,
                    Block {
                        line: index + 1,
                        text: String::new(),
                    },
                ))
            }
            (None, None) => None,
            (Some((wanted, block)), Some(_)) => {
                found.extend(wanted.then_some(block));
                None
            }
            (Some((wanted, mut block)), None) => {
                block.text.push_str(line);
                block.text.push('\n');
                Some((wanted, block))
            }
        };
    }
    found
}

/// The folder of the book's pages.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

/// Every page of the book, in order of their paths.
///
/// # Errors
/// When a folder cannot be read.
pub fn pages() -> std::io::Result<Vec<PathBuf>> {
    let mut folders = vec![folder()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The arrays of the page of idioms: `m`, `s`, `v`, `n`, `b`.
///
/// # Errors
/// When memory for them cannot be allocated.
pub fn arrays() -> Result<[Tensor; 5], TensorError> {
    Ok([
        Tensor::from_slice(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?,
        Tensor::from_slice(&[2, 2], &[4.0_f32, 1.0, 2.0, 3.0])?,
        Tensor::from_slice(&[3], &[3.0_f32, -1.0, 2.0])?,
        Tensor::from_slice(&[3], &[2_i64, 0, 1])?,
        Tensor::from_slice(&[3], &[true, false, true])?,
    ])
}

/// Compares the printed form of a tensor with a text, both on one line.
///
/// # Panics
/// When they differ.
#[track_caller]
pub fn assert_prints(tensor: &Tensor, expected: &str) {
    let printed = tensor.to_string();
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert_eq!(words.join(" "), expected);
}

/// Compiles a function, calls it, and compares the printed result: a line of the page of idioms.
#[macro_export]
macro_rules! same {
    ($function:expr, [$($input:expr),+], $expected:expr) => {
        $crate::book::assert_prints(&::kiln::jit($function).call([$($input),+])?, $expected)
    };
}

/// Declares a page's Rust blocks as doctests.
macro_rules! doctests {
    ($($name:ident = $page:literal;)+) => {
        /// The pages whose Rust blocks run as doctests, relative to [`folder`].
        pub const DOCTESTED: &[&str] = &[$($page),+];

        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../docs/book/src/", $page))]
            struct $name;
        )+
    };
}

doctests! {
    WhatKilnIs = "tutorial/01_what_kiln_is.md";
    ShapesAsSymbols = "tutorial/02_shapes_as_symbols.md";
    FunctionsThatCompileThemselves = "tutorial/04_functions_that_compile_themselves.md";
    Gradients = "tutorial/05_gradients.md";
    Training = "tutorial/06_training.md";
    Recomputation = "tutorial/07_recomputation.md";
    BringingYourModel = "guide/bringing-your-model.md";
    ChoosingDevices = "guide/backends.md";
    NumpyIdioms = "guide/numpy-idioms.md";
    AddingADevice = "guide/adding-a-device.md";
    CheckingCompiledCode = "guide/checking.md";
    WhenThingsAreCompiled = "guide/compiling.md";
    SharingCompiledCode = "guide/sharing-a-store.md";
    TensorsThatStay = "guide/sessions.md";
    Decoding = "guide/decoding.md";
    ReadingATimingReport = "guide/timing.md";
    Operations = "guide/operations.md";
    Reports = "guide/report.md";
    Explaining = "guide/explaining.md";
    Tuning = "guide/tuning.md";
    KernelService = "guide/kernel-service.md";
    ReducedPrecision = "guide/reduced-precision.md";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_language() {
        let page = "a\n```kiln\ngraph\n```\n```rust,no_run\nfn main() {}\n```\n```text\nx\n```\n";
        let graph = Block {
            line: 2,
            text: "graph\n".to_owned(),
        };
        assert_eq!(blocks(page, "kiln"), [graph]);
        assert_eq!(blocks(page, "rust")[0].line, 5);
        assert!(blocks("```kiln\nnever closed", "kiln").is_empty());
    }
}
