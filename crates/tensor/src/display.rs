//! A tensor's elements as text, in nested brackets and aligned, as numpy prints them.
//!
//! A tensor of more than 1,000 elements is shortened to the first and last few of each long axis. Floats are printed
//! with as few digits as distinguish them, at most eight after the decimal point, and in scientific notation if their
//! magnitudes differ widely. A row that is longer than a line continues on the next.

use std::fmt;

use half::{bf16, f16};

use crate::{DType, Tensor, TensorError, match_dtype};

/// The maximum number of elements of a tensor that is printed in full.
const MAX_WHOLE: usize = 1000;
/// The number of elements of a shortened axis that are printed at each end.
const EDGE: usize = 3;
/// The maximum number of columns of a line, including closing brackets.
const WIDTH: usize = 75;
/// The maximum number of digits after the decimal point.
const DIGITS: usize = 8;

/// The entries of an axis that are printed.
#[derive(Clone, Copy)]
struct Shown {
    count: usize,
    /// The number of entries before those that are omitted, if any are.
    gap: Option<usize>,
}

/// Prints the elements, as numpy does.
///
/// ```
/// use kiln_tensor::Tensor;
///
/// let x = Tensor::from_slice(&[2, 2], &[1.0f32, 2.5, -3.0, 0.125])?;
/// assert_eq!(x.to_string(), "[[ 1.     2.5  ]\n [-3.     0.125]]");
/// assert_eq!(Tensor::full(&[2000], 7i64)?.to_string(), "[7 7 7 ... 7 7 7]");
/// # Ok::<(), kiln_tensor::TensorError>(())
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = match self.len() {
            0..=MAX_WHOLE => usize::MAX,
            // With many axes, fewer entries of each are printed.
            _ if self.rank() > 6 => 1,
            _ => EDGE,
        };
        let axes: Vec<Shown> = self.shape().iter().map(|&n| shown_of(n, edge)).collect();
        let shown = axes.iter().try_fold(1_usize, |shown, axis| {
            shown.checked_mul(axis.count).filter(|&n| n <= 1 << 20)
        });
        let texts = shown.and_then(|_| texts(self, &axes).ok());
        match texts {
            Some(texts) => nested(f, &axes, &texts),
            // A tensor of too many axes, or whose memory cannot be read.
            None => write!(f, "{self:?}"),
        }
    }
}

fn shown_of(size: usize, edge: usize) -> Shown {
    match edge.checked_mul(2) {
        Some(count) if count < size => Shown {
            count,
            gap: Some(edge),
        },
        _ => Shown {
            count: size,
            gap: None,
        },
    }
}

/// The printed elements, in order, all with the same width.
fn texts(tensor: &Tensor, axes: &[Shown]) -> Result<Vec<String>, TensorError> {
    let mut shown = tensor.clone();
    for (axis, entries) in axes.iter().enumerate() {
        if let Some(edge) = entries.gap {
            let size = shown.shape().get(axis).copied().unwrap_or(0);
            let first = shown.narrow(axis, 0, edge)?;
            let last = shown.narrow(axis, size - edge, edge)?;
            shown = Tensor::concat(&[&first, &last], axis)?;
        }
    }
    let texts = match tensor.dtype() {
        DType::F64 => floats(&shown.to_vec::<f64>()?),
        DType::F32 => {
            let elements = shown.to_vec::<f32>()?;
            let shortest = |x: f32| x.to_string().parse().unwrap_or(f64::from(x));
            floats(&elements.into_iter().map(shortest).collect::<Vec<f64>>())
        }
        DType::F16 => {
            let elements = shown.to_vec::<f16>()?.into_iter();
            let round = |x: f32| f16::from_f32(x).to_f32();
            floats(
                &elements
                    .map(|x| narrow(x.to_f32(), round))
                    .collect::<Vec<f64>>(),
            )
        }
        DType::BF16 => {
            let elements = shown.to_vec::<bf16>()?.into_iter();
            let round = |x: f32| bf16::from_f32(x).to_f32();
            floats(
                &elements
                    .map(|x| narrow(x.to_f32(), round))
                    .collect::<Vec<f64>>(),
            )
        }
        other => match_dtype!(other, T => {
            let elements = shown.to_vec::<T>()?;
            elements.iter().map(|element| format!("{element:?}")).collect::<Vec<String>>()
        }),
    };
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    Ok(texts
        .into_iter()
        .map(|text| format!("{text:>width$}"))
        .collect())
}

