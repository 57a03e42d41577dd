//! Pictures as tensors: decoded, and scaled as in training.

use kiln::Tensor;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Reads a picture as `f32[1, 3, H, W]`, channels in the order blue, green, red, scaled to -1 to 1.
pub(crate) fn read(path: &Path) -> Result<Tensor, Box<dyn Error>> {
    let mut decoder = png::Decoder::new(BufReader::new(File::open(path)?));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let mut pixels = vec![
        0;
        reader
            .output_buffer_size()
            .ok_or("the picture is too large")?
    ];
    let info = reader.next_frame(&mut pixels)?;
    // Greys repeat one level; what is transparent counts as it is.
    let channels = match info.color_type {
        png::ColorType::Rgb | png::ColorType::Rgba => [2, 1, 0],
        png::ColorType::Grayscale | png::ColorType::GrayscaleAlpha => [0, 0, 0],
        other => {
            return Err(format!("{}: expected colours, found {other:?}", path.display()).into());
        }
    };
    let (height, width) = (info.height as usize, info.width as usize);
    let samples = info.color_type.samples();
    let channel = |channel: usize| {
        pixels
            .chunks_exact(samples)
            .take(height * width)
            .map(move |pixel| pixel.get(channel).copied())
    };
    let planes = channels.into_iter().flat_map(channel).flatten();
    let elements: Vec<f32> = planes.map(|level| f32::from(level) / 127.5 - 1.0).collect();
    Ok(Tensor::from_vec(&[1, 3, height, width], elements)?)
}

/// The picture rotated by 180 degrees.
pub(crate) fn turned(picture: &Tensor) -> Result<Tensor, kiln::Error> {
    Ok(picture.reverse(2)?.reverse(3)?.contiguous()?)
}
