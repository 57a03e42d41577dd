//! Structural checks: limits, names, operands that exist, counts, cycles. All problems are collected.

use super::document::Blueprint;
use super::limits::BlueprintLimits;
use crate::convert;
use crate::error::{Problem, Problems, ServiceError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of problems listed.
const MOST_PROBLEMS: usize = 20;

impl Blueprint {
    /// Checks the structure: version, limits, names, that every operand exists and that no node reads its own result,
    /// even indirectly. Types and sizes are checked when a graph is built.
    ///
    /// # Errors
    /// E1402 to E1408, with every problem found and its place.
    pub fn validate(&self, limits: &BlueprintLimits) -> Result<(), ServiceError> {
        let mut check = Check {
            blueprint: self,
            limits,
            problems: Vec::new(),
        };
        if self.version != super::VERSION {
            let message = format!(
                "expected version {}, found {}",
                super::VERSION,
                self.version
            );
            check.add(Problem::VERSION, "blueprint", message);
        }
        // If a limit is exceeded, nothing else is checked.
        if check.counts() && check.lists() {
            check.names();
            let makers = check.makers();
            check.operands(&makers);
            check.cycles(&makers);
        }
        let problems = check.problems;
        match Problems::of(problems) {
            Some(problems) => Err(ServiceError::Blueprint(problems)),
            None => Ok(()),
        }
    }
}

struct Check<'a> {
    blueprint: &'a Blueprint,
    limits: &'a BlueprintLimits,
    problems: Vec<Problem>,
}

/// The node that computes each value; `None` for an input.
type Makers<'a> = BTreeMap<&'a str, Option<usize>>;

impl<'a> Check<'a> {
    fn add(&mut self, code: &'static str, path: &str, message: impl Into<String>) {
        if self.problems.len() < MOST_PROBLEMS {
            let problem = Problem::new(code, path, message);
            self.problems.push(self.blueprint.placed(problem));
        }
    }

    fn counts(&mut self) -> bool {
        let (blueprint, limits) = (self.blueprint, self.limits);
        let before = self.problems.len();
        for (what, given, limit) in [
            ("nodes", blueprint.nodes.len(), limits.nodes),
            ("inputs", blueprint.inputs.len(), limits.values),
            ("outputs", blueprint.outputs.len(), limits.values),
            ("symbols", blueprint.symbols.len(), limits.values),
            ("facts", blueprint.facts.len(), limits.values),
        ] {
            if given > limit {
                let message = format!("expected at most {limit} {what}, found {given}");
                self.add(Problem::LIMIT, what, message);
            }
        }
        self.problems.len() == before
    }

    fn lists(&mut self) -> bool {
        let before = self.problems.len();
        let limit = self.limits.list;
        for (index, node) in self.blueprint.nodes.iter().enumerate() {
            for (field, length) in [
                ("operands", node.operands.len()),
                ("results", node.results.len()),
                ("attributes", node.attributes.len()),
            ] {
                if length > limit {
                    let message = format!("expected at most {limit} {field}, found {length}");
                    self.add(Problem::LIMIT, &format!("nodes[{index}].{field}"), message);
                }
            }
            for (name, value) in &node.attributes {
                let length = match value {
                    Value::Array(elements) => elements.len(),
                    _ => 0,
                };
                if length > limit {
                    let path = format!("nodes[{index}].attributes.{name}");
                    let message = format!("expected at most {limit} elements, found {length}");
                    self.add(Problem::LIMIT, &path, message);
                }
            }
        }
        self.problems.len() == before
    }

    fn name(&mut self, path: &str, name: &str) {
        let limit = self.limits.name_bytes;
        if name.is_empty() || name.len() > limit {
            let message = format!(
                "expected a name of 1 to {limit} bytes, found {}",
                name.len()
            );
            self.add(Problem::NAME, path, message);
        }
    }

