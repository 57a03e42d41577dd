//! Random kernels as text: loads that shift, stride, reverse, guard, gather, repeat one element and resample; pieces; stages,
//! carry blocks, plain and combining stores, over axes whose extents are a few symbols.
//!
//! Every kernel here reads back and should be accepted by the verifier; buffers are made to fit the indices used on them.
//! An index that the verifier cannot prove is tested by generated code.

mod indices;

use crate::random::SplitMix64;
use std::fmt::Write as _;

/// Symbols and constants for extents of axes. A kernel uses a few of them.
const EXTENTS: [&str; 8] = ["A", "B", "C", "D", "A", "B", "5", "16"];

/// The text of a random kernel.
pub fn random_kernel(seed: u64) -> String {
    let mut generator = Generator::new(seed);
    match generator.below(8) {
        0 => generator.scan(),
        1 => generator.scatter(),
        _ => generator.nest(),
    }
    generator.finish()
}

/// The dtypes of values; narrower ones are cast when they are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    F32,
    F64,
    I32,
}

impl Type {
    fn word(self) -> &'static str {
        match self {
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::I32 => "i32",
        }
    }

    fn is_float(self) -> bool {
        self != Type::I32
    }
}

/// An axis in scope.
#[derive(Clone, Debug)]
struct Axis {
    name: String,
    extent: String,
}

/// A local in scope.
#[derive(Clone, Debug)]
struct Local {
    name: String,
    extents: Vec<String>,
    ty: Type,
}

struct Generator {
    random: SplitMix64,
    name: String,
    buffers: Vec<String>,
    outer: Vec<Axis>,
    items: String,
    locals: Vec<Local>,
    n_names: usize,
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self {
            random: SplitMix64::new(seed),
            name: format!("random_{seed}"),
            buffers: Vec::new(),
            outer: Vec::new(),
            items: String::new(),
            locals: Vec::new(),
            n_names: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len() as u64) as usize;
        from[at].clone()
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    fn axis(&mut self, prefix: &str) -> Axis {
        Axis {
            name: self.fresh(prefix),
            extent: self.pick(&EXTENTS).to_owned(),
        }
    }

    fn outer_axes(&mut self, least: u64, most: u64) {
        for _ in 0..least + self.below(most - least + 1) {
            let axis = self.axis("i");
            self.outer.push(axis);
        }
    }

    fn ty(&mut self) -> Type {
        self.pick(&[Type::F32, Type::F32, Type::F32, Type::F64, Type::I32])
    }

    fn finish(self) -> String {
        let declared = |axis: &Axis| format!("{} < {}", axis.name, axis.extent);
        let outer: Vec<String> = self.outer.iter().map(declared).collect();
        let outer = if outer.is_empty() {
            String::new()
        } else {
            format!("  outer {}\n", outer.join(", "))
        };
        let buffers = self.buffers.join(", ");
        format!(
            "kernel @{}({buffers}) {{\n{outer}{}}}\n",
            self.name, self.items
        )
    }

    /// Stages and stores.
    fn nest(&mut self) {
        self.outer_axes(0, 3);
        for _ in 0..self.below(4) {
            self.stage();
        }
        for _ in 0..1 + self.below(2) {
            self.store();
        }
    }

    fn stage(&mut self) {
        let ty = self.ty();
        let name = self.fresh("s");
        let mut axes = Vec::new();
        for _ in 0..self.pick(&[0_usize, 0, 0, 1, 1, 2]) {
            axes.push(self.axis("j"));
        }
        let mut scope: Vec<Axis> = self.outer.iter().chain(&axes).cloned().collect();
        let named: Vec<String> = axes
            .iter()
            .map(|axis| format!("{} < {}", axis.name, axis.extent))
            .collect();
        let head = if named.is_empty() {
            name.clone()
        } else {
            format!("{name}[{}]", named.join(", "))
        };
        let mut result = ty;
        let body = if self.one_in(4) {
            self.value(ty, &scope, 3)
        } else {
            let is_arg = axes.is_empty() && self.one_in(8);
            let n_reduced = if is_arg { 1 } else { 1 + self.below(2) };
            let mut reduced = Vec::new();
            for _ in 0..n_reduced {
                let axis = self.axis("r");
                let extent = if scope.is_empty() || is_arg || !self.one_in(8) {
                    axis.extent.clone()
                } else {
                    // A triangle, as in causal attention.
                    let around = self.pick(&scope);
                    format!("clamp({} + 1, {})", around.name, axis.extent)
                };
                reduced.push(format!("{} < {extent}", axis.name));
                scope.push(axis);
            }
            let reduction = if is_arg {
                result = Type::I32;
                self.pick(&["argmax", "argmin", "argmax_last", "argmin_last"])
            } else {
                self.pick(&["add", "add", "add", "add", "max", "min", "mul"])
            };
            // Products lead to contractions.
            let value = if self.one_in(2) {
                format!("{} * {}", self.load(ty, &scope), self.load(ty, &scope))
            } else {
                self.value(ty, &scope, 2)
            };
            // Products of many factors overflow for integers only, which wrap, and vanish otherwise.
            format!("reduce {reduction}[{}] {value}", reduced.join(", "))
        };
        let is_index = result != ty || body.contains("reduce arg");
        let _ = writeln!(self.items, "  {head} = {body}");
        if is_index {
            // Indices are i64: another stage converts an i32.
            let cast = self.fresh("s");
            let _ = writeln!(self.items, "  {cast} = i32({name})");
            self.locals.push(Local {
                name: cast,
                extents: Vec::new(),
                ty: Type::I32,
            });
            return;
        }
        let extents = axes.into_iter().map(|axis| axis.extent).collect();
        self.locals.push(Local { name, extents, ty });
    }

