//! The pictures: read, split, and put into batches.

use flate2::read::GzDecoder;
use kiln::Tensor;
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

    /// A batch of pictures, from `first` on and round again, in another order each time: `[count, 1, 8, 8]` and `[count]`.
    pub(crate) fn batch(
        &self,
        first: usize,
        count: usize,
    ) -> Result<(Tensor, Tensor), Box<dyn Error>> {
        let (mut pixels, mut labels) = (Vec::with_capacity(count * PIXELS), Vec::new());
        for position in first..first + count {
            let (round, place) = (position / self.len(), position % self.len());
            // The step has no divisor in common with 1437 = 3 * 479.
            let step = [1, 2, 4, 5, 7, 8, 10, 11][round % 8] * 100 + 1;
            let index = (place * step + round * 31) % self.len();
            pixels.extend_from_slice(&self.pixels[index * PIXELS..][..PIXELS]);
            labels.push(self.labels[index]);
        }
        Ok((
            Tensor::from_slice(&[count, 1, 8, 8], &pixels)?,
            Tensor::from_slice(&[count], &labels)?,
        ))
    }

    /// The share of pictures that are read correctly.
    pub(crate) fn accuracy(
        &self,
        predictor: &Predictor,
        trainer: &Trainer,
    ) -> Result<f64, Box<dyn Error>> {
        let x = Tensor::from_slice(&[self.len(), 1, 8, 8], &self.pixels)?;
        let outputs = predictor.run(trainer, [("x", &x)])?;
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
