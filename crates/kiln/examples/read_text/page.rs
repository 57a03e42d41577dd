//! A whole picture: a detector finds where text is, and each place is read as a line. Boxes and texts are printed, and drawn
//! on a copy of the picture.

use crate::boxes::{self, Place};
use crate::reader::{TextReader, first_output, picture};
use kiln::{Device, Model, Options, Tensor};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Channel means and deviations of the detector's training, in the order blue, green, red.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// A point is text above this probability.
const THRESHOLD: f32 = 0.3;
/// A place of a lower mean probability is not text.
const LEAST_MEAN: f32 = 0.5;
/// The detector finds the core of a line; on each side the line is larger by the core's area over its perimeter, times this
/// (the unclip ratio of Liao et al., Real-time Scene Text Detection with Differentiable Binarization).
const UNCLIP: f32 = 1.6;
/// The height of lines that the recogniser reads.
const LINE_HEIGHT: usize = 48;
/// Sizes of the detector's input are multiples of this.
const STRIDE: usize = 32;

/// Reads a picture; writes a copy with the boxes to `drawn`.
pub(crate) fn read(models: &Path, file: &Path, drawn: &Path) -> Result<(), Box<dyn Error>> {
    let device = match Device::cpu().is_available() {
        true => Device::cpu(),
        false => Device::interpreter(),
    };
    let detector = Options::new()
        .device(device.clone())
        .load(models.join("ocr-det").join("model.onnx"))?;
    let reader = TextReader::load(models, device)?;
    let picture = picture::read(file)?;
    let start = Instant::now();
    let places = detect(&detector, &picture)?;
    crate::table::found(file, places.len(), start.elapsed());
    for place in &places {
        let line = reader.read_line(line(&picture, *place)?)?;
        crate::table::place(place, &line);
    }
    boxes::write(drawn, &picture, &places)?;
    crate::table::note(&format!("wrote {}", drawn.display()));
    Ok(())
}

/// The places of text, from top to bottom.
fn detect(detector: &Model, picture: &Tensor) -> Result<Vec<Place>, Box<dyn Error>> {
    let [_, _, height, width] = *picture.shape() else {
        return Err("expected a picture of rank 4".into());
    };
    let (padded_height, padded_width) = (
        height.next_multiple_of(STRIDE),
        width.next_multiple_of(STRIDE),
    );
    // Beyond the picture is what the mean of all pictures is.
    let mut elements = vec![0.0; 3 * padded_height * padded_width];
    let levels = picture.to_vec::<f32>()?;
    for channel in 0..3 {
        for y in 0..height {
            for x in 0..width {
                let level = (levels[(channel * height + y) * width + x] + 1.0) / 2.0;
                elements[(channel * padded_height + y) * padded_width + x] =
                    (level - MEAN[channel]) / DEVIATION[channel];
            }
        }
    }
    let input = Tensor::from_vec(&[1, 3, padded_height, padded_width], elements)?;
    let map = first_output(detector, &input)?.to_vec::<f32>()?;
    let mut places = components(&map, padded_width);
    for place in &mut places {
        *place = grown(*place, height, width);
    }
    places.retain(|place| place.right > place.left + 4 && place.bottom > place.top + 4);
    places.sort_by_key(|place| (place.top / 16, place.left));
    Ok(places)
}

/// The bounding boxes of connected points above the threshold.
fn components(map: &[f32], width: usize) -> Vec<Place> {
    let mut seen = vec![false; map.len()];
    let mut places = Vec::new();
    for first in 0..map.len() {
        if seen[first] || map[first] < THRESHOLD {
            continue;
        }
        let mut place = Place {
            left: usize::MAX,
            top: usize::MAX,
            right: 0,
            bottom: 0,
        };
        let (mut sum, mut count) = (0.0, 0);
        let mut pending = vec![first];
        seen[first] = true;
        while let Some(at) = pending.pop() {
            let (x, y) = (at % width, at / width);
            place.left = place.left.min(x);
            place.right = place.right.max(x + 1);
            place.top = place.top.min(y);
            place.bottom = place.bottom.max(y + 1);
            sum += map[at];
            count += 1;
            let beside = [
                (x > 0).then(|| at - 1),
                (x + 1 < width).then(|| at + 1),
                at.checked_sub(width),
                Some(at + width),
            ];
            for next in beside.into_iter().flatten() {
                if next < map.len() && !seen[next] && map[next] >= THRESHOLD {
                    seen[next] = true;
                    pending.push(next);
                }
            }
        }
        if sum / count as f32 >= LEAST_MEAN {
            places.push(place);
        }
    }
    places
}

fn grown(place: Place, height: usize, width: usize) -> Place {
    let across = (place.right - place.left) as f32;
    let down = (place.bottom - place.top) as f32;
    let by = (across * down / (2.0 * (across + down)) * UNCLIP).ceil() as usize;
    Place {
        left: place.left.saturating_sub(by),
        top: place.top.saturating_sub(by),
        right: (place.right + by).min(width),
        bottom: (place.bottom + by).min(height),
    }
}

/// A place as the recogniser's input: `f32[1, 3, 48, W]`, scaled with its proportions kept.
fn line(picture: &Tensor, place: Place) -> Result<Tensor, Box<dyn Error>> {
    let (height, width) = (place.bottom - place.top, place.right - place.left);
    let cut = picture
        .narrow(2, place.top, height)?
        .narrow(3, place.left, width)?
        .to_vec::<f32>()?;
    let scaled_width = (width * LINE_HEIGHT / height).max(8);
    let mut elements = Vec::with_capacity(3 * LINE_HEIGHT * scaled_width);
    for plane in cut.chunks_exact(height * width) {
        for y in 0..LINE_HEIGHT {
            for x in 0..scaled_width {
                let from = |at: usize, to: usize, size: usize| {
                    let exact = (at as f32 + 0.5) * size as f32 / to as f32 - 0.5;
                    exact.clamp(0.0, (size - 1) as f32)
                };
                let (fy, fx) = (from(y, LINE_HEIGHT, height), from(x, scaled_width, width));
                let (top, left) = (fy as usize, fx as usize);
                let (bottom, right) = ((top + 1).min(height - 1), (left + 1).min(width - 1));
                let (down, along) = (fy.fract(), fx.fract());
                let mix = |a: f32, b: f32, share: f32| a + (b - a) * share;
                let upper = mix(plane[top * width + left], plane[top * width + right], along);
                let lower = mix(
                    plane[bottom * width + left],
                    plane[bottom * width + right],
                    along,
                );
                elements.push(mix(upper, lower, down));
            }
        }
    }
    Ok(Tensor::from_vec(
        &[1, 3, LINE_HEIGHT, scaled_width],
        elements,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_grow_by_their_area_over_their_perimeter_within_the_picture() {
        let place = |left, top, right, bottom| Place {
            left,
            top,
            right,
            bottom,
        };
        // 1000 / 220 * 1.6 is 7.3.
        let grown_by_8 = grown(place(20, 30, 120, 40), 100, 200);
        assert_eq!(grown_by_8, place(12, 22, 128, 48));
        let at_the_edge = grown(place(2, 0, 102, 10), 15, 105);
        assert_eq!(at_the_edge, place(0, 0, 105, 15));
    }
}
