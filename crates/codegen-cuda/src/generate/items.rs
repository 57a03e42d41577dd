//! Computes the items of a kernel at one outer point in one thread: loops run serially, lanes side by side.

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, Carry, Item, NodeId, StageId, Store};

use super::c_type::c_type;
use super::lowering::Lowering;
use super::scope::{Array, Place, Scope, When};

/// Where a thread keeps the arrays of stages.
#[derive(Clone, Debug)]
pub(super) struct ArrayMemory {
    /// The thread's number among those whose arrays are interleaved, in C.
    pub(super) thread: String,
    /// The number of these threads.
    pub(super) threads: Quantity,
}

/// Writes items for one thread.
pub(super) struct SerialItems<'l, 'k> {
    pub(super) lowering: &'l Lowering<'k>,
    /// `None` if no stage has an array.
    pub(super) arrays: Option<ArrayMemory>,
    /// Bytes of shared scratch that arrays take so far.
    pub(super) scratch: Quantity,
    /// The number of stores so far, in the order of the items.
    pub(super) n_stores: usize,
}

impl<'l, 'k> SerialItems<'l, 'k> {
    pub(super) fn new(lowering: &'l Lowering<'k>, arrays: Option<ArrayMemory>) -> Self {
        Self {
            lowering,
            arrays,
            scratch: Quantity::constant(0),
            n_stores: 0,
        }
    }

    /// Writes items in order.
    pub(super) fn items(&mut self, scope: &mut Scope, items: &[Item]) {
        for item in items {
            match item {
                Item::Stage(stage) => self.stage(scope, *stage),
                Item::Store(store) => self.store(scope, store),
                Item::Carry(carry) => self.carry(scope, carry),
            }
        }
    }

    /// Loops over axes, outermost first, around `body`.
    fn nest(
        &mut self,
        scope: &Scope,
        axes: &[AxisId],
        body: &mut dyn FnMut(&mut Self, &mut Scope),
    ) {
        let mut inner = scope.clone();
        for &axis in axes {
            let extent = self.lowering.extent(&mut inner, axis);
            let index = self.lowering.fresh("a");
            self.lowering.open(format_args!(
                "for (k_i64 {index} = 0; {index} < {extent}; ++{index})"
            ));
            inner.set_axis(axis, index);
        }
        body(self, &mut inner);
        for _ in axes {
            self.lowering.close();
        }
    }

    fn stage(&mut self, scope: &mut Scope, id: StageId) {
        let place = self.computed(scope, id);
        scope.place(id, When::Current, place);
    }

    /// Computes a stage at the current point.
    fn computed(&mut self, scope: &mut Scope, id: StageId) -> Place {
        let kernel = self.lowering.kernel;
        let stage = kernel.stage(id);
        if stage.axes.is_empty() {
            return Place::Values(self.values(scope, id));
        }
        let array = self.array(scope, id);
        self.fill(scope, id, &array, &mut |this, scope| this.values(scope, id));
        Place::Array(array)
    }

    /// Writes an array, element by element.
    fn fill(
        &mut self,
        scope: &Scope,
        id: StageId,
        array: &Array,
        value: &mut dyn FnMut(&mut Self, &mut Scope) -> Vec<String>,
    ) {
        let axes = self.lowering.kernel.stage(id).axes.clone();
        self.nest(scope, &axes, &mut |this, scope| {
            let values = value(this, scope);
            let indices: Vec<String> = axes
                .iter()
                .map(|&axis| scope.axis(axis).to_owned())
                .collect();
            if let Some(value) = values.first() {
                let offset = array.offset(&indices);
                this.lowering
                    .line(format_args!("{}[{offset}] = {value};", array.base));
            }
        });
    }

    /// The values of a stage at one point of its own axes, per lane.
    fn values(&mut self, scope: &mut Scope, id: StageId) -> Vec<String> {
        let lowering = self.lowering;
        let value = lowering.kernel.stage(id).value;
        let varies = scope
            .lanes
            .is_some_and(|lanes| lowering.dependence.stage_depends(id, lanes.axis));
        let count = match scope.lanes {
            Some(lanes) if varies => lanes.count,
            _ => 1,
        };
        let Some(reduce) = lowering.reduction(id) else {
            return (0..count)
                .map(|lane| lowering.value(scope, value, lane))
                .collect();
        };
        let accumulators: Vec<_> = (0..count).map(|_| lowering.begin(&reduce)).collect();
        self.nest(scope, reduce.axes, &mut |this, scope| {
            for (lane, acc) in (0..count).zip(&accumulators) {
                this.lowering.join(scope, &reduce, acc, lane);
            }
        });
        accumulators
            .iter()
            .map(|acc| lowering.result(acc))
            .collect()
    }

    fn store(&mut self, scope: &mut Scope, store: &Store) {
        let position = self.n_stores;
        self.n_stores += 1;
        self.nest(scope, &store.axes, &mut |this, scope| {
            this.lowering.store(scope, store, position);
        });
        // Values read from a buffer may have just been overwritten.
        if store.combine.is_some() {
            scope.forget();
        }
    }

