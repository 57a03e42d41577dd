//! Prints a graph as text.
//!
//! Deterministic: values are numbered in the order they are defined, symbols and facts come in the
//! order of the table. Nothing here depends on map iteration.

use super::elements::{elements_text, write_float};
use crate::constant::Constant;
use crate::graph::{Graph, OpData};
use crate::ids::{RegionId, ValueId};
use crate::op::{FieldVisitor, Indices, Integers, Op, Word};
use crate::ty::Dims;
use cranelift_entity::SecondaryMap;
use kiln_symbolic_shape::text::is_identifier;
use kiln_symbolic_shape::{DimId, FactOrigin};
use kiln_tensor::DType;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Which parts the printer omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Whether values and the graph are printed with their names; otherwise all values are numbered.
    pub names: bool,
    /// Whether ops state their source node.
    pub origins: bool,
    /// Whether metadata are printed.
    pub metadata: bool,
}

impl PrintOptions {
    /// Prints everything, as [`print()`] does.
    pub fn full() -> Self {
        Self {
            names: true,
            origins: true,
            metadata: true,
        }
    }

    /// Prints only what affects the computation: the text from which hashes are computed.
    pub fn canonical() -> Self {
        Self {
            names: false,
            origins: false,
            metadata: false,
        }
    }
}

/// Prints a graph, with everything needed to read it back except large constants.
pub fn print(graph: &Graph) -> String {
    print_with(graph, PrintOptions::full())
}

/// Prints a graph according to the options.
///
/// Sizes are printed as simply as the facts allow, regardless of what was known when they were made: the reader learns
/// the facts first, and reads the same sizes.
pub fn print_with(graph: &Graph, options: PrintOptions) -> String {
    if graph.dims().contract_facts().is_empty() {
        return print_as_is(graph, options);
    }
    let mut simplified = graph.clone();
    simplified.simplify_sizes();
    print_as_is(&simplified, options)
}

fn print_as_is(graph: &Graph, options: PrintOptions) -> String {
    let names = value_names(graph, options);
    let mut printer = Printer {
        graph,
        options,
        names,
        out: String::new(),
    };
    printer.header();
    printer.region_body(graph.body(), 1, "return");
    printer.out.push_str("}\n");
    printer.out
}

/// The text name of every value, `%x` or `%12`, in definition order; names that are taken or are not identifiers are
/// replaced by numbers.
fn value_names(graph: &Graph, options: PrintOptions) -> SecondaryMap<ValueId, String> {
    let mut names = SecondaryMap::with_capacity(graph.n_values());
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut next = 0_usize;
    let mut regions = vec![(graph.body(), 0)];
    let mut name_value = |value: ValueId| {
        let name = graph
            .value(value)
            .name
            .as_deref()
            .filter(|name| options.names && is_identifier(name));
        names[value] = match name {
            Some(name) if taken.insert(name) => format!("%{name}"),
            _ => {
                next += 1;
                format!("%{}", next - 1)
            }
        };
    };
    graph
        .region(graph.body())
        .parameters
        .iter()
        .for_each(|&value| name_value(value));
    // Depth first in program order, with an explicit stack: results, then the op's regions.
    while let Some((region, position)) = regions.pop() {
        let Some(&op) = graph.region(region).ops.get(position) else {
            continue;
        };
        regions.push((region, position + 1));
        let data = graph.op(op);
        data.results.iter().for_each(|&value| name_value(value));
        for &inner in data.regions.iter().rev() {
            regions.push((inner, 0));
        }
        for &inner in &data.regions {
            graph
                .region(inner)
                .parameters
                .iter()
                .for_each(|&value| name_value(value));
        }
    }
    names
}

/// A string literal of the text form.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

struct Printer<'a> {
    graph: &'a Graph,
    options: PrintOptions,
    names: SecondaryMap<ValueId, String>,
    out: String,
}

/// Appends formatted text; writing to a `String` does not fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => {{
        let _infallible = write!($out, $($format)*);
    }};
}