    fn store(&mut self) {
        let ty = self.ty();
        let mut inner = Vec::new();
        for _ in 0..self.pick(&[0_usize, 0, 1, 1, 2]) {
            inner.push(self.axis("k"));
        }
        let scope: Vec<Axis> = self.outer.iter().chain(&inner).cloned().collect();
        let value = self.value(ty, &scope, 3);
        let mut order = scope.clone();
        self.shuffle(&mut order);
        let stored = self.pick(&[ty.word(), ty.word(), ty.word(), "f16", "bf16", "bool", "i8"]);
        let stored = if ty.is_float() && stored == "i8" {
            ty.word()
        } else {
            stored
        };
        let value = match stored {
            word if word == ty.word() => value,
            "bool" => format!("{value} > {}", literal(ty, "0")),
            word => format!("{word}({value})"),
        };
        let shape: Vec<String> = order.iter().map(|axis| axis.extent.clone()).collect();
        let buffer = self.buffer("y", "out", stored, &shape);
        let named: Vec<String> = inner
            .iter()
            .map(|axis| format!("{} < {}", axis.name, axis.extent))
            .collect();
        let head = if named.is_empty() {
            "store".to_owned()
        } else {
            format!("store[{}]", named.join(", "))
        };
        let indices: Vec<String> = order.iter().map(|axis| axis.name.clone()).collect();
        let _ = writeln!(
            self.items,
            "  {head} %{buffer}[{}] = {value}",
            indices.join(", ")
        );
    }

    /// A carry block: a running value, or two values that read each other's previous ones.
    fn scan(&mut self) {
        self.outer_axes(0, 2);
        if self.one_in(2) {
            self.stage();
        }
        let ty = self.pick(&[Type::F32, Type::F64, Type::I32]);
        let step = self.axis("t");
        let (first, second) = (self.fresh("c"), self.fresh("c"));
        let reverse = if self.one_in(2) { " reverse" } else { "" };
        let mut scope = self.outer.clone();
        scope.push(step.clone());
        let wide = self.one_in(2).then(|| self.axis("e"));
        let (head, index, inner) = match &wide {
            Some(axis) => (
                format!("[{} < {}]", axis.name, axis.extent),
                format!("[{}]", axis.name),
                Some(axis.clone()),
            ),
            None => (String::new(), String::new(), None),
        };
        scope.extend(inner.clone());
        let (fresh, other) = (self.value(ty, &scope, 1), self.value(ty, &scope, 1));
        let around: Vec<Axis> = self.outer.iter().cloned().chain(inner.clone()).collect();
        let start = self.one_in(2).then(|| self.load(ty, &around));
        let (zero, half) = (literal(ty, "0"), if ty.is_float() { "0.5" } else { "3" });
        let half = literal(ty, half);
        let start = start.unwrap_or_else(|| half.clone());
        let _ = writeln!(
            self.items,
            "  carry {} < {}{reverse} {{",
            step.name, step.extent
        );
        let _ = writeln!(
            self.items,
            "    {first}{head} init {zero} = prev({first}){index} * {half} + ({fresh})"
        );
        let two = self.one_in(2);
        if two {
            let _ = writeln!(
                self.items,
                "    {second}{head} init {start} = max(prev({second}){index}, {first}{index}) - prev({first}){index} + ({other})"
            );
        }
        let shown = if two { &second } else { &first };
        let read = if self.one_in(2) {
            format!("{shown}{index}")
        } else {
            format!("prev({shown}){index}")
        };
        let mut shape: Vec<String> = scope.iter().map(|axis| axis.extent.clone()).collect();
        let mut order = scope.clone();
        if self.one_in(2) {
            order.rotate_left(1);
            shape.rotate_left(1);
        }
        let buffer = self.buffer("y", "out", ty.word(), &shape);
        let indices: Vec<String> = order.iter().map(|axis| axis.name.clone()).collect();
        let axes = inner.as_ref().map_or(String::new(), |axis| {
            format!("[{} < {}]", axis.name, axis.extent)
        });
        let _ = writeln!(
            self.items,
            "    store{axes} %{buffer}[{}] = {read}",
            indices.join(", ")
        );
        self.items.push_str("  }\n");
        let mut last: Vec<Axis> = self.outer.clone();
        last.extend(inner);
        let shape: Vec<String> = last.iter().map(|axis| axis.extent.clone()).collect();
        let buffer = self.buffer("y", "out", ty.word(), &shape);
        let indices: Vec<String> = last.iter().map(|axis| axis.name.clone()).collect();
        let _ = writeln!(
            self.items,
            "  store{axes} %{buffer}[{}] = last({first}){index}",
            indices.join(", ")
        );
    }

