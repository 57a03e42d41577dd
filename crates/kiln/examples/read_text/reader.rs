//! The two models of the example: which way up a line is, and what it says.

#[path = "picture.rs"]
pub(crate) mod picture;

use kiln::{CompilationStats, Device, Model, Options, Tensor};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Reads pictures of text lines, 48 pixels high and of any width.
pub(crate) struct TextReader {
    pub(crate) classifier: Model,
    pub(crate) recogniser: Model,
    /// The characters of the recogniser's classes; class 0 is the blank.
    alphabet: Vec<String>,
}

/// The result of reading a picture.
#[derive(Debug)]
pub(crate) struct Line {
    /// The picture as the models' input, `f32[1, 3, 48, W]`.
    pub(crate) shape: Vec<usize>,
    /// Whether the picture was upside down.
    pub(crate) is_turned: bool,
    /// The classifier's confidence in that.
    pub(crate) turn_confidence: f32,
    pub(crate) text: String,
    /// The recogniser's mean confidence in its characters.
    pub(crate) confidence: f32,
    pub(crate) elapsed: Duration,
    /// How many kernels were compiled for it.
    pub(crate) compiles: u64,
    /// Time spent compiling them, summed over threads.
    pub(crate) compile_time: Duration,
}

impl TextReader {
    /// Loads both models. They share a runtime, and thus kernels and threads.
    pub(crate) fn load(models: &Path, device: Device) -> Result<Self, Box<dyn Error>> {
        let load = |name: &str| {
            let file = models.join(name).join("model.onnx");
            Options::new().device(device.clone()).load(file)
        };
        let classifier = load("ocr-cls")?;
        let recogniser = load("ocr-rec")?;
        let characters = recogniser
            .metadata()
            .get("character")
            .ok_or("the recogniser has no dictionary")?;
        let blank = std::iter::once("");
        let alphabet = blank
            .chain(characters.lines())
            .chain([" "])
            .map(str::to_owned)
            .collect();
        Ok(Self {
            classifier,
            recogniser,
            alphabet,
        })
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Line, Box<dyn Error>> {
        self.read_line(picture::read(path)?)
    }

    /// Reads a line, `f32[1, 3, 48, W]`.
    pub(crate) fn read_line(&self, mut picture: Tensor) -> Result<Line, Box<dyn Error>> {
        let before = self.stats();
        let start = Instant::now();
        let directions = first_output(&self.classifier, &picture)?;
        let (direction, turn_confidence) = largest(&directions.to_vec::<f32>()?);
        let is_turned = direction == 1;
        if is_turned {
            picture = picture::turned(&picture)?;
        }
        let (text, confidence) = self.decode(&first_output(&self.recogniser, &picture)?)?;
        let elapsed = start.elapsed();
        let after = self.stats();
        Ok(Line {
            shape: picture.shape().to_vec(),
            is_turned,
            turn_confidence,
            text,
            confidence,
            elapsed,
            compiles: after.compilations - before.compilations,
            compile_time: after.compile_time - before.compile_time,
        })
    }

    /// The statistics of both models: they share a runtime.
    pub(crate) fn stats(&self) -> CompilationStats {
        self.recogniser.compilation_stats()
    }

    /// The text of `f32[1, steps, classes]` by connectionist temporal classification: the likeliest
    /// class of each step, repetitions once, class 0 dropped.
    fn decode(&self, classes: &Tensor) -> Result<(String, f32), Box<dyn Error>> {
        let n_classes = classes.shape().last().copied().unwrap_or(0).max(1);
        let mut text = String::new();
        let mut confidences = Vec::new();
        let mut before = 0;
        for step in classes.to_vec::<f32>()?.chunks_exact(n_classes) {
            let (class, confidence) = largest(step);
            if class != before && class != 0 {
                text.push_str(self.alphabet.get(class).ok_or("a class has no character")?);
                confidences.push(confidence);
            }
            before = class;
        }
        let mean = confidences.iter().sum::<f32>() / confidences.len().max(1) as f32;
        Ok((text.trim().to_owned(), mean))
    }
}

/// The pictures that come with the example, sorted by name.
pub(crate) fn samples() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn first_output(model: &Model, picture: &Tensor) -> Result<Tensor, Box<dyn Error>> {
    let input = model.inputs().first().ok_or("the model has no inputs")?;
    let outputs = model.run([(input.name(), picture)])?;
    Ok(outputs
        .into_tensors()
        .into_iter()
        .next()
        .ok_or("the model has no outputs")?)
}

/// The position and value of the largest element; position 0 if there is none.
fn largest(elements: &[f32]) -> (usize, f32) {
    let best = elements
        .iter()
        .copied()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    best.unwrap_or((0, 0.0))
}