impl Printer<'_> {
    fn header(&mut self) {
        let graph = self.graph;
        let name = if self.options.names && is_identifier(graph.name()) {
            graph.name()
        } else {
            "main"
        };
        put!(self.out, "graph @{name}(");
        for (index, &input) in graph.inputs().iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.out.push_str(&self.names[input]);
            // Callers pass inputs by name, so a name that differs from the value's is printed as a string.
            if let Some(name) = graph.value(input).name.as_deref()
                && self.names[input].get(1..) != Some(name)
            {
                put!(self.out, " {}", quote(name));
            }
            put!(self.out, ": {}", graph.ty(input).display(graph.dims()));
        }
        self.out.push_str(") -> ");
        let outputs = graph.outputs();
        match outputs {
            [only] => put!(self.out, "{}", graph.ty(*only).display(graph.dims())),
            _ => {
                let types: Vec<_> = outputs
                    .iter()
                    .map(|&value| graph.ty(value).display(graph.dims()).to_string())
                    .collect();
                put!(self.out, "({})", types.join(", "));
            }
        }
        let own_lines = self.facts();
        self.out.push_str(if own_lines { "\n{\n" } else { " {\n" });
    }

    /// Prints what is known about sizes: declared facts on the first line, then the others, one per line. Returns
    /// whether there were others.
    fn facts(&mut self) -> bool {
        let dims = self.graph.dims();
        let mut declared = self.negative_symbols();
        let mut lines = self.definitions();
        // Facts may refer to defined symbols, and definitions to declared ones.
        let first_line = (!lines.is_empty()).then(|| std::mem::take(&mut declared));
        for fact in dims.contract_facts() {
            let predicate = dims.display_predicate(&fact.predicate).to_string();
            match &fact.origin {
                FactOrigin::Declared => declared.push(predicate),
                FactOrigin::Required(by) => {
                    lines.push(format!("requires {predicate} by {}", quote(by)))
                }
            }
        }
        if first_line.is_some() && !declared.is_empty() {
            lines.insert(
                self.definitions().len(),
                format!("where {}", declared.join(", ")),
            );
        }
        for fact in dims.plan_facts() {
            let (left, right) = (dims.display(fact.left), dims.display(fact.right));
            lines.push(format!("plan {left} == {right} by {}", quote(&fact.origin)));
        }
        for hint in dims.hints() {
            lines.push(format!(
                "likely {} == {}",
                dims.symbol_info(hint.symbol).name(),
                hint.likely
            ));
        }
        if self.options.metadata {
            for (key, value) in self.graph.metadata() {
                lines.push(format!("meta {} = {}", quote(key), quote(value)));
            }
        }
        let first_line = first_line.unwrap_or(declared);
        if !first_line.is_empty() {
            put!(self.out, " where {}", first_line.join(", "));
        }
        let own_lines = !lines.is_empty();
        for line in lines {
            put!(self.out, "\n  {line}");
        }
        own_lines
    }

    /// Symbols that carry data rather than sizes are declared with a lower bound below 0.
    fn negative_symbols(&self) -> Vec<String> {
        let dims = self.graph.dims();
        let clause = |symbol| {
            let min = dims.declared_min(symbol);
            let is_data = dims.definition(symbol).is_none() && min < 0;
            is_data.then(|| format!("{} >= {min}", dims.symbol_name(symbol)))
        };
        dims.symbols().filter_map(clause).collect()
    }

    /// Symbols defined by an expression.
    fn definitions(&self) -> Vec<String> {
        let dims = self.graph.dims();
        let clause = |symbol| {
            let value = dims.definition(symbol)?;
            Some(format!(
                "let {} = {}",
                dims.symbol_name(symbol),
                dims.display(value)
            ))
        };
        dims.symbols().filter_map(clause).collect()
    }

    /// Recursion is bounded by the verifier's limit on nested regions.
    fn region_body(&mut self, region: RegionId, depth: usize, last: &str) {
        let graph = self.graph;
        for &op in &graph.region(region).ops {
            self.indent(depth);
            self.op(graph.op(op), depth);
            self.out.push('\n');
        }
        self.indent(depth);
        self.out.push_str(last);
        let results = &graph.region(region).results;
        for (index, &value) in results.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { " " });
            if region == graph.body()
                && let Some(name) = graph.output_names().get(index)
                && self.names[value].get(1..) != Some(&**name)
            {
                put!(self.out, "{} = ", quote(name));
            }
            self.out.push_str(&self.names[value]);
        }
        self.out.push('\n');
    }

    fn op(&mut self, data: &OpData, depth: usize) {
        let graph = self.graph;
        for (index, &result) in data.results.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            put!(
                self.out,
                "{}: {}",
                self.names[result],
                graph.ty(result).display(graph.dims())
            );
        }
        if !data.results.is_empty() {
            self.out.push_str(" = ");
        }
        self.out.push_str(data.op.mnemonic());
        for (index, &operand) in data.operands.iter().enumerate() {
            self.out.push_str(if index > 0 { ", " } else { " " });
            self.out.push_str(&self.names[operand]);
        }
        if let Op::Constant(constant) = &data.op {
            self.constant(constant);
        } else {
            let fields = FieldPrinter::print(graph, data);
            if !fields.is_empty() {
                put!(self.out, " {{{}}}", fields.join(", "));
            }
        }
        if !data.symbols.is_empty() {
            put!(self.out, " -> ({})", self.symbols(&data.symbols));
        }
        for &region in &data.regions {
            self.out.push('\n');
            self.indent(depth + 1);
            self.region(region, depth + 1);
        }
        if self.options.origins
            && let Some(origin) = &data.origin
        {
            put!(self.out, " from {}", quote(origin));
        }
    }

    fn region(&mut self, region: RegionId, depth: usize) {
        let graph = self.graph;
        let data = graph.region(region);
        self.out.push_str("region(");
        for (index, &parameter) in data.parameters.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            put!(
                self.out,
                "{}: {}",
                self.names[parameter],
                graph.ty(parameter).display(graph.dims())
            );
        }
        self.out.push(')');
        if !data.symbols.is_empty() {
            put!(self.out, " -> ({})", self.symbols(&data.symbols));
        }
        self.out.push_str(" {\n");
        self.region_body(region, depth + 1, "yield");
        self.indent(depth);
        self.out.push('}');
    }

    fn symbols(&self, symbols: &[kiln_symbolic_shape::SymbolId]) -> String {
        let names: Vec<_> = symbols
            .iter()
            .map(|&symbol| self.graph.dims().symbol_info(symbol).name())
            .collect();
        names.join(", ")
    }

    fn constant(&mut self, constant: &Constant) {
        let is_small = constant.is_inline();
        match is_small
            .then(|| elements_text(&constant.tensor()))
            .flatten()
        {
            Some(elements) => put!(self.out, " [{elements}]"),
            None => put!(self.out, " \"{}\"", constant.digest()),
        }
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }
}

