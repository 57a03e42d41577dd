//! Places of text in a picture, and boxes drawn around them.

use kiln::Tensor;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// A place of text, in pixels; the ends are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) right: usize,
    pub(crate) bottom: usize,
}

/// Writes a picture with red boxes around some places.
pub(crate) fn write(path: &Path, picture: &Tensor, places: &[Place]) -> Result<(), Box<dyn Error>> {
    let [_, _, height, width] = *picture.shape() else {
        return Err("expected a picture of rank 4".into());
    };
    let levels = picture.to_vec::<f32>()?;
    let plane = height * width;
    let byte = |level: f32| ((level + 1.0) * 127.5).round() as u8;
    let mut pixels: Vec<u8> = (0..plane)
        .flat_map(|at| [2, 1, 0].map(|channel| byte(levels[channel * plane + at])))
        .collect();
    for place in places {
        let mut paint = |x: usize, y: usize| {
            if let Some(pixel) = pixels.get_mut((y * width + x) * 3..(y * width + x) * 3 + 3) {
                pixel.copy_from_slice(&[214, 40, 40]);
            }
        };
        for x in place.left..place.right {
            paint(x, place.top);
            paint(x, place.bottom - 1);
        }
        for y in place.top..place.bottom {
            paint(place.left, y);
            paint(place.right - 1, y);
        }
    }
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}
