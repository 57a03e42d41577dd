//! The book's examples are checked: its graphs are read and checked against the laws of the text form, and its Rust
//! code runs as doctests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln_ir::{BlobMap, text, verify};
use kiln_shape_inference::{check_types, read_graph};
use kiln_testkit::book::{DOCTESTED, blocks, folder, pages};
use kiln_testkit::laws::check_graph;

#[test]
fn the_graphs_of_the_book_are_read_and_print_to_a_fixpoint() {
    let mut n_blocks = 0;
    for path in pages().unwrap() {
        let page = std::fs::read_to_string(&path).unwrap();
        for block in blocks(&page, "kiln") {
            let at = format!("{}:{}", path.display(), block.line);
            let graph = read_graph(&block.text, &BlobMap::new())
                .unwrap_or_else(|errors| panic!("{at}\n{}", errors.render(&block.text)));
            verify(&graph).unwrap_or_else(|errors| panic!("{at}: {errors}"));
            check_types(&graph).unwrap_or_else(|errors| panic!("{at}: {errors}"));
            check_graph(&graph).unwrap_or_else(|error| panic!("{at}: {error}"));
            let printed = text::print(&graph);
            let again = read_graph(&printed, &BlobMap::new()).unwrap();
            assert_eq!(text::print(&again), printed, "{at}");
            n_blocks += 1;
        }
    }
    assert!(n_blocks >= 9, "found {n_blocks} graphs in the book");
}

#[test]
fn every_page_with_rust_is_a_doctest() {
    for path in pages().unwrap() {
        let page = std::fs::read_to_string(&path).unwrap();
        let name = path
            .strip_prefix(folder())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let has_rust = !blocks(&page, "rust").is_empty();
        assert_eq!(
            has_rust,
            DOCTESTED.contains(&name.as_str()),
            "{name}: list it in `book.rs`, or drop it there"
        );
    }
}
