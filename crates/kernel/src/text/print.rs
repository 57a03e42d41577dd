//! Prints a kernel as text.
//!
//! Deterministic: everything is printed in the order of the kernel's lists. Sizes print in their simplest form.

use std::fmt::Write;

use kiln_symbolic_shape::text::{Lexer, TokenKind};
use kiln_symbolic_shape::{DimId, SymbolId};
use kiln_tensor::DType;

use super::names::Names;
use super::simplify::simplified;
use crate::form::{
    AxisId, Buffer, Carry, Extent, Item, Kernel, Node, NodeId, StageId, StageOperation, Store,
};

/// Prints a kernel: the text that [`read`](super::read()) reads back.
///
/// It contains everything that affects the computation: names, if they are valid in a text, and sizes as simple as the
/// facts allow. Hints and plan facts of the table are not included.
pub fn print(kernel: &Kernel) -> String {
    let kernel = simplified(kernel);
    let names = Names::of(&kernel);
    let mut printer = Printer {
        kernel: &kernel,
        names: &names,
        out: String::new(),
    };
    printer.header();
    printer.body();
    printer.out
}

pub(super) struct Printer<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) names: &'a Names,
    out: String,
}

/// Appends formatted text; writing to a `String` does not fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => {{
        let _infallible = write!($out, $($format)*);
    }};
}
pub(super) use put;

