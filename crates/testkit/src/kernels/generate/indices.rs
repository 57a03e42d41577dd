//! Indices of random loads: of one axis each, with the size that a buffer needs for them.

use super::{Axis, EXTENTS, Generator};

/// An index along one axis.
pub(super) struct Index {
    pub(super) text: String,
    /// The size of the buffer along it.
    pub(super) size: String,
    /// Whether it may be out of bounds.
    pub(super) guarded: bool,
}

impl Generator {
    pub(super) fn index(&mut self, axis: &Axis) -> Index {
        let (name, extent) = (&axis.name, &axis.extent);
        let inside = |text: String, size: String| Index {
            text,
            size,
            guarded: false,
        };
        let outside = |text: String, size: String| Index {
            text,
            size,
            guarded: true,
        };
        match self.below(16) {
            0 => inside(format!("{name} + 2"), format!("{extent} + 2")),
            1 => inside(format!("2 * {name} + 1"), format!("2*{extent}")),
            2 => inside(format!("{extent} - 1 - {name}"), extent.clone()),
            3 => outside(format!("{name} - 1"), extent.clone()),
            // An axis of an unrelated size.
            4 => outside(format!("{name} / 2"), self.pick(&EXTENTS).to_owned()),
            5 => {
                // An index that is data, tested when it is used.
                let data = self.buffer("n", "in", "i64", std::slice::from_ref(extent));
                inside(format!("%{data}[{name}]"), self.pick(&EXTENTS).to_owned())
            }
            // An operand of one element or of all, as each call decides.
            6 if extent.parse::<u32>().is_err() => {
                inside(format!("select({extent} == 1, 0, {name})"), extent.clone())
            }
            // A source index that is computed in floats, as in a resize.
            7 => {
                let at = format!("i64(floor(f64({name}) * f64(0.75) - f64(0.5)))");
                match extent.parse::<u32>() {
                    Ok(size) => inside(format!("max(min({at}, {}), 0)", size - 1), extent.clone()),
                    Err(_) => outside(at, extent.clone()),
                }
            }
            _ => inside(name.clone(), extent.clone()),
        }
    }
}
