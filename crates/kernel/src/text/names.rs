//! Names in the text: the kernel's own where they are valid, free and distinct, otherwise similar ones.

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;
use kiln_symbolic_shape::text::is_identifier;

use super::words::KEYWORDS;
use crate::form::{AxisId, BufferId, Item, Kernel, StageId, StageOperation};

/// The names of one kernel's items.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) kernel: String,
    pub(super) buffers: SecondaryMap<BufferId, String>,
    pub(super) axes: SecondaryMap<AxisId, String>,
    pub(super) stages: SecondaryMap<StageId, String>,
    /// Every reserved name.
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn of(kernel: &Kernel) -> Self {
        let mut names = Self {
            kernel: clean(kernel.name(), "kernel"),
            buffers: SecondaryMap::new(),
            axes: SecondaryMap::new(),
            stages: SecondaryMap::new(),
            taken: KEYWORDS.iter().map(|&word| word.to_owned()).collect(),
        };
        let mut buffers = BTreeSet::new();
        for (id, buffer) in kernel.buffers() {
            names.buffers[id] = free(&buffer_name(&buffer.name), &[&buffers]);
            buffers.insert(names.buffers[id].clone());
        }
        let dims = kernel.dims();
        names.taken.extend(
            dims.symbols()
                .map(|symbol| dims.symbol_name(symbol).to_owned()),
        );
        names.name_stages(kernel);
        names.name_axes(kernel);
        names
    }

    /// The name of the next temporary, `t0` being number 0; `next` continues after it.
    pub(super) fn temporary(&self, next: &mut usize) -> String {
        loop {
            let name = format!("t{next}");
            *next += 1;
            if !self.taken.contains(&name) {
                return name;
            }
        }
    }

    fn name_stages(&mut self, kernel: &Kernel) {
        for item in kernel.items() {
            for item in item.parts() {
                if let Item::Stage(id) = item {
                    let name = free(&clean(&kernel.stage(*id).name, "stage"), &[&self.taken]);
                    self.taken.insert(name.clone());
                    self.stages[*id] = name;
                }
            }
        }
    }

    /// Axes that are never in scope together may share a name.
    fn name_axes(&mut self, kernel: &Kernel) {
        let mut scope = BTreeSet::new();
        self.bind(kernel, kernel.outer(), &mut scope);
        for item in kernel.items() {
            let mut scope = scope.clone();
            match item {
                Item::Carry(carry) => {
                    self.bind(kernel, &[carry.axis], &mut scope);
                    for item in &carry.items {
                        self.name_item_axes(kernel, item, scope.clone());
                    }
                }
                other => self.name_item_axes(kernel, other, scope),
            }
        }
        let used: Vec<String> = self
            .axes
            .values()
            .filter(|name| !name.is_empty())
            .cloned()
            .collect();
        self.taken.extend(used);
    }

    fn name_item_axes(&mut self, kernel: &Kernel, item: &Item, mut scope: BTreeSet<String>) {
        match item {
            Item::Stage(id) => {
                let stage = kernel.stage(*id);
                self.bind(kernel, &stage.axes, &mut scope);
                if let StageOperation::Reduce { axes, .. } = &stage.operation {
                    self.bind(kernel, axes, &mut scope);
                }
            }
            Item::Store(store) => self.bind(kernel, &store.axes, &mut scope),
            Item::Carry(_) => {}
        }
    }

    fn bind(&mut self, kernel: &Kernel, axes: &[AxisId], scope: &mut BTreeSet<String>) {
        for &axis in axes {
            let name = free(
                &clean(&kernel.axis(axis).name, "axis"),
                &[&self.taken, scope],
            );
            scope.insert(name.clone());
            self.axes[axis] = name;
        }
    }
}

/// `name`, or the first of `name_1`, `name_2`, … that is not in any of the sets.
fn free(name: &str, taken: &[&BTreeSet<String>]) -> String {
    let is_free = |name: &str| taken.iter().all(|set| !set.contains(name));
    if is_free(name) {
        return name.to_owned();
    }
    let mut count = 1_usize;
    loop {
        let candidate = format!("{name}_{count}");
        if is_free(&candidate) {
            return candidate;
        }
        count += 1;
    }
}

/// An identifier like `name`; `otherwise` for one without a usable character.
fn clean(name: &str, otherwise: &str) -> String {
    if is_identifier(name) {
        return name.to_owned();
    }
    let mut text: String = name
        .chars()
        .map(|c| if is_part(c) { c } else { '_' })
        .collect();
    if text.chars().all(|c| c == '_') {
        return otherwise.to_owned();
    }
    if !is_identifier(&text) {
        text.insert(0, '_');
    }
    text
}

/// A buffer may be called by a number too.
fn buffer_name(name: &str) -> String {
    let usable = name.chars().all(is_part) && name.chars().next().is_some_and(|first| first != '.');
    if usable {
        name.to_owned()
    } else {
        clean(name, "buffer")
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}
