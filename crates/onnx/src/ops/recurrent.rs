//! `RNN`, `GRU` and `LSTM`: loops of core operations over time.
//!
//! The operand's product with the input weights is computed for all time steps at once before the loop. Two directions
//! are one loop, with an axis for the direction, and the operand reversed for the backward one. A sequence that is
//! shorter than the others keeps its final state after its end; in the backward direction, it keeps its initial state
//! until its own end is reached.

mod activation;
mod cell;

use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError, LoopBody};
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

/// The shared settings of all directions.
struct Layer {
    kind: CellKind,
    /// `[time, batch, features]`.
    x: ValueId,
    time: DimId,
    batch: DimId,
    hidden: DimId,
    dtype: DType,
    /// `i64[batch, 1]`: the length of each sequence.
    lengths: Option<ValueId>,
    batch_first: bool,
}

/// Directions that have the same activations, so that one loop runs them together.
struct Directions<'a> {
    /// The first of them, in the order of the weights.
    first: i64,
    /// Which of them run backwards.
    backwards: &'a [bool],
    activations: Vec<Activation>,
}

/// The results of a loop: all hidden states `[time, directions, batch, hidden]`, and the last states
/// `[directions, batch, hidden]`.
struct Run {
    all: ValueId,
    last: Vec<ValueId>,
}

fn recurrent(ctx: &mut NodeContext<'_>, kind: CellKind) -> Imported {
    let backwards: &[bool] = match ctx.attributes().get_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            let expected = "\"forward\", \"reverse\" or \"bidirectional\"";
            return Err(ctx.attribute_error("direction", expected, other));
        }
    };
    let layer = Layer::read(ctx, kind)?;
    let activations = Activation::read(ctx, kind.default_activations(), backwards.len())?;
    let of_direction: Vec<&[Activation]> = activations
        .chunks(kind.default_activations().len())
        .collect();
    let are_alike = of_direction.windows(2).all(|pair| pair[0] == pair[1]);
    let together = if are_alike { backwards.len() } else { 1 };
    let mut runs = Vec::with_capacity(backwards.len());
    for (first, (backwards, activations)) in backwards
        .chunks(together)
        .zip(of_direction.chunks(together))
        .enumerate()
    {
        let directions = Directions {
            first: first as i64,
            backwards,
            activations: activations[0].to_vec(),
        };
        runs.push(layer.run(ctx, &directions)?);
    }
    layer.outputs(ctx, &runs)
}