    /// A combining store, at an index that is data, or with an offset.
    fn scatter(&mut self) {
        self.outer_axes(1, 2);
        let ty = self.pick(&[Type::F32, Type::I32]);
        let inner = self.one_in(2).then(|| self.axis("k"));
        let scope: Vec<Axis> = self.outer.iter().cloned().chain(inner.clone()).collect();
        // Sums in a different order than that of the outer points would round differently, so small multiples are
        // summed.
        let value = self.load(ty, &scope);
        let target = self.pick(&EXTENTS).to_owned();
        let first = self.outer[0].clone();
        let from_one_on = self.one_in(3);
        let extent = match from_one_on {
            true => "1".to_owned(),
            false => first.extent.clone(),
        };
        let indices = self.buffer("n", "in", "i64", &[extent]);
        let mut shape = vec![target];
        shape.extend(scope.iter().skip(1).map(|axis| axis.extent.clone()));
        let buffer = self.buffer("z", "inout", ty.word(), &shape);
        let mut at = vec![match from_one_on {
            true => format!("%{indices}[0] + {}", first.name),
            false => format!("%{indices}[{}]", first.name),
        }];
        at.extend(scope.iter().skip(1).map(|axis| axis.name.clone()));
        let combine = self.pick(&["add", "min", "max", "set", "mul"]);
        let axes = inner.map_or(String::new(), |axis| {
            format!("[{} < {}]", axis.name, axis.extent)
        });
        let _ = writeln!(
            self.items,
            "  store{axes} {combine} %{buffer}[{}] = {value}",
            at.join(", ")
        );
    }

