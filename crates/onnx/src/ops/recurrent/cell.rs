//! One step of a recurrent operator, in one or two directions.
//!
//! Weights are `[directions, gates * hidden, ..]`, gates one after another: RNN has one, GRU `z r h`, LSTM `i o f c`.
//! Formulas are from the operators' specifications.

use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError, InferErrorKind};
use kiln_symbolic_shape::DimError;

use super::activation::Activation;
use crate::{Error, NodeContext};

/// The operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    Rnn,
    Gru,
    Lstm,
}

impl CellKind {
    fn gates(self) -> i64 {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    pub(super) fn default_activations(self) -> &'static [&'static str] {
        match self {
            Self::Rnn => &["Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// Weights and settings of some directions.
pub(super) struct Cell {
    kind: CellKind,
    activations: Vec<Activation>,
    clip: Option<f64>,
    /// GRU: the reset gate applies after the product with the recurrent weights.
    linear_before_reset: bool,
    /// LSTM: the forget gate is one minus the input gate.
    input_forget: bool,
    /// `[directions, features, gates * hidden]`.
    input_weights: ValueId,
    /// Added before the loop: `[directions, 1, gates * hidden]`.
    input_bias: Option<ValueId>,
    recurrent_weights: ValueId,
    /// GRU with `linear_before_reset`: the recurrent bias.
    recurrent_bias: Option<ValueId>,
    /// LSTM: `[directions, 1, 3 * hidden]`, for `i o f`.
    peepholes: Option<ValueId>,
}

impl Cell {
    /// Reads the weights of `count` directions, starting at `first`.
    pub(super) fn read(
        ctx: &mut NodeContext<'_>,
        kind: CellKind,
        (first, count): (i64, i64),
        activations: Vec<Activation>,
    ) -> Result<Self, Error> {
        let linear_before_reset = ctx.flag("linear_before_reset", false)?;
        let weights = |ctx: &mut NodeContext<'_>, index| {
            let all = ctx.input(index)?;
            let own = ctx.narrow(all, 0, first, count)?;
            ctx.transpose(own, &[0, 2, 1])
        };
        let input_weights = weights(ctx, 1)?;
        let recurrent_weights = weights(ctx, 2)?;
        let (mut input_bias, mut recurrent_bias) = (None, None);
        if let Some(biases) = ctx.optional(3) {
            let biases = ctx.narrow(biases, 0, first, count)?;
            let biases = ctx.build(|builder| builder.unsqueeze(biases, &[1]))?;
            let own = ctx.shape(input_weights)?[2];
            let zero = ctx.size(0);
            let of_input = ctx.build(|builder| builder.slice_axis(biases, 2, zero, own))?;
            let of_state = ctx.build(|builder| builder.slice_axis(biases, 2, own, own))?;
            if kind == CellKind::Gru && linear_before_reset {
                (input_bias, recurrent_bias) = (Some(of_input), Some(of_state));
            } else {
                input_bias = Some(ctx.add(of_input, of_state)?);
            }
        }
        let peepholes = match (kind, ctx.optional(7)) {
            (CellKind::Lstm, Some(all)) => {
                let own = ctx.narrow(all, 0, first, count)?;
                Some(ctx.build(|builder| builder.unsqueeze(own, &[1]))?)
            }
            _ => None,
        };
        Ok(Self {
            kind,
            activations,
            clip: ctx.attributes().get::<f32>("clip")?.map(f64::from),
            linear_before_reset,
            input_forget: ctx.flag("input_forget", false)?,
            input_weights,
            input_bias,
            recurrent_weights,
            recurrent_bias,
            peepholes,
        })
    }

    /// `x: [directions, time, batch, features] -> [directions, time, batch, gates * hidden]`, biases added.
    pub(super) fn project(&self, ctx: &mut NodeContext<'_>, x: ValueId) -> Result<ValueId, Error> {
        let &[directions, time, batch, features] = ctx.shape(x)?.as_slice() else {
            unreachable!("the operand was put in the order of each direction");
        };
        let columns = ctx.shape(self.input_weights)?[2];
        let rows = ctx.builder_mut().dims_mut().mul(time, batch);
        let rows = ctx.at(rows.map_err(|cause| size_error("rows", cause)))?;
        // One product per direction, with one row per time step and sequence.
        let flat = ctx.build(|builder| builder.reshape(x, &[directions, rows, features]))?;
        let mut product = ctx.matmul(flat, self.input_weights)?;
        if let Some(bias) = self.input_bias {
            product = ctx.add(product, bias)?;
        }
        ctx.build(|builder| builder.reshape(product, &[directions, time, batch, columns]))
    }

    /// The operands of a step from outside the loop, in order.
    pub(super) fn operands(&self) -> impl Iterator<Item = ValueId> {
        [
            Some(self.recurrent_weights),
            self.recurrent_bias,
            self.peepholes,
        ]
        .into_iter()
        .flatten()
    }

    /// The next states from the projected input of one time, `[directions, batch, gates * hidden]`.
    pub(super) fn step(
        &self,
        builder: &mut GraphBuilder,
        input: ValueId,
        states: &[ValueId],
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>, InferError> {
        let mut operands = operands.iter().copied();
        let Some(weights) = operands.next() else {
            unreachable!("`operands` begins with the weights");
        };
        let bias = self.recurrent_bias.and_then(|_| operands.next());
        let peepholes = self.peepholes.and_then(|_| operands.next());
        match (self.kind, states) {
            (CellKind::Rnn, &[hidden]) => {
                let product = builder.matmul(hidden, weights)?;
                let sum = builder.add(input, product)?;
                Ok(vec![self.activate(builder, 0, sum)?])
            }
            (CellKind::Gru, &[hidden]) => {
                Ok(vec![self.step_gru(builder, input, hidden, weights, bias)?])
            }
            (CellKind::Lstm, &[hidden, cell]) => {
                self.step_lstm(builder, input, (hidden, cell), weights, peepholes)
            }
            _ => unreachable!("an LSTM has two states, the others one"),
        }
    }

    fn step_gru(
        &self,
        builder: &mut GraphBuilder,
        input: ValueId,
        hidden: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, InferError> {
        let inputs = self.split_gates(builder, input)?;
        let columns = self.split_gates(builder, weights)?;
        let biases = match bias {
            Some(bias) => Some(self.split_gates(builder, bias)?),
            None => None,
        };
        let recurrent = |builder: &mut GraphBuilder, state: ValueId, gate: usize| {
            let product = builder.matmul(state, columns[gate])?;
            match &biases {
                Some(biases) => builder.add(product, biases[gate]),
                None => Ok(product),
            }
        };
        let product = recurrent(builder, hidden, 0)?;
        let update = builder.add(inputs[0], product)?;
        let update = self.activate(builder, 0, update)?;
        let product = recurrent(builder, hidden, 1)?;
        let reset = builder.add(inputs[1], product)?;
        let reset = self.activate(builder, 0, reset)?;
        let product = if self.linear_before_reset {
            let product = recurrent(builder, hidden, 2)?;
            builder.mul(reset, product)?
        } else {
            let kept = builder.mul(reset, hidden)?;
            recurrent(builder, kept, 2)?
        };
        let candidate = builder.add(inputs[2], product)?;
        let candidate = self.activate(builder, 1, candidate)?;
        // (1 - z) * candidate + z * hidden
        let one = builder.scalar(builder.dtype(update)?, 1.0)?;
        let rest = builder.sub(one, update)?;
        let new = builder.mul(rest, candidate)?;
        let old = builder.mul(update, hidden)?;
        builder.add(new, old)
    }

    fn step_lstm(
        &self,
        builder: &mut GraphBuilder,
        input: ValueId,
        (hidden, cell): (ValueId, ValueId),
        weights: ValueId,
        peepholes: Option<ValueId>,
    ) -> Result<Vec<ValueId>, InferError> {
        // A product for each gate: a kernel sums all of them where it computes a state.
        let columns = self.split_gates(builder, weights)?;
        let mut gates = self.split_gates(builder, input)?;
        for (gate, &columns) in gates.iter_mut().zip(&columns) {
            let product = builder.matmul(hidden, columns)?;
            *gate = builder.add(*gate, product)?;
        }
        let peepholes = match peepholes {
            Some(peepholes) => Some(split_last(builder, peepholes, 3)?),
            None => None,
        };
        let peeped = |builder: &mut GraphBuilder, gate: ValueId, which: usize, cell: ValueId| {
            match &peepholes {
                Some(peepholes) => {
                    let seen = builder.mul(peepholes[which], cell)?;
                    builder.add(gate, seen)
                }
                None => Ok(gate),
            }
        };
        let open = peeped(builder, gates[0], 0, cell)?;
        let open = self.activate(builder, 0, open)?;
        let forget = if self.input_forget {
            let one = builder.scalar(builder.dtype(open)?, 1.0)?;
            builder.sub(one, open)?
        } else {
            let forget = peeped(builder, gates[2], 2, cell)?;
            self.activate(builder, 0, forget)?
        };
        let candidate = self.activate(builder, 1, gates[3])?;
        let kept = builder.mul(forget, cell)?;
        let new = builder.mul(open, candidate)?;
        let cell = builder.add(kept, new)?;
        let shown = peeped(builder, gates[1], 1, cell)?;
        let shown = self.activate(builder, 0, shown)?;
        let visible = self.activations[2].apply(builder, cell)?;
        let hidden = builder.mul(shown, visible)?;
        Ok(vec![hidden, cell])
    }

    /// Clips, then applies an activation.
    fn activate(
        &self,
        builder: &mut GraphBuilder,
        which: usize,
        x: ValueId,
    ) -> Result<ValueId, InferError> {
        let x = match self.clip {
            Some(clip) if clip > 0.0 => builder.map_with("hard_tanh", &[-clip, clip], &[x])?,
            _ => x,
        };
        self.activations[which].apply(builder, x)
    }

    fn split_gates(
        &self,
        builder: &mut GraphBuilder,
        value: ValueId,
    ) -> Result<Vec<ValueId>, InferError> {
        split_last(builder, value, self.kind.gates())
    }
}

/// Equal parts of the last axis.
fn split_last(
    builder: &mut GraphBuilder,
    value: ValueId,
    parts: i64,
) -> Result<Vec<ValueId>, InferError> {
    let dims = builder.shape(value)?;
    let axis = builder.axis_of_rank(-1, dims.len())?;
    let count = builder.size(parts);
    let size = builder.dims_mut().floor_div(dims[axis], count);
    let size = size.map_err(|cause| size_error("gates", cause))?;
    let sizes = vec![size; usize::try_from(parts).unwrap_or(0)];
    builder.split(value, axis, &sizes)
}

fn size_error(what: &'static str, cause: DimError) -> InferError {
    InferError::new(what, InferErrorKind::Size(cause))
}
