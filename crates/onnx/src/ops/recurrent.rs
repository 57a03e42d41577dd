//! `RNN`, `GRU` and `LSTM`: loops over time of core operations.
//!
//! The operand's product with the input weights is taken for all times at once before the loop. A
//! sequence shorter than the others keeps its state from its end on; backwards the loop runs from
//! the last time to the first, so that it keeps its initial state until its own end comes.

mod activation;
mod cell;

use kiln_ir::ValueId;
use kiln_shape_inference::LoopBody;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

use self::activation::Activation;
use self::cell::{Cell, CellKind};
use super::support::{Imported, operator};
use crate::import::{Item, Operator};
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("GRU", &[7], |ctx| recurrent(ctx, CellKind::Gru)),
    operator("LSTM", &[7], |ctx| recurrent(ctx, CellKind::Lstm)),
    operator("RNN", &[7], |ctx| recurrent(ctx, CellKind::Rnn)),
];

/// What all directions share.
struct Layer {
    kind: CellKind,
    /// `[time, batch, features]`.
    x: ValueId,
    time: DimId,
    batch: DimId,
    hidden: DimId,
    dtype: DType,
    /// `i64[batch, 1]`: how long each sequence is.
    lengths: Option<ValueId>,
    batch_first: bool,
}

/// What one direction gives: all hidden states `[time, batch, hidden]`, and the last states.
struct Run {
    all: ValueId,
    last: Vec<ValueId>,
}

fn recurrent(ctx: &mut NodeContext<'_>, kind: CellKind) -> Imported {
    let directions: &[bool] = match ctx.attributes().get_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            let expected = "\"forward\", \"reverse\" or \"bidirectional\"";
            return Err(ctx.attribute_error("direction", expected, other));
        }
    };
    let layer = Layer::read(ctx, kind)?;
    let activations = Activation::read(ctx, kind.default_activations(), directions.len())?;
    let per_direction = activations.chunks(kind.default_activations().len());
    let mut runs = Vec::with_capacity(directions.len());
    for ((direction, &backwards), activations) in directions.iter().enumerate().zip(per_direction) {
        runs.push(layer.run(ctx, direction as i64, backwards, activations.to_vec())?);
    }
    layer.outputs(ctx, &runs)
}

impl Layer {
    fn read(ctx: &mut NodeContext<'_>, kind: CellKind) -> Result<Self, Error> {
        let batch_first = ctx.attributes().get_or("layout", 0_i64)? == 1;
        let mut x = ctx.input(0)?;
        if ctx.rank(x)? != 3 {
            let found = ctx.builder().describe(x);
            return Err(ctx.operand_error(0, "a tensor of rank 3", found));
        }
        if batch_first {
            x = ctx.transpose(x, &[1, 0, 2])?;
        }
        let dims = ctx.shape(x)?;
        let recurrence = ctx.input(2)?;
        let &[_, _, hidden] = ctx.shape(recurrence)?.as_slice() else {
            let found = ctx.builder().describe(recurrence);
            return Err(ctx.operand_error(2, "weights of rank 3", found));
        };
        let lengths = match ctx.optional(4) {
            Some(lengths) => {
                let lengths = ctx.cast(lengths, DType::I64)?;
                Some(ctx.build(|builder| builder.unsqueeze(lengths, &[1]))?)
            }
            None => None,
        };
        Ok(Self {
            kind,
            x,
            time: dims[0],
            batch: dims[1],
            hidden,
            dtype: ctx.dtype(x)?,
            lengths,
            batch_first,
        })
    }

    /// The initial state that operand `index` gives, or zeros: `[batch, hidden]`.
    fn initial_state(
        &self,
        ctx: &mut NodeContext<'_>,
        index: usize,
        direction: i64,
    ) -> Result<ValueId, Error> {
        match ctx.optional(index) {
            Some(state) => ctx.entry(state, usize::from(self.batch_first), direction),
            None => ctx.filled(self.dtype, 0.0, &[self.batch, self.hidden]),
        }
    }

