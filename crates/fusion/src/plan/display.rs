//! The text form of a plan: a line per node, followed by the joins that formed it.

use std::fmt;

use kiln_symbolic_shape::FactSelection;

use super::{FusionNode, FusionPlan};

impl fmt::Display for FusionPlan {
    /// Nodes in order of execution; constants are counted, not listed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "fusion @{}: {} kernels, {} views, {} builtins, {} interpreted, {} constants",
            self.graph_name,
            self.count("kernel"),
            self.count("view"),
            self.count("builtin"),
            self.count("interpret"),
            self.count("constant"),
        )?;
        if self.options.facts != FactSelection::All {
            writeln!(f, "  made {}", self.options.facts)?;
        }
        for (region, nodes) in &self.regions {
            if self.regions.len() > 1 {
                writeln!(f, "{region}:")?;
            }
            let nodes = nodes.iter().filter_map(|&id| self.nodes.get(id));
            for node in nodes.filter(|node| node.kind.as_word() != "constant") {
                write!(f, "{node}")?;
            }
        }
        for near in &self.near_misses {
            writeln!(
                f,
                "near miss {} .. {}: {}",
                near.producer, near.consumer, near.reason
            )?;
        }
        for cut in self.cut_short() {
            writeln!(f, "budget: {cut}")?;
        }
        for (ops, reason) in &self.rejected {
            writeln!(f, "taken apart: {} ops: {reason}", ops.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for FusionNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {} {} @{}", self.id, self.kind, self.name)?;
        if let Some(class) = self.class {
            write!(f, " ({class})")?;
        }
        write!(f, " [")?;
        for (position, value) in self.inputs.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{value}")?;
        }
        write!(f, "] -> [")?;
        for (position, value) in self.outputs.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{value}")?;
        }
        write!(f, "] {} ops", self.ops.len())?;
        if !self.recomputed.is_empty() {
            write!(f, " and {} again", self.recomputed.len())?;
        }
        if self.benefit.kernels_removed > 0 {
            write!(f, "; {}", self.benefit)?;
        }
        writeln!(f)?;
        for fact in &self.facts {
            writeln!(f, "    rests on the fact of {:?}", fact.origin)?;
        }
        for note in &self.notes {
            writeln!(f, "    {note}")?;
        }
        Ok(())
    }
}
