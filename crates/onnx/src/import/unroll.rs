//! Unrolled loops: over sequences, whose entries are known when the model is imported. The trip count of such a loop may be
//! determined by a call (see [`questions`](super::questions)).
//!
//! Each iteration imports the body again. The created nodes count towards
//! [`Limits::inlined_nodes`](crate::Limits::inlined_nodes), and one loop has at most
//! [`Limits::operator_parts`](crate::Limits::operator_parts) iterations.

use kiln_ir::Definition;
use kiln_symbolic_shape::DimId;
use smallvec::smallvec;

use super::captures::captures_of;
use super::context::{NodeContext, Outputs};
use super::graph::import_body;
use super::item::{Item, Stacked};
use super::names::{Binding, Names};
use super::questions::Place;
use crate::{Error, LimitKind, ModelGraph};

impl NodeContext<'_> {
    /// Imports a body in place: its inputs are `items`, and outside values are visible.
    pub(crate) fn import_round(
        &mut self,
        body: &ModelGraph,
        items: &[Item],
    ) -> Result<Vec<Item>, Error> {
        self.count_inlined(body.nodes().len().max(1))?;
        let mut names = Names::default();
        for name in captures_of(body) {
            if let Some(binding) = self.names.get(name) {
                names.bind(name, binding.clone());
            }
        }
        for (input, item) in body.inputs().iter().zip(items) {
            names.bind(&input.name, Binding::Value(item.clone()));
        }
        let results = import_body(self.frame, self.builder, body, &mut names)?;
        self.builder
            .origin(&super::graph::origin_of(self.frame, self.node));
        Ok(results)
    }

    /// The operand is not a sequence with known entries.
    pub(crate) fn no_entries(&self, index: usize) -> Error {
        let item = self.item(index);
        let found = item.map_or_else(|| "nothing".to_owned(), Item::kind);
        let error = self.operand_error(index, "a sequence of entries that are known", found);
        match item {
            Some(Item::Stacked(stacked)) => self.left_open(stacked.place, error),
            _ => error,
        }
    }

    /// Counts created nodes that are not in the file.
    fn count_inlined(&self, count: usize) -> Result<(), Error> {
        self.frame.count(LimitKind::InlinedNodes, count)
    }

    /// Counts created entries of sequences.
    pub(crate) fn count_entries(&self, count: usize) -> Result<(), Error> {
        self.frame.count(LimitKind::SequenceEntries, count)
    }
}

/// How a loop that carries sequences is imported.
pub(super) enum Trips {
    /// It is unrolled at most this many times.
    Known(i64),
    /// Its body is a region, and the entries it appends to the sequences are stacked.
    Stacked(Place),
}

impl NodeContext<'_> {
    /// The trip count of a loop that carries sequences, if it has to be unrolled.
    ///
    /// # Errors
    /// If it is not known.
    pub(super) fn trips_to_write_out(
        &mut self,
        body: &ModelGraph,
        carried: &[Item],
    ) -> Result<Trips, Error> {
        let Some(trips) = self.optional(0) else {
            return Ok(Trips::Known(i64::MAX));
        };
        let found = self.builder().describe(trips);
        let trips = self.build(|builder| builder.reshape(trips, &[]))?;
        if let Some(&[known]) = self.constant_integers(trips).as_deref() {
            return Ok(Trips::Known(known));
        }
        let place = self.place(trips);
        if let Some(answer) = self.answer(place)? {
            return Ok(Trips::Known(answer));
        }
        let is_unconditional = match self.optional(1) {
            None => true,
            Some(condition) => self.constant_integers(condition).as_deref() == Some(&[1]),
        };
        if is_unconditional && self.only_appends(body, carried) {
            return Ok(Trips::Stacked(place));
        }
        let expected = "a number that is known when the model is imported, as the loop carries a sequence; the option `fix` \
                        makes an input known";
        let unknown = self.operand_error(0, expected, found);
        Err(self.left_open(place, unknown))
    }

    /// Rejects stacks whose entries may differ in size; the trip count then becomes a question, and the loop is unrolled.
    pub(super) fn check_entries(&self, place: Place, outputs: &[Item]) -> Result<(), Error> {
        for output in outputs {
            let Item::Stacked(Stacked { value, .. }) = output else {
                continue;
            };
            let Definition::Result { op, .. } = self.builder.graph().value(*value).definition
            else {
                continue;
            };
            let symbols = &self.builder.graph().op(op).symbols;
            let sizes = self.shape(*value)?;
            let is_open = |&dim: &DimId| {
                let symbol = self.builder.dims().as_symbol(dim);
                symbol.is_some_and(|symbol| symbols.contains(&symbol))
            };
            if sizes.iter().skip(1).any(is_open) {
                let what = "entries of a sequence that differ in size";
                return Err(self.left_open(place, self.unsupported(what)));
            }
        }
        Ok(())
    }
}

