//! Every example of the form: read, printed back, verified, and compared with a graph or a plain loop of the same meaning.

#[test]
fn every_example_prints_as_it_is_written() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut n = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let kernel = kiln_kernel::text::read(&text)
            .unwrap_or_else(|errors| panic!("{}", errors.render(&text)));
        let written: String = text
            .lines()
            .filter(|line| !line.starts_with("//"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(kiln_kernel::text::print(&kernel), written, "{path:?}");
        n += 1;
    }
    assert_eq!(n, 26);
}