/// Prints attributes as `name = value`, flags as their name.
struct FieldPrinter<'a> {
    graph: &'a Graph,
    /// The dtype of the first operand, which results have unless stated otherwise.
    usual: Option<DType>,
    fields: Vec<String>,
}

impl<'a> FieldPrinter<'a> {
    fn print(graph: &'a Graph, data: &OpData) -> Vec<String> {
        let first = data
            .operands
            .first()
            .and_then(|&value| graph.tensor_ty(value));
        let mut printer = Self {
            graph,
            usual: first.map(|ty| ty.dtype),
            fields: Vec::new(),
        };
        // Visitors may write, so the visit works on a copy.
        data.op.clone().visit_fields(&mut printer);
        printer.fields
    }

    fn list<T>(&mut self, name: &str, items: &[T], text: impl Fn(&T) -> String) {
        let items: Vec<_> = items.iter().map(text).collect();
        self.fields.push(format!("{name} = [{}]", items.join(", ")));
    }
}

impl FieldVisitor for FieldPrinter<'_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        if *value {
            self.fields.push(name.to_owned());
        }
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        self.fields.push(format!("{name} = {value}"));
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        self.list(name, value, ToString::to_string);
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        self.list(name, value, ToString::to_string);
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        self.fields.push(format!("{name} = {}", float_text(*value)));
    }

    fn floats(&mut self, name: &'static str, value: &mut smallvec::SmallVec<[f64; 4]>) {
        self.list(name, value, |value| float_text(*value));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        self.fields
            .push(format!("{name} = {}", self.graph.dims().display(*value)));
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        let dims = self.graph.dims();
        self.list(name, value, |&dim| dims.display(dim).to_string());
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        self.fields.push(format!("{name} = {value}"));
    }

    fn result_dtype(&mut self, name: &'static str, value: &mut DType) {
        if self.usual != Some(*value) {
            self.dtype(name, value);
        }
    }

    fn word(&mut self, name: &'static str, value: &mut dyn Word) {
        self.fields.push(format!("{name} = {}", value.as_word()));
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        self.fields.push(format!("{name} = {}", quote(value)));
    }
}

fn float_text(value: f64) -> String {
    let mut text = String::new();
    write_float(&mut text, value, &|shorter| shorter.parse() == Ok(value));
    text
}
