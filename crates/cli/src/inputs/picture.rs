//! Pictures as inputs: decoded, scaled to the model's size, in its layout and dtype.
//!
//! An input of rank 4 or 3 takes a picture. Its channels are the axis of size 3 or 1: before the sizes (`[N, 3, H, W]`)
//! or after them (`[N, H, W, 3]`). For float inputs, levels from 0 to 255 are scaled to 0 to 1, and normalised by the
//! mean and the deviation; integer inputs keep the levels.

use anyhow::{Context, Error, bail};
use clap::Args;
use image::imageops::FilterType;
use kiln::internals::symbolic_shape::SymbolicDimension;
use kiln::{Tensor, ValueDescription};
use std::collections::BTreeMap;
use std::path::Path;

/// How pictures become tensors.
#[derive(Args, Debug)]
pub(super) struct PictureArguments {
    /// For images: the mean to subtract from pixel values scaled to 0 to 1; one number, or one per channel:
    /// 0.485,0.456,0.406
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    mean: Vec<f64>,
    /// For images: the standard deviation to divide by after that: 0.229,0.224,0.225
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    std: Vec<f64>,
    /// For images: channels in the order blue, green, red
    #[arg(long)]
    bgr: bool,
}

/// Where a picture's axes are in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    channels: usize,
    /// Whether channels come before the sizes.
    channels_first: bool,
    height: usize,
    width: usize,
}

/// Reads a picture for an input, at the input's size, that of `sizes`, or else its own.
pub(super) fn read(
    file: &Path,
    input: &ValueDescription,
    sizes: &BTreeMap<String, i64>,
    arguments: &PictureArguments,
) -> Result<Tensor, Error> {
    let context = || format!("cannot read {}", file.display());
    let decoded = image::ImageReader::open(file)
        .with_context(context)?
        .with_guessed_format()
        .with_context(context)?
        .decode()
        .with_context(context)?;
    let own = (decoded.height() as usize, decoded.width() as usize);
    let dimensions = input.shape().map(|shape| shape.dimensions());
    let layout = dimensions.and_then(|dimensions| layout(dimensions, sizes, own));
    let layout = layout.with_context(|| {
        format!("{input} takes no picture: expected a rank of 3 or 4, and 1 or 3 channels")
    })?;
    let (height, width) = (u32::try_from(layout.height)?, u32::try_from(layout.width)?);
    let scaled = match (layout.height, layout.width) == own {
        true => decoded,
        false => decoded.resize_exact(width, height, FilterType::Triangle),
    };
    let levels = match layout.channels {
        1 => scaled.to_luma8().into_raw(),
        _ => scaled.to_rgb8().into_raw(),
    };
    let dtype = input.dtype().context("the input's dtype is not known")?;
    let (mean, deviation) = match dtype.is_float() {
        true => (
            per_channel("--mean", &arguments.mean, 0.0, layout.channels)?,
            per_channel("--std", &arguments.std, 1.0, layout.channels)?,
        ),
        false => (vec![0.0; 3], vec![1.0; 3]),
    };
    let unit = if dtype.is_float() { 255.0 } else { 1.0 };
    let element = |pixel: &[u8], channel: usize| {
        let source = if arguments.bgr {
            layout.channels - 1 - channel
        } else {
            channel
        };
        let level = pixel.get(source).copied().map_or(0.0, f64::from);
        (level / unit - mean[channel]) / deviation[channel]
    };
    let pixels = || levels.chunks_exact(layout.channels);
    let channels = 0..layout.channels;
    let elements: Vec<f64> = match layout.channels_first {
        true => channels
            .flat_map(|channel| pixels().map(move |pixel| (pixel, channel)))
            .map(|(pixel, channel)| element(pixel, channel))
            .collect(),
        false => pixels()
            .flat_map(|pixel| channels.clone().map(move |channel| (pixel, channel)))
            .map(|(pixel, channel)| element(pixel, channel))
            .collect(),
    };
    let mut shape = match layout.channels_first {
        true => vec![layout.channels, layout.height, layout.width],
        false => vec![layout.height, layout.width, layout.channels],
    };
    if dimensions.is_some_and(|dimensions| dimensions.len() == 4) {
        shape.insert(0, 1);
    }
    let tensor = Tensor::from_f64_slice(dtype, &shape, &elements);
    tensor.map_err(kiln::Error::from).with_context(context)
}

