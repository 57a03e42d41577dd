//! Prints loops as text.

use std::fmt::{self, Write as _};

use kiln_backend::{PackAxis, PackSpec};
use kiln_kernel::{BufferId, Kernel};

use super::names::{AxisNames, ItemName};
use super::{
    Comparison, Factor, ItemLoops, LoopNest, Loops, PeelTaps, Size, VectorStep, VectorSteps, When,
    items,
};
use crate::tile::{Tail, VectorAxis};

impl Loops {
    /// The text of a kernel's loops.
    pub fn print(&self, kernel: &Kernel) -> String {
        let names = AxisNames::of(kernel);
        let printer = Printer { kernel, names };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = printer.loops(&mut text, self);
        text
    }
}

struct Printer<'k> {
    kernel: &'k Kernel,
    names: AxisNames,
}

impl Printer<'_> {
    fn loops(&self, out: &mut String, loops: &Loops) -> fmt::Result {
        writeln!(out, "loops {{")?;
        for pack in &loops.packs {
            writeln!(out, "  pack {}", self.pack(pack))?;
        }
        for nest in &loops.nests {
            self.nest(out, nest)?;
        }
        writeln!(out, "}}")
    }

    fn nest(&self, out: &mut String, nest: &LoopNest) -> fmt::Result {
        write!(out, "  nest {}", nest.strategy)?;
        if !nest.when.is_always() {
            write!(out, " when {}", self.when(&nest.when))?;
        }
        writeln!(out, " {{")?;
        for line in self.header(nest) {
            writeln!(out, "    {line}")?;
        }
        writeln!(out, "    body {{")?;
        for (item, loops) in items(self.kernel).zip(&nest.items) {
            let what = self.item(loops).join(", ");
            let space = if what.is_empty() { "" } else { " " };
            writeln!(out, "      {}:{space}{what}", ItemName(self.kernel, item))?;
        }
        writeln!(out, "    }}")?;
        writeln!(out, "  }}")
    }

    /// The lines of a nest before its body; unused properties have none.
    fn header(&self, nest: &LoopNest) -> Vec<String> {
        let mut lines = Vec::new();
        let mut put = |is_used: bool, line: String| {
            if is_used {
                lines.push(line);
            }
        };
        for copy in &nest.copies {
            put(true, format!("copy {}", self.pack(copy)));
        }
        let tile = &nest.tile;
        if let Some((axis, count)) = tile.rows {
            let spread = if tile.spread { " spread" } else { "" };
            put(true, format!("rows {} * {count}{spread}", self.axis(axis)));
        }
        let axis = match tile.vector {
            VectorAxis::None => None,
            VectorAxis::Inner => Some("inner"),
            VectorAxis::Outer(axis) => Some(self.axis(axis)),
        };
        let (vectors, lanes) = (tile.vectors, tile.lanes);
        let tail = match tile.tail {
            Tail::Scalar => "",
            Tail::Masked => " masked",
        };
        if let Some(axis) = axis {
            put(true, format!("vectors {axis} * {vectors} * {lanes}{tail}"));
        }
        put(nest.chunk != 1, format!("chunk {}", nest.chunk));
        let first = &nest.columns_first;
        put(
            !first.is_never(),
            format!("columns_first when {}", self.when(first)),
        );
        put(
            nest.task_operations != 1,
            format!("task {}", nest.task_operations),
        );
        let remainder = &nest.remainder;
        let counts: Vec<String> = remainder.rows.iter().map(u32::to_string).collect();
        let even = match remainder.evened_below {
            0 => String::new(),
            below => format!(" even {below}"),
        };
        put(
            remainder.least != 0,
            format!(
                "remainder {} [{}]{even}",
                remainder.least,
                counts.join(", ")
            ),
        );
        for steps in &nest.vectors {
            put(true, self.steps(steps));
        }
        put(nest.splits != 0, format!("split {}", nest.splits));
        put(nest.unswitch != 0, format!("unswitch {}", nest.unswitch));
        put(nest.tables != 0, format!("tables {}", nest.tables));
        put(nest.windows, "windows".to_owned());
        put(nest.peel, "peel".to_owned());
        put(nest.stream, "stream".to_owned());
        let prefetch = &nest.prefetch;
        put(prefetch.rows, "prefetch rows".to_owned());
        put(prefetch.results, "prefetch results".to_owned());
        put(
            prefetch.packed != 0,
            format!(
                "prefetch packed {} shared {}",
                prefetch.packed, prefetch.shared_rows
            ),
        );
        if let Some(transform) = nest.winograd {
            put(true, format!("winograd {}", transform.sums()));
        }
        put(nest.split_reductions, "split_reductions".to_owned());
        put(nest.unroll != 0, format!("unroll {}", nest.unroll));
        put(nest.strength_reduction, "strength_reduction".to_owned());
        lines
    }

    fn item(&self, loops: &ItemLoops) -> Vec<String> {
        let mut words = Vec::new();
        let mut put = |is_used: bool, word: String| {
            if is_used {
                words.push(word);
            }
        };
        put(loops.together, "together".to_owned());
        if let Some(axis) = loops.along {
            put(true, format!("along {}", self.axis(axis)));
        }
        put(loops.fuse_next, "fuse_next".to_owned());
        put(
            loops.transposing_reduction,
            "transposing_reduction".to_owned(),
        );
        put(
            loops.accumulators != 0,
            format!("accumulators {}", loops.accumulators),
        );
        put(loops.pairs, "pairs".to_owned());
        put(loops.fours, "fours".to_owned());
        put(loops.scaled_fours, "scaled_fours".to_owned());
        put(loops.sliding_window, "sliding_window".to_owned());
        put(loops.register_transpose, "register_transpose".to_owned());
        let peel = match loops.peel_taps {
            PeelTaps::Never => None,
            PeelTaps::BeforeInnermost => Some("before"),
            PeelTaps::InInnermost => Some("in"),
        };
        if let Some(place) = peel {
            put(true, format!("peel_taps {place}"));
        }
        put(loops.stream, "stream".to_owned());
        words
    }

    fn steps(&self, steps: &VectorSteps) -> String {
        let rows = steps
            .rows
            .map_or(String::new(), |rows| format!(" rows {rows}"));
        let words: Vec<String> = steps.steps.iter().map(step).collect();
        format!("cut {}{rows}: {}", self.axis(steps.axis), words.join(", "))
    }

    fn pack(&self, spec: &PackSpec) -> String {
        let buffer = self.kernel.buffer(BufferId::from_u32(spec.buffer as u32));
        let axis = |axis: &PackAxis| match axis {
            PackAxis::Whole(axis) => axis.to_string(),
            PackAxis::Outer { axis, block } => format!("{axis} / {block}"),
            PackAxis::Inner { axis, block } => format!("{axis} % {block}"),
        };
        let axes: Vec<String> = spec.axes.iter().map(axis).collect();
        format!("%{} [{}]", buffer.name, axes.join(", "))
    }

    fn when(&self, when: &When) -> String {
        let lists = when.0.iter().map(|list| {
            let all: Vec<String> = list.iter().map(|one| self.comparison(one)).collect();
            all.join(" and ")
        });
        lists.collect::<Vec<_>>().join(" or ")
    }

    fn comparison(&self, comparison: &Comparison) -> String {
        let sign = if comparison.at_least { ">=" } else { "<" };
        let [left, right] = [&comparison.left, &comparison.right].map(|side| self.size(side));
        format!("{left} {sign} {right}")
    }

    fn size(&self, size: &Size) -> String {
        let mut words = Vec::new();
        if size.constant != 1 || size.factors.is_empty() {
            words.push(size.constant.to_string());
        }
        words.extend(size.factors.iter().map(|factor| match factor {
            Factor::Axis(axis) => self.axis(*axis).to_owned(),
            Factor::Cache(level) => format!("cache({level})"),
            Factor::Results => "results()".to_owned(),
            Factor::Work => "work()".to_owned(),
        }));
        words.join(" * ")
    }

    fn axis(&self, axis: kiln_kernel::AxisId) -> &str {
        self.names.of_axis(axis)
    }
}

fn step(step: &VectorStep) -> String {
    let full = |full: &u32| match full {
        0 => String::new(),
        full => format!(" full {full}"),
    };
    match step {
        VectorStep::Whole(vectors) => format!("whole {vectors}"),
        VectorStep::NearlyWhole(vectors) => format!("nearly {vectors}"),
        VectorStep::Masked { vectors, full: n } => format!("masked {vectors}{}", full(n)),
        VectorStep::MaskedAbove {
            above,
            vectors,
            full: n,
        } => format!("above {above} masked {vectors}{}", full(n)),
        VectorStep::Scalar => "scalar".to_owned(),
    }
}
