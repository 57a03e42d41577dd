//! The class of a kernel and the role of each axis, as used by fusion's cost model, `explain` and the backends.
//!
//! The class is that of the dominant computation: a prologue on the operands of a sum of products, or an epilogue on
//! its result, does not change it. The role of an axis comes from the first rule that applies: steps, windows,
//! contractions, rows.

mod attention;
mod contraction;
mod dependence;
mod window;

use std::fmt;

use cranelift_entity::SecondaryMap;

use crate::form::{AxisId, Item, Kernel, NodeId, StageId};
use dependence::{Dependence, reduced};

/// The kind of loop nest of a kernel. Backends have one or several schedules per class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No reduction: each point is independent.
    Map,
    /// Reductions and maps over inner axes of the same data: softmax, norms, sums.
    Row,
    /// One sum of products of loads, neither reading at sums of axes: a matrix product of any rank.
    Contraction,
    /// Reductions over windows of an operand (indices that add an outer and a reduced axis): convolution, pooling.
    Window,
    /// A contraction whose result is reduced along a row and contracted again.
    Attention,
    /// A `carry` block.
    Scan,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 6] = [
        Class::Map,
        Class::Row,
        Class::Contraction,
        Class::Window,
        Class::Attention,
        Class::Scan,
    ];

    /// Its display name.
    pub const fn as_word(self) -> &'static str {
        match self {
            Class::Map => "map",
            Class::Row => "row",
            Class::Contraction => "contraction",
            Class::Window => "window",
            Class::Attention => "attention",
            Class::Scan => "scan",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_word())
    }
}

/// The purpose of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AxisRole {
    /// Independent points.
    #[default]
    Parallel,
    /// In both factors of the products, and not summed.
    Batch,
    /// In the left factor and the result.
    Rows,
    /// In the right factor and the result.
    Columns,
    /// Summed in a contraction.
    Depth,
    /// An outer axis that windows move along.
    Spatial,
    /// Reduced over a window.
    Window,
    /// An inner axis of a row: mapped or reduced.
    Row,
    /// The steps of a `carry` block.
    Step,
}

impl AxisRole {
    /// Its display name.
    pub const fn as_word(self) -> &'static str {
        match self {
            AxisRole::Parallel => "parallel",
            AxisRole::Batch => "batch",
            AxisRole::Rows => "rows",
            AxisRole::Columns => "columns",
            AxisRole::Depth => "depth",
            AxisRole::Spatial => "spatial",
            AxisRole::Window => "window",
            AxisRole::Row => "row",
            AxisRole::Step => "step",
        }
    }
}

/// A stage that sums products of two factors.
///
/// Its value is `left * right`, possibly times a factor that does not depend on the summed axes, and possibly with
/// casts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// The stage.
    pub stage: StageId,
    /// The first factor; its expression consists of loads and a prologue.
    pub left: NodeId,
    /// The second factor.
    pub right: NodeId,
}

/// A kernel's class, with the reasons.
#[derive(Clone, Debug)]
pub struct Classification {
    /// The class.
    pub class: Class,
    /// The role of each axis.
    pub roles: SecondaryMap<AxisId, AxisRole>,
    /// The stages that sum products, in order.
    pub contractions: Vec<Contraction>,
    /// The reason for the class, for human readers.
    pub why: String,
}

/// The class of a kernel and the role of each axis.
pub(crate) fn classify(kernel: &Kernel) -> Classification {
    let dependence = Dependence::of(kernel);
    let contractions = contraction::find(kernel, &dependence);
    let windows = window::find(kernel);
    let attention = attention::find(kernel, &dependence, &contractions);
    let steps = kernel.items().iter().find_map(|item| match item {
        Item::Carry(carry) => Some(carry.axis),
        _ => None,
    });
    let reduction = kernel
        .stages()
        .iter()
        .find(|(_, stage)| !reduced(stage).is_empty());
    let stage_name = |stage: StageId| &kernel.stage(stage).name;
    let (class, why) = if let Some(axis) = steps {
        let name = &kernel.axis(axis).name;
        (Class::Scan, format!("a block runs over the steps {name}"))
    } else if let Some((scores, row, result)) = attention {
        let why = format!(
            "{} sums products, {} reduces them along a row, {} sums products with the outcome",
            stage_name(scores),
            stage_name(row),
            stage_name(result)
        );
        (Class::Attention, why)
    } else if let Some(window) = windows.first() {
        let why = format!(
            "{} reduces over windows: an index of %{} moves along {} and {}",
            stage_name(window.stage),
            kernel.buffer(window.buffer).name,
            kernel.axis(window.spatial).name,
            kernel.axis(window.within).name
        );
        (Class::Window, why)
    } else if let Some(contraction) = contractions.first() {
        (
            Class::Contraction,
            contraction::why(kernel, &dependence, contraction),
        )
    } else if let Some((stage, _)) = reduction {
        (
            Class::Row,
            format!("{} reduces along a row", stage_name(stage)),
        )
    } else {
        (Class::Map, "nothing is reduced".to_string())
    };
    let mut roles = Roles::default();
    roles.give(steps, AxisRole::Step);
    for window in &windows {
        roles.give([window.spatial], AxisRole::Spatial);
        roles.give([window.within], AxisRole::Window);
    }
    for contraction in &contractions {
        contraction::roles(kernel, &dependence, contraction, &mut roles);
    }
    if class != Class::Map {
        for stage in kernel.stages().values() {
            roles.give(reduced(stage).iter().copied(), AxisRole::Row);
            if class == Class::Row {
                roles.give(stage.axes.iter().copied(), AxisRole::Row);
            }
        }
    }
    if class == Class::Row {
        for store in crate::form::stores(kernel) {
            roles.give(store.axes.iter().copied(), AxisRole::Row);
        }
    }
    Classification {
        class,
        roles: roles.0,
        contractions,
        why,
    }
}

/// The roles assigned so far.
#[derive(Default)]
struct Roles(SecondaryMap<AxisId, AxisRole>);

impl Roles {
    /// Assigns a role to each axis that has none yet.
    fn give(&mut self, axes: impl IntoIterator<Item = AxisId>, role: AxisRole) {
        for axis in axes {
            if self.0[axis] == AxisRole::Parallel {
                self.0[axis] = role;
            }
        }
    }
}
