//! The examples of the kernel form, as files.

/// Name and text of each, in order.
pub(crate) fn examples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/examples");
    let mut examples: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path).unwrap();
            // Sizes that are too large for the evaluator become symbols.
            let text = match name.as_str() {
                "linear_gelu" => text.replace("1536", "F").replace("384", "K"),
                _ => text,
            };
            (name, text)
        })
        .collect();
    examples.sort();
    examples
}