/// A `Loop` that carries sequences, unrolled.
pub(super) fn unrolled_loop(
    ctx: &mut NodeContext<'_>,
    body: &ModelGraph,
    mut carried: Vec<Item>,
    trips: i64,
) -> Result<Outputs, Error> {
    let n_carried = carried.len();
    let mut condition = match ctx.item(1).cloned() {
        Some(item) => item,
        None => Item::Tensor(ctx.build(|builder| builder.scalar(kiln_tensor::DType::Bool, 1.0))?),
    };
    let n_stacked = body.outputs().len().saturating_sub(n_carried + 1);
    let mut stacked = vec![Vec::new(); n_stacked];
    for round in 0..trips {
        let rounds = u64::try_from(round).unwrap_or(u64::MAX).saturating_add(1);
        ctx.check_limit(LimitKind::OperatorParts, rounds)?;
        let unknown = ctx.unsupported(
            "a loop in a region that carries a sequence and a condition that depends on data",
        );
        let Some(value) = condition.value() else {
            return Err(unknown);
        };
        if ctx.known_or_asked(value, unknown)? == 0 {
            break;
        }
        let round = ctx.add_constant(kiln_tensor::Tensor::scalar(round))?;
        let mut items = vec![Item::Tensor(round), condition];
        items.append(&mut carried);
        let mut results = ctx.import_round(body, &items)?.into_iter();
        condition = results.next().unwrap_or(Item::Nothing);
        carried = results.by_ref().take(n_carried).collect();
        for (entries, item) in stacked.iter_mut().zip(results) {
            let Some(value) = item.value() else {
                return Err(
                    ctx.unsupported(format!("{} for every iteration of a loop", item.kind()))
                );
            };
            entries.push(value);
        }
    }
    let mut outputs: Outputs = carried.into();
    for entries in stacked {
        if entries.is_empty() {
            return Err(ctx.unsupported("stacking results of a loop without iterations"));
        }
        let value = ctx.build(|builder| builder.stack(&entries, 0))?;
        outputs.push(Item::Tensor(value));
    }
    Ok(outputs)
}

/// `SequenceMap`: a body for each entry of the first operand, and of other operands that are sequences.
pub(crate) fn import_sequence_map(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let body = ctx.attributes().require::<&ModelGraph>("body")?;
    let operands: Vec<Item> = (0..ctx.n_inputs())
        .map(|index| ctx.item(index).cloned().unwrap_or(Item::Nothing))
        .collect();
    let Some(Item::Sequence(first)) = operands.first() else {
        return Err(ctx.no_entries(0));
    };
    let mut results = vec![Vec::new(); body.outputs().len()];
    for round in 0..first.len() {
        let mut items = Vec::with_capacity(operands.len());
        for (index, operand) in operands.iter().enumerate() {
            items.push(match operand {
                Item::Sequence(entries) => match entries.get(round) {
                    Some(entry) => entry.clone(),
                    None => {
                        let expected = format!("a sequence of {} entries", first.len());
                        return Err(ctx.operand_error(index, expected, operand.kind()));
                    }
                },
                other => other.clone(),
            });
        }
        let given = ctx.import_round(body, &items)?;
        for (entries, item) in results.iter_mut().zip(given) {
            entries.push(item);
        }
    }
    let mut outputs: Outputs = smallvec![];
    outputs.extend(
        results
            .into_iter()
            .map(|entries| Item::Sequence(entries.into())),
    );
    Ok(outputs)
}