/// The value with the fewest digits that rounds to this element of a narrow dtype.
fn narrow(element: f32, round: impl Fn(f32) -> f32) -> f64 {
    let digits = (0..DIGITS).find_map(|digits| {
        let text = format!("{element:.digits$e}");
        let short: f32 = text.parse().ok()?;
        (round(short) == element)
            .then(|| text.parse().ok())
            .flatten()
    });
    digits.unwrap_or(f64::from(element))
}

/// Formats floats with the same number of digits after the decimal point, or all in scientific notation.
fn floats(elements: &[f64]) -> Vec<String> {
    let sizes = || {
        let finite = elements.iter().filter(|x| x.is_finite() && **x != 0.0);
        finite.map(|x| x.abs())
    };
    let (least, most) = (
        sizes().fold(f64::INFINITY, f64::min),
        sizes().fold(0.0, f64::max),
    );
    let in_powers =
        most >= 1e8 || (most > 0.0 && (least < 1e-4 || most / least > 1e3 && least < 1e-3));
    let plain = |x: f64| match in_powers {
        true => trimmed(&format!("{x:.DIGITS$e}")),
        false => trimmed(&format!("{x:.DIGITS$}")),
    };
    let texts: Vec<String> = elements.iter().map(|&x| plain(x)).collect();
    // The number of digits after the decimal point is that of the element that needs most.
    let behind = |text: &String| text.find('.').map_or(0, |point| text.len() - point - 1);
    if in_powers || texts.iter().all(|text| !text.contains('.')) {
        return texts;
    }
    let most = texts.iter().map(behind).max().unwrap_or(0);
    let filled = texts.into_iter().map(|text| {
        let fill = if text.contains('.') {
            most - behind(&text)
        } else {
            0
        };
        format!("{text}{}", " ".repeat(fill))
    });
    filled.collect()
}

/// Removes trailing zeros of the fraction: `1.5000` becomes `1.5`, and `2.00e3` becomes `2.e3`; other texts (`inf`) are
/// unchanged.
fn trimmed(text: &str) -> String {
    let (digits, power) = text.split_at(text.find('e').unwrap_or(text.len()));
    match digits.contains('.') {
        true => format!("{}{power}", digits.trim_end_matches('0')),
        false => text.to_owned(),
    }
}

/// The texts in brackets, a line for each row; rows of an outer axis are further apart.
fn nested(f: &mut fmt::Formatter<'_>, axes: &[Shown], texts: &[String]) -> fmt::Result {
    let rank = axes.len();
    let Some(last) = axes.last() else {
        return f.write_str(texts.first().map_or("", |text| text.trim()));
    };
    if axes.iter().any(|axis| axis.count == 0) {
        return f.write_str("[]");
    }
    let n_rows: usize = axes[..rank - 1].iter().map(|axis| axis.count).product();
    let row_len = last.count;
    f.write_str(&"[".repeat(rank))?;
    for (number, row) in texts.chunks(row_len.max(1)).enumerate() {
        write_row(f, row, last.gap, rank)?;
        if number + 1 == n_rows {
            break;
        }
        // The number of axes that restart at the next row, and whether the axis that advances skips entries.
        let (mut closed, mut rest) = (1, number + 1);
        let mut skips = false;
        for axis in axes[..rank - 1].iter().rev() {
            let at = rest % axis.count;
            if at > 0 {
                skips = axis.gap == Some(at);
                break;
            }
            closed += 1;
            rest /= axis.count;
        }
        f.write_str(&"]".repeat(closed))?;
        let indent = " ".repeat(rank - closed);
        let lines = "\n".repeat(closed);
        if skips {
            write!(f, "{lines}{indent}...")?;
        }
        write!(f, "{lines}{indent}{}", "[".repeat(closed))?;
    }
    f.write_str(&"]".repeat(rank))
}