    fn carry(&mut self, scope: &mut Scope, carry: &Carry) {
        let lowering = self.lowering;
        let stages: Vec<(StageId, NodeId)> = carry
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Stage(id) => Some((*id, lowering.kernel.stage(*id).init?)),
                _ => None,
            })
            .collect();
        let mut carried = Vec::new();
        for &(id, init) in &stages {
            let place = self.initial(scope, id, init);
            carried.push((id, place));
        }
        let steps = lowering.extent(scope, carry.axis);
        let counter = lowering.fresh("a");
        lowering.open(format_args!(
            "for (k_i64 {counter} = 0; {counter} < {steps}; ++{counter})"
        ));
        let index = match carry.reverse {
            true => lowering.declare("k_i64", format_args!("{steps} - 1 - {counter}")),
            false => counter,
        };
        let mut inner = scope.with_axis(carry.axis, index);
        inner.forget();
        for (id, place) in &carried {
            inner.place(*id, When::Previous, place.clone());
        }
        self.items(&mut inner, &carry.items);
        for (id, previous) in &carried {
            let current = inner.place_of(*id, When::Current).clone();
            self.advance(&inner, *id, previous, &current);
        }
        lowering.close();
        for (id, place) in carried {
            scope.place(id, When::Last, place);
        }
        scope.forget();
    }

    /// Variables, or an array, with the initial values of a carried stage.
    fn initial(&mut self, scope: &mut Scope, id: StageId, init: NodeId) -> Place {
        let lowering = self.lowering;
        if !lowering.kernel.stage(id).axes.is_empty() {
            let array = self.array(scope, id);
            self.fill(scope, id, &array, &mut |this, scope| {
                vec![this.lowering.value(scope, init, 0)]
            });
            return Place::Array(array);
        }
        let ty = c_type(lowering.kernel.stage_dtype(id));
        // A carried value varies along every outer axis.
        let count = scope.lanes.map_or(1, |lanes| lanes.count);
        let names = (0..count).map(|lane| {
            let value = lowering.value(scope, init, lane);
            let name = lowering.fresh("c");
            lowering.line(format_args!("{ty} {name} = {value};"));
            name
        });
        Place::Values(names.collect())
    }

    /// Makes the value of this step that of the previous one, for the next step.
    fn advance(&mut self, scope: &Scope, id: StageId, previous: &Place, current: &Place) {
        match (previous, current) {
            (Place::Values(previous), Place::Values(current)) => {
                for (lane, name) in previous.iter().enumerate() {
                    if let Some(value) = current.get(lane).or_else(|| current.first()) {
                        self.lowering.line(format_args!("{name} = {value};"));
                    }
                }
            }
            (Place::Array(previous), Place::Array(current)) => {
                let axes = self.lowering.kernel.stage(id).axes.clone();
                let mut copy = |this: &mut Self, scope: &mut Scope| {
                    let indices: Vec<String> = axes
                        .iter()
                        .map(|&axis| scope.axis(axis).to_owned())
                        .collect();
                    let (to, from) = (previous.offset(&indices), current.offset(&indices));
                    this.lowering.line(format_args!(
                        "{}[{to}] = {}[{from}];",
                        previous.base, current.base
                    ));
                };
                self.nest(scope, &axes, &mut copy);
            }
            _ => unreachable!("both values of a stage have its axes"),
        }
    }

    /// Memory for the array of a stage, in which the elements of the threads are interleaved.
    fn array(&mut self, scope: &mut Scope, id: StageId) -> Array {
        let lowering = self.lowering;
        let stage = lowering.kernel.stage(id);
        let Some(memory) = self.arrays.clone() else {
            unreachable!("arrays have memory where there are any")
        };
        let dtype = lowering.kernel.stage_dtype(id);
        let ty = c_type(dtype);
        let sizes = stage.axes.iter().map(|&axis| {
            let bound = lowering.kernel.axis(axis).extent.bound();
            Quantity::of(lowering.kernel.dims(), bound)
        });
        let elements = sizes.fold(Quantity::constant(1), |product, size| product * size);
        let start = lowering.quantity(&self.scratch);
        let width = Quantity::constant(dtype.size_in_bytes() as i64);
        let bytes = elements * memory.threads.clone() * width;
        self.scratch = self.scratch.clone() + bytes.round_up(Quantity::constant(16));
        let base = lowering.fresh("m");
        lowering.line(format_args!(
            "{ty}* const {base} = ({ty}*)(K_SCRATCH + {start}) + {};",
            memory.thread
        ));
        let extents = stage.axes.iter().skip(1);
        Array {
            base,
            step: Some(lowering.quantity(&memory.threads)),
            extents: extents
                .map(|&axis| lowering.extent(&mut scope.clone(), axis))
                .collect(),
        }
    }
}

/// Whether a stage of a kernel has an array.
pub(super) fn has_arrays(kernel: &kiln_kernel::Kernel) -> bool {
    kernel.stages().values().any(|stage| !stage.axes.is_empty())
}