impl Printer<'_> {
    fn header(&mut self) {
        let (kernel, dims) = (self.kernel, self.kernel.dims());
        let buffers: Vec<String> = kernel
            .buffers()
            .iter()
            .map(|(id, buffer)| format!("%{}: {}", self.names.buffers[id], self.buffer(buffer)))
            .collect();
        let facts: Vec<String> = dims
            .contract_facts()
            .iter()
            .map(|fact| dims.display_predicate(&fact.predicate).to_string())
            .collect();
        let (buffers, facts) = (buffers.join(", "), facts.join(", "));
        let symbols = self.symbols(&buffers, &facts);
        put!(
            self.out,
            "kernel @{}{symbols}({buffers})",
            self.names.kernel
        );
        if !facts.is_empty() {
            put!(self.out, " where {facts}");
        }
        self.out.push_str(" {\n");
    }

    /// The list of symbols, in the order in which their values are passed. Omitted if the reader determines the same
    /// order: that of the buffers, then of the facts.
    fn symbols(&self, buffers: &str, facts: &str) -> String {
        let dims = self.kernel.dims();
        let is_plain =
            |symbol: SymbolId| dims.definition(symbol).is_none() && dims.declared_min(symbol) >= 0;
        let mut found: Vec<SymbolId> = Vec::new();
        for name in shape_names(buffers)
            .into_iter()
            .chain(size_names(facts, false))
        {
            if let Some(symbol) = dims.symbol_named(name)
                && !found.contains(&symbol)
            {
                found.push(symbol);
            }
        }
        if dims.symbols().all(is_plain) && dims.symbols().eq(found) {
            return String::new();
        }
        let list: Vec<String> = dims
            .symbols()
            .map(|symbol| {
                let name = dims.symbol_name(symbol);
                match dims.definition(symbol) {
                    Some(value) => format!("{name} = {}", dims.display(value)),
                    None if is_plain(symbol) => name.to_owned(),
                    None => format!("{name} >= {}", dims.declared_min(symbol)),
                }
            })
            .collect();
        format!("<{}>", list.join(", "))
    }

    fn buffer(&self, buffer: &Buffer) -> String {
        let dims = self.kernel.dims();
        let mut text = format!(
            "{} {}{}",
            buffer.role.as_word(),
            buffer.dtype,
            dims.display_shape(&buffer.shape)
        );
        if let Some(strides) = &buffer.strides {
            put!(text, " strides {}", dims.display_shape(strides));
        }
        text
    }

    fn body(&mut self) {
        let kernel = self.kernel;
        if !kernel.outer().is_empty() {
            let axes = self.axes(kernel.outer());
            put!(self.out, "  outer {axes}\n");
        }
        for item in kernel.items() {
            match item {
                Item::Carry(carry) => self.carry(carry),
                other => self.item(other, "  "),
            }
        }
        self.out.push_str("}\n");
    }

    fn carry(&mut self, carry: &Carry) {
        let axis = self.axes(&[carry.axis]);
        put!(
            self.out,
            "  carry {axis}{} {{\n",
            if carry.reverse { " reverse" } else { "" }
        );
        for item in &carry.items {
            self.item(item, "    ");
        }
        self.out.push_str("  }\n");
    }

    /// A stage or a store; blocks do not nest.
    fn item(&mut self, item: &Item, indent: &str) {
        let text = match item {
            Item::Stage(id) => self.stage(*id),
            Item::Store(store) => self.store(store),
            Item::Carry(_) => return,
        };
        put!(self.out, "{indent}{text}\n");
    }

    fn stage(&self, id: StageId) -> String {
        let stage = self.kernel.stage(id);
        let mut text = self.names.stages[id].clone();
        if !stage.axes.is_empty() {
            put!(text, "[{}]", self.axes(&stage.axes));
        }
        if let Some(init) = stage.init {
            put!(text, " init {}", self.expression(init));
        }
        text.push_str(" = ");
        if let StageOperation::Reduce {
            reduction,
            axes,
            accumulator,
        } = &stage.operation
        {
            put!(
                text,
                "reduce {}{}[{}] ",
                reduction.as_word(),
                self.accumulator(*accumulator, stage.value),
                self.axes(axes)
            );
        }
        text.push_str(&self.expression(stage.value));
        text
    }

    /// The accumulator's dtype if it differs from the value's.
    fn accumulator(&self, accumulator: DType, value: NodeId) -> String {
        if accumulator == self.kernel.dtype(value) {
            String::new()
        } else {
            format!(" {accumulator}")
        }
    }

    fn store(&self, store: &Store) -> String {
        let inline = self.inline_axes(store);
        let listed = store
            .axes
            .get(..store.axes.len() - inline.len())
            .unwrap_or_default();
        let mut text = "store".to_owned();
        if !listed.is_empty() {
            put!(text, "[{}]", self.axes(listed));
        }
        if let Some(combine) = store.combine {
            put!(text, " {}", combine.as_word());
        }
        put!(text, " %{}[", self.names.buffers[store.buffer]);
        for (position, &index) in store.indices.iter().enumerate() {
            text.push_str(if position > 0 { ", " } else { "" });
            match inline.iter().find(|&&(at, _)| at == position) {
                Some(&(_, axis)) => text.push_str(&self.axes(&[axis])),
                None => text.push_str(&self.expression(index)),
            }
        }
        put!(text, "] = {}", self.expression(store.value));
        text
    }

    /// The last axes of a store that can be declared where they occur as an index, because they are in the order of the
    /// indices and not used in an earlier index; each with the position of its index.
    fn inline_axes(&self, store: &Store) -> Vec<(usize, AxisId)> {
        let mut inline = Vec::new();
        let mut before = store.indices.len();
        for &axis in store.axes.iter().rev() {
            let is_axis = |&index: &NodeId| *self.kernel.node(index) == Node::Axis(axis);
            let Some(position) = store.indices.iter().position(is_axis) else {
                break;
            };
            let is_sized = matches!(self.kernel.axis(axis).extent, Extent::Size(_));
            let earlier = store.indices.get(..position).unwrap_or_default();
            if position >= before
                || !is_sized
                || earlier.iter().any(|&index| self.uses_axis(index, axis))
            {
                break;
            }
            before = position;
            inline.push((position, axis));
        }
        inline
    }

    /// `i < B, j < clamp(i + 1, S)`.
    fn axes(&self, axes: &[AxisId]) -> String {
        let texts: Vec<String> = axes
            .iter()
            .map(|&axis| {
                let extent = match self.kernel.axis(axis).extent {
                    Extent::Size(size) => self.size(size),
                    Extent::Clamped { value, bound } => {
                        format!("clamp({}, {})", self.expression(value), self.size(bound))
                    }
                };
                format!("{} < {extent}", self.names.axes[axis])
            })
            .collect();
        texts.join(", ")
    }

    pub(super) fn size(&self, dim: DimId) -> String {
        self.kernel.dims().display(dim).to_string()
    }
}

/// The names of sizes in the shapes and strides of a list of buffers, with repetitions.
pub(super) fn shape_names(buffers: &str) -> Vec<&str> {
    size_names(buffers, true)
}

/// The names in a text, or only in its brackets; a function's name does not count.
fn size_names(text: &str, in_brackets: bool) -> Vec<&str> {
    let mut lexer = Lexer::new(text);
    let mut names = Vec::new();
    let mut is_inside = !in_brackets;
    let mut current = lexer.next_token();
    while current.kind != TokenKind::End {
        let next = lexer.next_token();
        match current.kind {
            TokenKind::OpenBracket => is_inside = true,
            TokenKind::CloseBracket => is_inside = !in_brackets,
            TokenKind::Identifier(name) if is_inside && next.kind != TokenKind::OpenParen => {
                names.push(name)
            }
            _ => {}
        }
        current = next;
    }
    names
}