impl Directions<'_> {
    fn count(&self) -> i64 {
        self.backwards.len() as i64
    }
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

    /// The initial states of operand `index`, or zeros: `[directions, batch, hidden]`.
    fn initial_state(
        &self,
        ctx: &mut NodeContext<'_>,
        index: usize,
        directions: &Directions<'_>,
    ) -> Result<ValueId, Error> {
        match ctx.optional(index) {
            Some(state) => {
                let axis = usize::from(self.batch_first);
                let own = ctx.narrow(state, axis, directions.first, directions.count())?;
                match self.batch_first {
                    true => ctx.transpose(own, &[1, 0, 2]),
                    false => Ok(own),
                }
            }
            None => {
                let count = ctx.size(directions.count());
                ctx.filled(self.dtype, 0.0, &[count, self.batch, self.hidden])
            }
        }
    }

    /// The operand in the order in which each direction reads it: `[directions, time, batch, features]`.
    fn operand(
        &self,
        ctx: &mut NodeContext<'_>,
        directions: &Directions<'_>,
    ) -> Result<ValueId, Error> {
        let x = self.x;
        ctx.build(|builder| {
            let of_direction = directions
                .backwards
                .iter()
                .map(|&backwards| match backwards {
                    true => builder.reverse(x, 0),
                    false => Ok(x),
                });
            let of_direction = of_direction.collect::<Result<Vec<ValueId>, _>>()?;
            builder.stack(&of_direction, 0)
        })
    }

    fn run(&self, ctx: &mut NodeContext<'_>, directions: &Directions<'_>) -> Result<Run, Error> {
        let (first, count) = (directions.first, directions.count());
        let activations = directions.activations.clone();
        let cell = Cell::read(ctx, self.kind, (first, count), activations)?;
        let x = self.operand(ctx, directions)?;
        let projected = cell.project(ctx, x)?;
        let mut states = vec![self.initial_state(ctx, 5, directions)?];
        if self.kind == CellKind::Lstm {
            states.push(self.initial_state(ctx, 6, directions)?);
        }
        let mut captures = vec![projected];
        captures.extend(self.lengths);
        let n_own = captures.len();
        captures.extend(cell.operands());
        let (time, count) = (self.time, ctx.size(count));
        let (hidden_dims, dtype) = ([count, self.batch, self.hidden], self.dtype);
        let has_lengths = self.lengths.is_some();
        let results = ctx.build(|builder| {
            let trips = builder.dims_tensor(&[time])?;
            let trips = builder.reshape(trips, &[])?;
            let always = builder.scalar(DType::Bool, 1.0)?;
            let body = |builder: &mut GraphBuilder,
                        iteration: ValueId,
                        states: &[ValueId],
                        captured: &[ValueId]| {
                let (own, operands) = captured.split_at(n_own);
                let input = builder.gather(own[0], iteration, 1)?;
                let mut next = cell.step(builder, input, states, operands)?;
                let mut visible = next[0];
                if has_lengths {
                    let now = times(builder, iteration, time, directions.backwards)?;
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
                Ok::<_, InferError>(LoopBody {
                    condition: builder.scalar(DType::Bool, 1.0)?,
                    carried: next,
                    stacked: vec![visible],
                })
            };
            builder.loop_(trips, always, &states, &captures, body)
        })?;
        let (last, stacked) = results.split_at(states.len());
        let all = ctx.build(|builder| in_time(builder, stacked[0], directions.backwards))?;
        Ok(Run {
            all,
            last: last.to_vec(),
        })
    }

    /// `Y: [time, directions, batch, hidden]` and the last states `[directions, batch, hidden]`, batch
    /// first if the layout says so.
    fn outputs(&self, ctx: &mut NodeContext<'_>, runs: &[Run]) -> Imported {
        let all: Vec<ValueId> = runs.iter().map(|run| run.all).collect();
        let mut y = ctx.build(|builder| builder.concat(&all, 1))?;
        if self.batch_first {
            y = ctx.transpose(y, &[2, 0, 1, 3])?;
        }
        let mut outputs: SmallVec<[ValueId; 2]> = SmallVec::new();
        outputs.push(y);
        let n_states = runs.first().map_or(0, |run| run.last.len());
        for state in 0..n_states {
            let last: Vec<ValueId> = runs.iter().map(|run| run.last[state]).collect();
            let mut last = ctx.build(|builder| builder.concat(&last, 0))?;
            if self.batch_first {
                last = ctx.transpose(last, &[1, 0, 2])?;
            }
            outputs.push(last);
        }
        Ok(outputs.into_iter().map(Item::Tensor).collect())
    }
}

/// The current time of each direction: `i64[directions, 1, 1]`.
fn times(
    builder: &mut GraphBuilder,
    iteration: ValueId,
    time: DimId,
    backwards: &[bool],
) -> Result<ValueId, InferError> {
    let of_direction = backwards.iter().map(|&backwards| {
        let now = match backwards {
            true => {
                let count = builder.dims_tensor(&[time])?;
                let count = builder.reshape(count, &[])?;
                let one = builder.scalar(DType::I64, 1.0)?;
                let last = builder.sub(count, one)?;
                builder.sub(last, iteration)?
            }
            false => iteration,
        };
        builder.unsqueeze(now, &[0, 1, 2])
    });
    let of_direction = of_direction.collect::<Result<Vec<ValueId>, InferError>>()?;
    builder.concat(&of_direction, 0)
}

/// The results of each direction in its own order, `[time, directions, ..]`, in the order of time.
fn in_time(
    builder: &mut GraphBuilder,
    all: ValueId,
    backwards: &[bool],
) -> Result<ValueId, InferError> {
    if let &[backwards] = backwards {
        return match backwards {
            true => builder.reverse(all, 0),
            false => Ok(all),
        };
    }
    let one = builder.size(1);
    let of_direction = backwards.iter().enumerate().map(|(direction, &backwards)| {
        let start = builder.size(direction as i64);
        let own = builder.slice_axis(all, 1, start, one)?;
        match backwards {
            true => builder.reverse(own, 0),
            false => Ok(own),
        }
    });
    let of_direction = of_direction.collect::<Result<Vec<ValueId>, InferError>>()?;
    builder.concat(&of_direction, 1)
}