    fn names(&mut self) {
        let blueprint = self.blueprint;
        if !kiln::internals::symbolic_shape::text::is_identifier(&blueprint.name) {
            let name = blueprint.name.escape_debug();
            let message = format!("expected an identifier as the graph's name, found `{name}`");
            self.add(Problem::NAME, "name", message);
        }
        let mut seen = BTreeSet::new();
        for (index, symbol) in blueprint.symbols.iter().enumerate() {
            let path = format!("symbols[{index}].name");
            if !kiln::internals::symbolic_shape::text::is_identifier(&symbol.name) {
                let name = symbol.name.escape_debug();
                let message = format!("expected an identifier as a symbol, found `{name}`");
                self.add(Problem::NAME, &path, message);
            } else if !seen.insert(symbol.name.as_str()) {
                let message = format!("symbol {} is listed twice", symbol.name);
                self.add(Problem::NAME, &path, message);
            }
        }
        let mut seen = BTreeSet::new();
        for (index, output) in blueprint.outputs.iter().enumerate() {
            let path = format!("outputs[{index}].name");
            self.name(&path, &output.name);
            if !seen.insert(output.name.as_str()) {
                let name = output.name.escape_debug();
                self.add(
                    Problem::NAME,
                    &path,
                    format!("output `{name}` is listed twice"),
                );
            }
        }
        if blueprint.outputs.is_empty() {
            self.add(Problem::COUNT, "outputs", "expected at least one output");
        }
    }

    /// Every value with the node that computes it.
    fn makers(&mut self) -> Makers<'a> {
        let blueprint = self.blueprint;
        let mut makers = Makers::new();
        for (index, input) in blueprint.inputs.iter().enumerate() {
            let path = format!("inputs[{index}].name");
            self.define(&mut makers, &path, &input.name, None);
        }
        for (index, node) in blueprint.nodes.iter().enumerate() {
            for (position, result) in node.results.iter().enumerate() {
                let path = format!("nodes[{index}].results[{position}]");
                self.define(&mut makers, &path, result, Some(index));
            }
        }
        makers
    }

    fn define(&mut self, makers: &mut Makers<'a>, path: &str, name: &'a str, maker: Option<usize>) {
        self.name(path, name);
        if makers.contains_key(name) {
            let message = format!("value `{}` is defined twice", name.escape_debug());
            self.add(Problem::NAME, path, message);
            return;
        }
        makers.insert(name, maker);
    }

    fn operands(&mut self, makers: &Makers<'_>) {
        let blueprint = self.blueprint;
        for (index, node) in blueprint.nodes.iter().enumerate() {
            for (position, operand) in node.operands.iter().enumerate() {
                if !makers.contains_key(operand.as_str()) {
                    let path = format!("nodes[{index}].operands[{position}]");
                    let name = operand.escape_debug();
                    let message = format!("no input or node defines `{name}`");
                    self.add(Problem::UNKNOWN_VALUE, &path, message);
                }
            }
            let Some(kind) = convert::kind(&node.kind) else {
                let message = format!("no kind of node is called `{}`", node.kind.escape_debug());
                self.add(
                    Problem::UNKNOWN_KIND,
                    &format!("nodes[{index}].kind"),
                    message,
                );
                continue;
            };
            for (field, counts, found) in [
                ("operands", &kind.operands, node.operands.len()),
                ("results", &kind.results, node.results.len()),
            ] {
                if !counts.contains(&found) {
                    let expected = match (counts.start(), counts.end()) {
                        (least, most) if least == most => least.to_string(),
                        (least, &usize::MAX) => format!("{least} or more"),
                        (least, most) => format!("{least} to {most}"),
                    };
                    let message =
                        format!("{}: expected {expected} {field}, found {found}", node.kind);
                    self.add(Problem::COUNT, &format!("nodes[{index}].{field}"), message);
                }
            }
        }
        for (index, output) in blueprint.outputs.iter().enumerate() {
            if !makers.contains_key(output.value.as_str()) {
                let name = output.value.escape_debug();
                let message = format!("no input or node defines `{name}`");
                self.add(
                    Problem::UNKNOWN_VALUE,
                    &format!("outputs[{index}].value"),
                    message,
                );
            }
        }
    }

    /// Kahn's algorithm: nodes that cannot be ordered are on a cycle, or depend on one.
    fn cycles(&mut self, makers: &Makers<'_>) {
        let nodes = &self.blueprint.nodes;
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        let mut waiting = vec![0usize; nodes.len()];
        for (reader, node) in nodes.iter().enumerate() {
            for operand in &node.operands {
                if let Some(&Some(maker)) = makers.get(operand.as_str()) {
                    readers[maker].push(reader);
                    waiting[reader] += 1;
                }
            }
        }
        let mut ready: Vec<usize> = (0..nodes.len()).filter(|&at| waiting[at] == 0).collect();
        while let Some(done) = ready.pop() {
            for &reader in &readers[done] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(reader);
                }
            }
        }
        if let Some(stuck) = waiting.iter().position(|&left| left > 0) {
            let message = "expected nodes that can be ordered, found one that reads its own result through others";
            self.add(Problem::CYCLE, &format!("nodes[{stuck}]"), message);
        }
    }
}