/// The entries of a row, which begins in column `rank`, after its brackets.
fn write_row(
    f: &mut fmt::Formatter<'_>,
    row: &[String],
    gap: Option<usize>,
    rank: usize,
) -> fmt::Result {
    let mut column = rank;
    let mut word = |f: &mut fmt::Formatter<'_>, text: &str| {
        if column > rank && column + 1 + text.len() > WIDTH.saturating_sub(rank) {
            write!(f, "\n{}", " ".repeat(rank))?;
            column = rank;
        } else if column > rank {
            f.write_str(" ")?;
            column += 1;
        }
        column += text.len();
        f.write_str(text)
    };
    for (at, text) in row.iter().enumerate() {
        if gap == Some(at) {
            word(f, "...")?;
        }
        word(f, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: &[usize], elements: &[f32]) -> String {
        Tensor::from_slice(shape, elements)
            .map_or_else(|error| error.to_string(), |x| x.to_string())
    }

    #[test]
    fn scalars_and_empty_tensors_are_short() {
        assert_eq!(text(&[], &[0.1]), "0.1");
        assert_eq!(text(&[0], &[]), "[]");
        assert_eq!(text(&[2, 0], &[]), "[]");
    }

    #[test]
    fn points_are_aligned_and_rows_of_outer_axes_apart() {
        assert_eq!(text(&[3], &[1.0, -2.25, f32::NAN]), "[ 1.   -2.25   NaN]");
        assert_eq!(
            text(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]),
            "[[[1.]\n  [2.]]\n\n [[3.]\n  [4.]]]"
        );
    }

    #[test]
    fn sizes_that_differ_much_are_powers_of_ten() {
        assert_eq!(text(&[2], &[1e-6, 1.5]), "[1.e-6 1.5e0]");
        assert_eq!(text(&[1], &[3e20]), "[3.e20]");
    }

    #[test]
    fn rows_that_are_longer_than_a_line_go_on_in_the_next() {
        let row = |shape: &[usize], count: i64| {
            let x = Tensor::from_vec(shape, (0..count).collect::<Vec<i64>>());
            x.map_or_else(|error| error.to_string(), |x| x.to_string())
        };
        // As numpy prints them.
        assert_eq!(
            row(&[30], 30),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]"
        );
        assert_eq!(
            row(&[2, 25], 50),
            "[[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n  24]\n \
             [25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48\n  49]]"
        );
    }

    #[test]
    fn long_axes_are_shortened() {
        let x = Tensor::from_vec(&[100, 20], (0..2000).collect::<Vec<i64>>());
        let text = x.map_or_else(|error| error.to_string(), |x| x.to_string());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[[   0    1    2 ...   17   18   19]");
        assert_eq!(lines[3], " ...");
        assert_eq!(lines[6], " [1980 1981 1982 ... 1997 1998 1999]]");
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn narrow_floats_have_the_digits_that_tell_them_apart() {
        let x = Tensor::from_slice(&[2], &[f16::from_f32(0.1), f16::from_f32(2.0)]);
        assert_eq!(
            x.map_or_else(|error| error.to_string(), |x| x.to_string()),
            "[0.1 2. ]"
        );
        let flags = Tensor::from_slice(&[2], &[true, false]);
        assert_eq!(
            flags.map_or_else(|error| error.to_string(), |x| x.to_string()),
            "[ true false]"
        );
    }
}
