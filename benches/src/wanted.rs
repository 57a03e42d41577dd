//! The rows of a table selected on the command line.

/// A part of a table: measures the selected rows.
pub type Part = fn(&dyn Fn(&str) -> bool, &mut crate::table::Table);

/// Measures the rows whose names contain one of the given words, or all without any, and prints the table. Nothing is
/// measured in a test run, which has no `--bench`.
#[allow(clippy::print_stdout, reason = "a benchmark prints what it saw")]
pub fn run(bench: &str, parts: &[Part]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!(
            "nothing is measured in a test run; say: cargo bench -p kiln-benches --bench {bench}"
        );
        return;
    }
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let mut table = crate::table::Table::new();
    for part in parts {
        part(&wanted, &mut table);
    }
    table.finish();
}
