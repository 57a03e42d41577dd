//! The pictures: read and split.

use flate2::read::GzDecoder;
use kiln::Tensor;
use kiln_train::data::Tensors;
use kiln_train::{Predictor, Trainer};
use std::error::Error;
use std::io::Read;
use std::path::Path;

/// The pixels of a picture.
const PIXELS: usize = 64;

/// Pictures and the digits that they show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digits {
    /// 64 each, from 0 to 1.
    pixels: Vec<f32>,
    labels: Vec<i64>,
}

impl Digits {
    /// Reads the table: a line for each picture, of 64 numbers from 0 to 16 and the digit.
    pub(crate) fn load(models: &Path) -> Result<Self, Box<dyn Error>> {
        let path = models.join("digits/digits.csv.gz");
        let file = std::fs::File::open(&path)
            .map_err(|error| format!("{}: {error}; run `cargo xtask models`", path.display()))?;
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text)?;
        let mut digits = Self::default();
        for line in text.lines() {
            let numbers: Vec<f32> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
            let [pixels @ .., label] = numbers.as_slice() else {
                return Err("expected numbers on each line, found none".into());
            };
            digits
                .pixels
                .extend(pixels.iter().map(|pixel| pixel / 16.0));
            digits.labels.push(*label as i64);
        }
        Ok(digits)
    }

    /// The number of pictures.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The first `count` pictures of a fixed permutation, and the others.
    pub(crate) fn split(&self, count: usize) -> (Self, Self) {
        // 1009 is prime and does not divide the number of pictures, so this visits each once.
        let order: Vec<usize> = (0..self.len())
            .map(|index| index * 1009 % self.len())
            .collect();
        let pick = |indices: &[usize]| Self {
            pixels: indices
                .iter()
                .flat_map(|&index| self.pixels[index * PIXELS..][..PIXELS].iter().copied())
                .collect(),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
        };
        (pick(&order[..count]), pick(&order[count..]))
    }

    /// The pictures `x: [samples, 1, 8, 8]` and their `labels: [samples]`.
    pub(crate) fn dataset(&self) -> Result<Tensors, Box<dyn Error>> {
        let labels = Tensor::from_slice(&[self.len()], &self.labels)?;
        Ok(Tensors::new([("x", self.pictures()?), ("labels", labels)])?)
    }

    fn pictures(&self) -> Result<Tensor, Box<dyn Error>> {
        Ok(Tensor::from_slice(&[self.len(), 1, 8, 8], &self.pixels)?)
    }

    /// The share of pictures that are read correctly.
    pub(crate) fn accuracy(
        &self,
        predictor: &Predictor,
        trainer: &Trainer,
    ) -> Result<f64, Box<dyn Error>> {
        let outputs = predictor.run(trainer, [("x", &self.pictures()?)])?;
        let logits = outputs.get("logits")?.to_vec::<f32>()?;
        let is_right = |(logits, &label): (&[f32], &i64)| {
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            best == usize::try_from(label).ok()
        };
        let right = logits
            .chunks(10)
            .zip(&self.labels)
            .filter(|&pair| is_right(pair));
        Ok(right.count() as f64 / self.len() as f64)
    }
}
