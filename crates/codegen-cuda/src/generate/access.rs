//! Loads from and stores to buffers: guards, checked indices, addresses, and accesses of several lanes at once.

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, BufferId, Combine, IndexClass, Item, Load, Node, NodeId, Store};

use super::c_type::c_type;
use super::lowering::Lowering;
use super::scope::Scope;

impl Lowering<'_> {
    /// Computes a load whose indices are known.
    pub(super) fn load(&self, scope: &mut Scope, id: NodeId, load: &Load, lane: u32) -> String {
        if self.varies(scope, id) && self.is_vector(scope, id, load) {
            return self.load_vector(scope, id, load, lane);
        }
        let ty = c_type(self.kernel.dtype(id));
        let names: Vec<String> = load
            .indices
            .iter()
            .map(|&index| self.known(scope, index, lane))
            .collect();
        let mut conditions = Vec::new();
        if let Some(guard) = &load.guard {
            conditions.extend(guard.when.map(|when| self.known(scope, when, lane)));
            if guard.inside {
                for (axis, name) in names.iter().enumerate() {
                    if self.class(id, axis) != IndexClass::Proved {
                        conditions.push(self.is_inside(load.buffer, axis, name));
                    }
                }
            }
        }
        let mut condition = match conditions.is_empty() {
            true => None,
            false => Some(self.declare("bool", conditions.join(" && "))),
        };
        for (axis, name) in names.iter().enumerate() {
            if self.class(id, axis) == IndexClass::Checked {
                condition = Some(self.checked(load.buffer, axis, name, condition));
            }
        }
        let address = self.address(load.buffer, &names);
        let otherwise = match &load.guard {
            Some(guard) => self.known(scope, guard.otherwise, lane),
            None => format!("{ty}()"),
        };
        match condition {
            Some(condition) => {
                self.declare(ty, format_args!("{condition} ? {address} : {otherwise}"))
            }
            None => self.declare(ty, address),
        }
    }

    /// Reports an index out of bounds, and returns the condition for the access.
    fn checked(
        &self,
        buffer: BufferId,
        axis: usize,
        name: &str,
        condition: Option<String>,
    ) -> String {
        let inside = self.declare("bool", self.is_inside(buffer, axis, name));
        let site = format!("index {axis} of %{}", self.kernel.buffer(buffer).name);
        match condition {
            Some(condition) => {
                self.report_index(&format!("{condition} && !{inside}"), site);
                self.declare("bool", format_args!("{condition} && {inside}"))
            }
            None => {
                self.report_index(&format!("!{inside}"), site);
                inside
            }
        }
    }

    pub(super) fn class(&self, load: NodeId, axis: usize) -> IndexClass {
        let classes = &self.kernel.info().loads[load];
        classes.get(axis).copied().unwrap_or_default()
    }

    fn is_inside(&self, buffer: BufferId, axis: usize, name: &str) -> String {
        let size = match self.kernel.buffer(buffer).shape.get(axis) {
            Some(&size) => self.size(size),
            None => unreachable!("the verifier counted the indices"),
        };
        format!("((k_u64){name} < (k_u64){size})")
    }

    /// An element of a buffer in C.
    pub(super) fn address(&self, buffer: BufferId, names: &[String]) -> String {
        let position = buffer.as_u32();
        format!("b{position}[{}]", self.offset(buffer, names))
    }

    pub(super) fn offset(&self, buffer: BufferId, names: &[String]) -> String {
        let mut terms = Vec::new();
        for (name, stride) in names.iter().zip(self.strides(buffer)) {
            match stride.as_constant() {
                Some(0) => {}
                Some(1) => terms.push(format!("(k_index){name}")),
                _ => {
                    let stride = self.quantity(&stride);
                    terms.push(format!("(k_index){name} * (k_index){stride}"));
                }
            }
        }
        match terms.is_empty() {
            true => "0".to_owned(),
            false => terms.join(" + "),
        }
    }

    /// Whether a load in lanes reads consecutive elements, and has no conditions.
    fn is_vector(&self, scope: &Scope, id: NodeId, load: &Load) -> bool {
        let unconditional = load.guard.is_none()
            && (0..load.indices.len()).all(|axis| self.class(id, axis) == IndexClass::Proved);
        unconditional && self.is_consecutive(scope, load.buffer, &load.indices)
    }

    /// Whether the elements at some indices are consecutive along the lanes.
    pub(super) fn is_consecutive(&self, scope: &Scope, buffer: BufferId, at: &[NodeId]) -> bool {
        let Some(lanes) = scope.lanes else {
            return false;
        };
        let strides = self.strides(buffer);
        let one = Quantity::constant(1);
        let mut steps = 0;
        for (&index, stride) in at.iter().zip(&strides) {
            match self.dependence.step_along(self.kernel, index, lanes.axis) {
                Some(0) => {}
                Some(1) if *stride == one => steps += 1,
                _ => return false,
            }
        }
        steps == 1
    }

    /// One access for all lanes; each lane's value is recorded.
    fn load_vector(&self, scope: &mut Scope, id: NodeId, load: &Load, lane: u32) -> String {
        let count = scope.lanes.map_or(1, |lanes| lanes.count);
        let ty = c_type(self.kernel.dtype(id));
        // The address is that of the first lane, whose indices may not be known in this one.
        let first: Vec<String> = load
            .indices
            .iter()
            .map(|&index| self.value(scope, index, 0))
            .collect();
        let vector = self.fresh("x");
        let offset = self.offset(load.buffer, &first);
        let base = format!("b{}", load.buffer.as_u32());
        let function = match self.is_aligned(scope, &load.indices) {
            true => "k_load_aligned",
            false => "k_load_vector",
        };
        self.line(format_args!(
            "const k_vector<{ty}, {count}> {vector} = {function}<{ty}, {count}>({base} + ({offset}));"
        ));
        for lane in 0..count {
            scope.learn(id, lane, format!("{vector}.at[{lane}]"));
        }
        format!("{vector}.at[{lane}]")
    }

    /// Whether an access of consecutive elements is aligned if the condition of [`alignment`](Self::alignment) holds.
    fn is_aligned(&self, scope: &Scope, indices: &[NodeId]) -> bool {
        scope
            .lanes
            .is_some_and(|lanes| lanes.is_aligned && self.is_at_axis(indices, lanes.axis))
    }

    /// Whether the last index is an axis itself, so that it is a multiple of the lanes at the first of them.
    fn is_at_axis(&self, indices: &[NodeId], axis: AxisId) -> bool {
        let last = indices.last().map(|&index| self.kernel.node(index));
        matches!(last, Some(Node::Axis(found)) if *found == axis)
    }

    /// Declares whether every access at an axis is aligned for this many lanes, the first of which is at a multiple of
    /// the lanes: this checks the buffers, and their strides along other axes. It is computed once and holds in every
    /// iteration, so that loads of an iteration need not wait for each other.
    pub(super) fn alignment(&self, axis: AxisId, count: u32) -> String {
        let mut tests: Vec<String> = Vec::new();
        let loads = self.kernel.nodes().values();
        let loads = loads.filter_map(|data| match &data.node {
            Node::Load(load) => Some((load.buffer, &load.indices)),
            _ => None,
        });
        let parts = self.kernel.items().iter().flat_map(Item::parts);
        let stores = parts.filter_map(|item| match item {
            Item::Store(store) => Some((store.buffer, &store.indices)),
            Item::Stage(_) | Item::Carry(_) => None,
        });
        for (buffer, indices) in loads.chain(stores) {
            let strides = self.strides(buffer);
            let is_dense = strides
                .last()
                .is_some_and(|last| last.as_constant() == Some(1));
            if !is_dense || !self.is_at_axis(indices, axis) {
                continue;
            }
            let width = self.kernel.buffer(buffer).dtype.size_in_bytes() as u32;
            let mask = (width * count).min(16) - 1;
            let mut test = |value: String| {
                let text = format!("({value} & {mask})");
                if !tests.contains(&text) {
                    tests.push(text);
                }
            };
            test(format!("(k_u64)b{}", buffer.as_u32()));
            for stride in strides.iter().rev().skip(1) {
                test(format!("(k_u64)({} * {width})", self.quantity(stride)));
            }
        }
        match tests.is_empty() {
            true => "true".to_owned(),
            false => self.declare("bool", format_args!("({}) == 0", tests.join(" | "))),
        }
    }

    /// A store at the current point, in all lanes. `position` is that of the store among all stores.
    pub(super) fn store(&self, scope: &mut Scope, store: &Store, position: usize) {
        let count = scope.lanes.map_or(1, |lanes| lanes.count);
        let varies = count > 1
            && (self.varies(scope, store.value)
                || store.indices.iter().any(|&index| self.varies(scope, index)));
        let n_stores = if varies { count } else { 1 };
        let classes = self.kernel.info().stores.get(position);
        let is_proved = classes.is_some_and(|info| {
            info.indices
                .iter()
                .all(|class| *class == IndexClass::Proved)
        });
        let values: Vec<String> = (0..n_stores)
            .map(|lane| self.value(scope, store.value, lane))
            .collect();
        if varies
            && is_proved
            && store.combine.is_none()
            && self.is_consecutive(scope, store.buffer, &store.indices)
        {
            return self.store_vector(scope, store, &values);
        }
        for (lane, value) in (0..n_stores).zip(&values) {
            let names: Vec<String> = store
                .indices
                .iter()
                .map(|&index| self.value(scope, index, lane))
                .collect();
            let mut condition = None;
            for (axis, name) in names.iter().enumerate() {
                let class = classes.and_then(|info| info.indices.get(axis).copied());
                if class.unwrap_or_default() != IndexClass::Proved {
                    condition = Some(self.checked(store.buffer, axis, name, condition));
                }
            }
            let element = self.address(store.buffer, &names);
            let stored = match store.combine {
                None | Some(Combine::Set) => value.clone(),
                Some(combine) => format!("k_{}({element}, {value})", combine.as_word()),
            };
            match condition {
                Some(condition) => {
                    self.line(format_args!("if ({condition}) {element} = {stored};"));
                }
                None => self.line(format_args!("{element} = {stored};")),
            }
        }
    }

    fn store_vector(&self, scope: &mut Scope, store: &Store, values: &[String]) {
        let count = values.len();
        let ty = c_type(self.kernel.buffer(store.buffer).dtype);
        let first: Vec<String> = store
            .indices
            .iter()
            .map(|&index| self.value(scope, index, 0))
            .collect();
        let vector = self.fresh("x");
        self.line(format_args!(
            "const k_vector<{ty}, {count}> {vector} = {{{{{}}}}};",
            values.join(", ")
        ));
        let offset = self.offset(store.buffer, &first);
        let base = format!("b{}", store.buffer.as_u32());
        self.line(format_args!(
            "k_store_vector({base} + ({offset}), {vector});"
        ));
    }
}
