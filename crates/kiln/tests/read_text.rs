//! The example reads its samples correctly with the real models. Set `KILN_MODELS` to the folder that contains them;
//! without it this test prints a message and passes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[path = "../examples/read_text/reader.rs"]
mod reader;

use kiln::Device;
use reader::{TextReader, samples};
use std::path::PathBuf;

const EXPECTED: [(&str, bool, &str); 8] = [
    ("01-kiln.png", false, "Kiln"),
    ("02-shapes.png", false, "dynamic shapes"),
    ("03-turned.png", true, "turn me around"),
    ("04-invoice.png", false, "Invoice No. 20731"),
    ("05-date.png", false, "2025-03-14 08:15"),
    ("06-clay.png", true, "fires of clay: ABC xyz"),
    ("07-sentence.png", false, "any width, any batch, one graph"),
    ("08-platform.png", true, "Platform 7"),
];

#[test]
fn the_example_reads_its_samples() {
    let Some(models) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        eprintln!(
            "skipped: 1 real-model test; set KILN_MODELS to the folder that `cargo xtask models` fills"
        );
        return;
    };
    for device in Device::all() {
        let reader = TextReader::load(&models, device).unwrap_or_else(|error| panic!("{error}"));
        reads_every_sample(&reader);
    }
}

fn reads_every_sample(reader: &TextReader) {
    let samples = samples().unwrap();
    assert_eq!(samples.len(), EXPECTED.len());
    for (path, (name, is_turned, text)) in samples.iter().zip(EXPECTED) {
        let line = reader
            .read(path)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(name));
        assert_eq!(
            (line.is_turned, line.text.as_str()),
            (is_turned, text),
            "{name}: {line:?}"
        );
        assert!(
            line.turn_confidence > 0.6 && line.confidence > 0.7,
            "{name}: {line:?}"
        );
        assert_eq!(line.shape[..3], [1, 3, 48], "{name}");
        assert!(line.elapsed.as_nanos() > 0);
        // The kernels of the first pictures serve every width.
        let warm = ["01-kiln.png", "02-shapes.png"];
        assert!(
            warm.contains(&name) || (line.compiles, line.compile_time.as_nanos()) == (0, 0),
            "{name}: {line:?}"
        );
    }
}
