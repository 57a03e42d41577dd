//! Generates readable Rust code that builds a blueprint's graph.

use super::kind;
use crate::blueprint::{Blueprint, BlueprintNode, Size};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The function, for nodes in this order.
pub(super) fn write(blueprint: &Blueprint, order: &[usize]) -> String {
    let mut writer = Writer {
        names: names(blueprint),
        lines: String::new(),
    };
    writer.header(blueprint);
    for &index in order {
        writer.node(&blueprint.nodes[index]);
    }
    let outputs = (blueprint.outputs.iter())
        .map(|output| format!("({:?}, {})", output.name, writer.names[&output.value]));
    let outputs: Vec<String> = outputs.collect();
    let _ = writeln!(writer.lines, "    Ok(b.finish(&[{}])?)", outputs.join(", "));
    writer.lines.push_str("}\n");
    writer.lines
}

/// A Rust identifier for each value.
fn names(blueprint: &Blueprint) -> BTreeMap<String, String> {
    let inputs = blueprint.inputs.iter().map(|input| &input.name);
    let results = blueprint.nodes.iter().flat_map(|node| &node.results);
    let mut taken: BTreeSet<String> = ["b", "builder", "size", "add"].map(str::to_owned).into();
    let mut names = BTreeMap::new();
    for name in inputs.chain(results) {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        let stem: String = name.chars().map(plain).collect();
        let stem = match stem.starts_with(|c: char| c.is_ascii_digit()) || is_keyword(&stem) {
            true => format!("v_{stem}"),
            false => stem,
        };
        let mut own = stem.clone();
        let mut number = 1;
        while !taken.insert(own.clone()) {
            own = format!("{stem}_{number}");
            number += 1;
        }
        names.insert(name.clone(), own);
    }
    names
}

fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 39] = [
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
        "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
        "mut", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
        "type", "unsafe", "use", "where", "while", "gen", "_",
    ];
    KEYWORDS.contains(&word)
}

struct Writer {
    names: BTreeMap<String, String>,
    lines: String,
}

impl Writer {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.lines, "    {line}");
    }

    fn header(&mut self, blueprint: &Blueprint) {
        self.lines.push_str(concat!(
            "use kiln::DType;\n",
            "use kiln::internals::ir::Graph;\n",
            "use kiln::internals::shape_inference::GraphBuilder;\n",
            "use kiln::internals::symbolic_shape::SymbolicDimension;\n",
            "use kiln_service::convert::{add, size};\n\n",
        ));
        let _ = writeln!(self.lines, "/// The graph `{}`.", blueprint.name);
        let name = &blueprint.name;
        let result = "Result<Graph, Box<dyn std::error::Error>>";
        let _ = writeln!(
            self.lines,
            "pub fn {}() -> {result} {{",
            name.to_lowercase()
        );
        self.line(&format!("let mut b = GraphBuilder::new({name:?});"));
        for symbol in &blueprint.symbols {
            let mut text = format!("SymbolicDimension::named({:?})", symbol.name);
            if symbol.min.is_some() || symbol.max.is_some() {
                let _ = write!(
                    text,
                    ".with_constraints({}, {:?})?",
                    symbol.min.unwrap_or(0),
                    symbol.max
                );
            }
            if let Some(multiple) = symbol.multiple_of {
                let _ = write!(text, ".multiple_of({multiple})?");
            }
            if let Some(likely) = symbol.likely {
                let _ = write!(text, ".likely({likely})");
            }
            self.line(&format!("b.dims_mut().declare({text})?;"));
        }
        for input in &blueprint.inputs {
            let own = self.names[&input.name].clone();
            let dims = self.sizes(&own, &input.shape);
            let dtype = input.dtype.to_uppercase();
            self.line(&format!(
                "let {own} = b.input({:?}, DType::{dtype}, &{dims});",
                input.name
            ));
        }
        for fact in &blueprint.facts {
            self.line(&format!("// Holds: {}", fact.escape_debug()));
        }
    }

    /// Writes a line that makes the sizes, and returns the name of the list.
    fn sizes(&mut self, stem: &str, sizes: &[Size]) -> String {
        let texts: Vec<String> = (sizes.iter())
            .map(|size| format!("size(&mut b, {:?})?", size.to_string()))
            .collect();
        let name = format!("{stem}_sizes");
        self.line(&format!("let {name} = [{}];", texts.join(", ")));
        name
    }

    fn node(&mut self, node: &BlueprintNode) {
        let operands: Vec<String> = node
            .operands
            .iter()
            .map(|name| self.names[name].clone())
            .collect();
        let results: Vec<String> = node
            .results
            .iter()
            .map(|name| self.names[name].clone())
            .collect();
        let template = kind(&node.kind).map_or("", |kind| kind.code);
        let written = match template {
            "" => None,
            template => self.filled(template, node, &operands, &results.join("_")),
        };
        if let (Some(call), [result]) = (written, results.as_slice()) {
            self.line(&format!("let {result} = {call};"));
            return;
        }
        let attributes = serde_json::to_string(&node.attributes).unwrap_or_default();
        let call = format!(
            "add(&mut b, {:?}, &[{}], {})?",
            node.kind,
            operands.join(", "),
            raw_text(&attributes)
        );
        match results.as_slice() {
            [result] => self.line(&format!("let {result} = {call}[0];")),
            results => {
                let list = results.join("_");
                self.line(&format!("let {list} = {call};"));
                for (position, result) in results.iter().enumerate() {
                    self.line(&format!("let {result} = {list}[{position}];"));
                }
            }
        }
    }

    /// Fills operands and attributes into a template; `None` if the node has an attribute that the template does not
    /// name.
    fn filled(
        &mut self,
        template: &str,
        node: &BlueprintNode,
        operands: &[String],
        stem: &str,
    ) -> Option<String> {
        let mut text = String::new();
        let mut named = BTreeSet::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let (place, behind) = behind.split_once('}')?;
            text.push_str(before);
            let (place, default) = place
                .split_once('=')
                .map_or((place, None), |(a, b)| (a, Some(b)));
            if place == "*" {
                text.push_str(&operands.join(", "));
            } else if let Ok(position) = place.parse::<usize>() {
                text.push_str(operands.get(position)?);
            } else {
                named.insert(place.to_owned());
                match node.attributes.get(place) {
                    Some(value) => {
                        text.push_str(&self.literal(&format!("{stem}_{place}"), place, value)?)
                    }
                    None => text.push_str(default?),
                }
            }
            rest = behind;
        }
        text.push_str(rest);
        node.attributes
            .keys()
            .all(|name| named.contains(name))
            .then_some(text)
    }

    /// An attribute as Rust.
    fn literal(&mut self, stem: &str, name: &str, value: &Value) -> Option<String> {
        match value {
            Value::Array(elements) if ["dims", "starts", "sizes"].contains(&name) => {
                let sizes = elements.iter().map(|element| match element {
                    Value::String(text) => Some(Size::Expression(text.clone())),
                    other => other.as_i64().map(Size::Fixed),
                });
                let sizes: Vec<Size> = sizes.collect::<Option<_>>()?;
                Some(self.sizes(stem, &sizes))
            }
            Value::Number(number) if name == "epsilon" => Some(format!("{:?}", number.as_f64()?)),
            Value::Array(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        }
    }
}

/// A text as a raw literal.
fn raw_text(text: &str) -> String {
    let mut hashes = "#".to_owned();
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}")
}