    fn run(
        &self,
        ctx: &mut NodeContext<'_>,
        direction: i64,
        backwards: bool,
        activations: Vec<Activation>,
    ) -> Result<Run, Error> {
        let cell = Cell::read(ctx, self.kind, direction, activations)?;
        let projected = cell.project(ctx, self.x)?;
        let mut states = vec![self.initial_state(ctx, 5, direction)?];
        if self.kind == CellKind::Lstm {
            states.push(self.initial_state(ctx, 6, direction)?);
        }
        let mut captures = vec![projected];
        captures.extend(self.lengths);
        let n_own = captures.len();
        captures.extend(cell.operands());
        let time = self.time;
        let (hidden_dims, dtype) = ([self.batch, self.hidden], self.dtype);
        let has_lengths = self.lengths.is_some();
        let results = ctx.build(|builder| {
            let trips = builder.dims_tensor(&[time])?;
            let trips = builder.reshape(trips, &[])?;
            let always = builder.scalar(DType::Bool, 1.0)?;
            let body = |builder: &mut kiln_shape_inference::GraphBuilder,
                        iteration: ValueId,
                        states: &[ValueId],
                        captured: &[ValueId]| {
                let (own, operands) = captured.split_at(n_own);
                let now = if backwards {
                    let last = builder.dims_tensor(&[time])?;
                    let last = builder.reshape(last, &[])?;
                    let one = builder.scalar(DType::I64, 1.0)?;
                    let last = builder.sub(last, one)?;
                    builder.sub(last, iteration)?
                } else {
                    iteration
                };
                let input = builder.gather(own[0], now, 0)?;
                let mut next = cell.step(builder, input, states, operands)?;
                let mut visible = next[0];
                if has_lengths {
                    let runs = builder.less(now, own[1])?;
                    for (next, &state) in next.iter_mut().zip(states) {
                        *next = builder.select(runs, *next, state)?;
                    }
                    let zero = builder.scalar(dtype, 0.0)?;
                    visible = builder.select(runs, next[0], zero)?;
                }
                // The loop keeps the sizes of its states; products may have broadcast them.
                for next in &mut next {
                    *next = builder.broadcast_to(*next, &hidden_dims)?;
                }
                visible = builder.broadcast_to(visible, &hidden_dims)?;
                Ok::<_, kiln_shape_inference::InferError>(LoopBody {
                    condition: builder.scalar(DType::Bool, 1.0)?,
                    carried: next,
                    stacked: vec![visible],
                })
            };
            builder.loop_(trips, always, &states, &captures, body)
        })?;
        let (last, stacked) = results.split_at(states.len());
        let mut all = stacked[0];
        if backwards {
            all = ctx.build(|builder| builder.reverse(all, 0))?;
        }
        Ok(Run {
            all,
            last: last.to_vec(),
        })
    }

    /// `Y: [time, directions, batch, hidden]` and the last states `[directions, batch, hidden]`, batch
    /// first if the layout says so.
    fn outputs(&self, ctx: &mut NodeContext<'_>, runs: &[Run]) -> Imported {
        let all: Vec<ValueId> = runs.iter().map(|run| run.all).collect();
        let mut y = ctx.build(|builder| builder.stack(&all, 1))?;
        if self.batch_first {
            y = ctx.transpose(y, &[2, 0, 1, 3])?;
        }
        let mut outputs: SmallVec<[ValueId; 2]> = SmallVec::new();
        outputs.push(y);
        let n_states = runs.first().map_or(0, |run| run.last.len());
        for state in 0..n_states {
            let last: Vec<ValueId> = runs.iter().map(|run| run.last[state]).collect();
            let axis = usize::from(self.batch_first);
            outputs.push(ctx.build(|builder| builder.stack(&last, axis))?);
        }
        Ok(outputs.into_iter().map(Item::Tensor).collect())
    }
}