    fn buffer(&mut self, prefix: &str, role: &str, dtype: &str, shape: &[String]) -> String {
        let name = self.fresh(prefix);
        let mut strides = String::new();
        // Column-major, in a third of those with two axes; repeated rows, in some that are read.
        if let [_, columns] = shape {
            if self.one_in(4) && columns.parse::<u32>().is_err() {
                strides = format!(" strides [1, {}]", shape[0]);
            } else if (role == "in") && self.one_in(8) {
                strides = " strides [0, 1]".to_owned();
            }
        }
        self.buffers.push(format!(
            "%{name}: {role} {dtype}[{}]{strides}",
            shape.join(", ")
        ));
        name
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = self.below(at as u64 + 1) as usize;
            items.swap(at, other);
        }
    }

    /// An expression of a type over axes.
    fn value(&mut self, ty: Type, scope: &[Axis], depth: u32) -> String {
        if depth == 0 || self.one_in(5) {
            return self.leaf(ty, scope);
        }
        let a = self.value(ty, scope, depth - 1);
        match self.below(if ty.is_float() { 13 } else { 8 }) {
            0 => format!("({a} + {})", self.value(ty, scope, depth - 1)),
            1 => format!("({a} - {})", self.value(ty, scope, depth - 1)),
            2 => format!("({a} * {})", self.value(ty, scope, depth - 1)),
            3 => format!("max({a}, {})", self.value(ty, scope, depth - 1)),
            4 => format!("min({a}, {})", self.value(ty, scope, depth - 1)),
            5 => {
                let (b, c) = (self.leaf(ty, scope), self.leaf(ty, scope));
                format!("select({b} < {c}, {a}, {b})")
            }
            6 => format!("abs({a})"),
            // Pieces along an axis, as in a concatenation.
            7 if !scope.is_empty() => {
                let (axis, b) = (self.pick(scope), self.load(ty, scope));
                let other = self.pick(scope).extent;
                let end = self.pick(&["1", "3", "8", "16", &other, &other]).to_owned();
                format!("select({} < {end}, {a}, {b})", axis.name)
            }
            7 => a,
            8 => format!("tanh({a})"),
            9 => format!("exp(min({a}, {}))", literal(ty, "2")),
            10 => format!("relu({a})"),
            11 => format!("sigmoid({a})"),
            _ => format!(
                "({a} / ({}))",
                format_args!("abs({}) + {}", self.leaf(ty, scope), literal(ty, "1"))
            ),
        }
    }

    fn leaf(&mut self, ty: Type, scope: &[Axis]) -> String {
        let locals: Vec<String> = self
            .locals
            .clone()
            .into_iter()
            .filter(|local| local.ty == ty)
            .filter_map(|local| {
                let mut at = Vec::new();
                for extent in &local.extents {
                    let fits: Vec<&Axis> =
                        scope.iter().filter(|axis| axis.extent == *extent).collect();
                    if fits.is_empty() {
                        return None;
                    }
                    at.push(self.pick(&fits).name.clone());
                }
                Some(if at.is_empty() {
                    local.name
                } else {
                    format!("{}[{}]", local.name, at.join(", "))
                })
            })
            .collect();
        match self.below(8) {
            0 => literal(ty, if ty.is_float() { "0.75" } else { "3" }),
            1 if !scope.is_empty() => {
                let axis = self.pick(scope);
                let scaled = if ty.is_float() { " * 0.125" } else { "" };
                let cast = format!("{}({})", ty.word(), axis.name);
                if ty == Type::F64 {
                    cast
                } else {
                    format!("({cast}{scaled})")
                }
            }
            2..=4 if !locals.is_empty() => self.pick(&locals),
            _ => self.load(ty, scope),
        }
    }

    /// A load of a new buffer, over some of the axes in some order.
    fn load(&mut self, ty: Type, scope: &[Axis]) -> String {
        let mut axes: Vec<Axis> = scope.to_vec();
        self.shuffle(&mut axes);
        let keep = if self.one_in(3) {
            axes.len()
        } else {
            axes.len().min(1 + self.below(3) as usize)
        };
        axes.truncate(keep);
        let (mut indices, mut shape) = (Vec::new(), Vec::new());
        let mut guarded = false;
        for axis in axes {
            let index = self.index(&axis);
            indices.push(index.text);
            shape.push(index.size);
            guarded |= index.guarded;
        }
        let narrow = if ty.is_float() {
            ["f16", "bf16", "f32"]
        } else {
            ["i8", "u8", "i16"]
        };
        // Products of narrow integers have separate code.
        let stored = if self.one_in(if ty.is_float() { 6 } else { 2 }) {
            self.pick(&narrow)
        } else {
            ty.word()
        };
        let role = if self.one_in(4) { "const" } else { "in" };
        let buffer = self.buffer("x", role, stored, &shape);
        let mut load = format!("%{buffer}[{}]", indices.join(", "));
        if guarded {
            let otherwise = if ty.is_float() { "1.0" } else { "1" };
            let otherwise = match stored {
                "f32" | "i64" => otherwise.to_owned(),
                _ if ty.is_float() && stored == "f32" => otherwise.to_owned(),
                word => format!("{word}({otherwise})"),
            };
            load = format!("({load} if inside else {otherwise})");
        }
        if stored == ty.word() {
            load
        } else {
            format!("{}({load})", ty.word())
        }
    }
}

/// A number of a type in the text form.
fn literal(ty: Type, number: &str) -> String {
    let number = if ty.is_float() && !number.contains('.') {
        format!("{number}.0")
    } else {
        number.to_owned()
    };
    match ty {
        Type::F32 => number,
        other => format!("{}({number})", other.word()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_random_kernels_are_valid() {
        let mut refused = Vec::new();
        for seed in 0..300 {
            let text = random_kernel(seed);
            let kernel = kiln_kernel::text::read(&text)
                .unwrap_or_else(|errors| panic!("{}", errors.render(&text)));
            if let Err(errors) = kiln_kernel::verify(kernel) {
                refused.push(format!("{errors}\n{text}"));
            }
        }
        assert!(
            refused.len() < 60,
            "{} refused, such as\n{}",
            refused.len(),
            refused.join("\n")
        );
    }
}