/// One number for each channel.
fn per_channel(option: &str, given: &[f64], default: f64, n: usize) -> Result<Vec<f64>, Error> {
    match given {
        [] => Ok(vec![default; n]),
        [one] => Ok(vec![*one; n]),
        several if several.len() == n => Ok(several.to_vec()),
        several => bail!(
            "{option}: expected 1 or {n} numbers, found {}",
            several.len()
        ),
    }
}

fn layout(
    dimensions: &[SymbolicDimension],
    sizes: &BTreeMap<String, i64>,
    own: (usize, usize),
) -> Option<Layout> {
    let [a, b, c] = match dimensions {
        [_, a, b, c] | [a, b, c] => [a, b, c],
        _ => return None,
    };
    let channels = |dimension: &SymbolicDimension| match dimension.value() {
        Some(1) => Some(1),
        Some(3) => Some(3),
        _ => None,
    };
    let size = |dimension: &SymbolicDimension, own: usize| {
        let given = sizes.get(dimension.name()).copied();
        let size = dimension.value().or(given);
        size.map_or(Some(own), |size| usize::try_from(size).ok())
    };
    let (channels, height, width, channels_first) = match (channels(a), channels(c)) {
        (Some(n), _) => (n, b, c, true),
        (None, Some(n)) => (n, a, b, false),
        // Unknown, as exporters leave it: colours first.
        (None, None) if a.value().is_none() => (3, b, c, true),
        (None, None) => return None,
    };
    Some(Layout {
        channels,
        channels_first,
        height: size(height, own.0)?,
        width: size(width, own.1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln::{Device, Model, Options, Source};

    fn model(ty: &str) -> Model {
        let text = format!("graph @id(%x: {ty}) -> {ty} {{ return %x }}");
        let options = Options::new().device(Device::interpreter());
        options.load(Source::text(&text)).unwrap()
    }

    /// Two pixels, red and white.
    fn picture(folder: &Path) -> std::path::PathBuf {
        let file = folder.join("two.png");
        let pixels = vec![255, 0, 0, 255, 255, 255];
        let picture: image::RgbImage = image::ImageBuffer::from_raw(2, 1, pixels).unwrap();
        picture.save(&file).unwrap();
        file
    }

    fn read_as(ty: &str, sizes: &[(&str, i64)], arguments: &PictureArguments) -> Tensor {
        let folder = tempfile::tempdir().unwrap();
        let sizes = sizes.iter().map(|&(name, size)| (name.to_owned(), size));
        read(
            &picture(folder.path()),
            &model(ty).inputs()[0],
            &sizes.collect(),
            arguments,
        )
        .unwrap()
    }

    const PLAIN: PictureArguments = PictureArguments {
        mean: Vec::new(),
        std: Vec::new(),
        bgr: false,
    };

    #[test]
    fn a_picture_takes_the_layout_of_its_input() {
        let first = read_as("f32[N, 3, H, W]", &[], &PLAIN);
        assert_eq!(first.shape(), [1, 3, 1, 2]);
        assert_eq!(
            first.to_vec::<f32>().unwrap(),
            [1.0, 1.0, 0.0, 1.0, 0.0, 1.0]
        );
        let last = read_as("u8[H, W, 3]", &[], &PLAIN);
        assert_eq!(last.shape(), [1, 2, 3]);
        assert_eq!(last.to_vec::<u8>().unwrap(), [255, 0, 0, 255, 255, 255]);
    }

    #[test]
    fn a_picture_is_scaled_and_normalised() {
        let scaled = read_as("f32[1, 3, 4, W]", &[("W", 6)], &PLAIN);
        assert_eq!(scaled.shape(), [1, 3, 4, 6]);
        let arguments = PictureArguments {
            mean: vec![0.5],
            std: vec![0.5, 0.25, 0.125],
            bgr: true,
        };
        let normal = read_as("f32[1, 3, H, W]", &[], &arguments);
        assert_eq!(
            normal.to_vec::<f32>().unwrap(),
            [-1.0, 1.0, -2.0, 2.0, 4.0, 4.0]
        );
    }

    #[test]
    fn an_input_that_is_no_picture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let model = model("f32[N, 7]");
        let error = read(
            &picture(folder.path()),
            &model.inputs()[0],
            &BTreeMap::new(),
            &PLAIN,
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("x: f32[N, 7] takes no picture"),
            "{error}"
        );
    }
}
