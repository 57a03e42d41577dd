//! The names of a kernel's axes and items in the text of its loops.
//!
//! Axes of different items may have the same name; they are numbered in the order of the kernel, which printing and reading
//! the kernel preserves.

use std::fmt;

use kiln_kernel::{AxisId, Carry, Item, Kernel, StageOperation};

/// The names of a kernel's axes.
pub(super) struct AxisNames {
    names: Vec<(AxisId, String)>,
}

impl AxisNames {
    pub(super) fn of(kernel: &Kernel) -> Self {
        let mut order: Vec<AxisId> = kernel.outer().to_vec();
        for item in super::items(kernel) {
            match item {
                Item::Stage(stage) => {
                    let stage = kernel.stage(*stage);
                    order.extend(stage.axes.iter().copied());
                    if let StageOperation::Reduce { axes, .. } = &stage.operation {
                        order.extend(axes.iter().copied());
                    }
                }
                Item::Store(store) => order.extend(store.axes.iter().copied()),
                Item::Carry(Carry { axis, .. }) => order.push(*axis),
            }
        }
        let name = |axis: AxisId| kernel.axis(axis).name.as_str();
        let mut names: Vec<(AxisId, String)> = Vec::new();
        for (place, &axis) in order.iter().enumerate() {
            let same = |other: &&AxisId| name(**other) == name(axis);
            let before = order.iter().take(place).filter(same).count();
            let is_alone = order.iter().filter(same).count() == 1;
            names.push(match is_alone {
                true => (axis, name(axis).to_owned()),
                false => (axis, format!("{}.{before}", name(axis))),
            });
        }
        Self { names }
    }

    pub(super) fn of_axis(&self, axis: AxisId) -> &str {
        let mut names = self.names.iter();
        let found = names.find(|(other, _)| *other == axis);
        found.map_or("?", |(_, name)| name)
    }

    pub(super) fn axis(&self, name: &str) -> Option<AxisId> {
        let mut names = self.names.iter();
        names
            .find(|(_, other)| other == name)
            .map(|(axis, _)| *axis)
    }
}

/// An item's name in the text: a stage's own, a store's buffer, a carry block's axis.
pub(super) struct ItemName<'k>(pub(super) &'k Kernel, pub(super) &'k Item);

impl fmt::Display for ItemName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kernel, item) = self;
        match item {
            Item::Stage(stage) => f.write_str(&kernel.stage(*stage).name),
            Item::Store(store) => write!(f, "store %{}", kernel.buffer(store.buffer).name),
            Item::Carry(carry) => write!(f, "carry {}", kernel.axis(carry.axis).name),
        }
    }
}
