//! Loops that are written out: over sequences, whose entries are known when the model is imported.
//!
//! Each round imports the body once more. The nodes that this brings in count towards
//! [`Limits::inlined_nodes`](crate::Limits::inlined_nodes), the rounds of one loop are at most
//! [`Limits::operator_parts`](crate::Limits::operator_parts).

use smallvec::smallvec;

use super::captures::captures_of;
use super::context::{NodeContext, Outputs};
use super::graph::import_body;
use super::item::Item;
use super::names::{Binding, Names};
use crate::{Error, LimitKind, ModelGraph};

impl NodeContext<'_> {
    /// Imports a body in place: its inputs are `items`, and what it reads from around it is there.
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

    /// Counts nodes that the import makes and the file does not hold.
    fn count_inlined(&self, count: usize) -> Result<(), Error> {
        self.frame.count(LimitKind::InlinedNodes, count)
    }

    /// Counts entries of sequences that the import makes.
    pub(crate) fn count_entries(&self, count: usize) -> Result<(), Error> {
        self.frame.count(LimitKind::SequenceEntries, count)
    }

    fn known_bool(&self, item: &Item) -> Option<bool> {
        match self.constant_integers(item.value()?)?.as_slice() {
            &[known] => Some(known != 0),
            _ => None,
        }
    }
}

/// A `Loop` that carries sequences: how often it runs must be known.
pub(super) fn unrolled_loop(
    ctx: &mut NodeContext<'_>,
    body: &ModelGraph,
) -> Result<Outputs, Error> {
    let trips = match ctx.optional(0) {
        Some(trips) => match ctx.constant_integers(trips).as_deref() {
            Some(&[trips]) => trips,
            _ => {
                let found = ctx.builder().describe(trips);
                let expected = "a number that is known when the model is imported, as the loop \
                                carries a sequence; the option `fix` makes an input known";
                return Err(ctx.operand_error(0, expected, found));
            }
        },
        None => i64::MAX,
    };
    let n_carried = ctx.node.inputs().len().saturating_sub(2);
    let mut carried: Vec<Item> = (0..n_carried)
        .map(|index| ctx.item(index + 2).cloned().unwrap_or(Item::Nothing))
        .collect();
    let mut condition = match ctx.item(1).cloned() {
        Some(item) => item,
        None => Item::Tensor(ctx.build(|builder| builder.scalar(kiln_tensor::DType::Bool, 1.0))?),
    };
    let n_stacked = body.outputs().len().saturating_sub(n_carried + 1);
    let mut stacked = vec![Vec::new(); n_stacked];
    for round in 0..trips {
        let rounds = u64::try_from(round).unwrap_or(u64::MAX).saturating_add(1);
        ctx.check_limit(LimitKind::OperatorParts, rounds)?;
        match ctx.known_bool(&condition) {
            Some(true) => {}
            Some(false) => break,
            None => {
                return Err(ctx.unsupported(
                    "a loop that carries a sequence and a condition that only the data say",
                ));
            }
        }
        let round = ctx.add_constant(kiln_tensor::Tensor::scalar(round))?;
        let mut items = vec![Item::Tensor(round), condition];
        items.append(&mut carried);
        let mut results = ctx.import_round(body, &items)?.into_iter();
        condition = results.next().unwrap_or(Item::Nothing);
        carried = results.by_ref().take(n_carried).collect();
        for (entries, item) in stacked.iter_mut().zip(results) {
            let Some(value) = item.value() else {
                return Err(ctx.unsupported(format!("{} for every round of a loop", item.kind())));
            };
            entries.push(value);
        }
    }
    let mut outputs: Outputs = carried.into();
    for entries in stacked {
        if entries.is_empty() {
            return Err(ctx.unsupported("stacking what no round of a loop gives"));
        }
        let value = ctx.build(|builder| builder.stack(&entries, 0))?;
        outputs.push(Item::Tensor(value));
    }
    Ok(outputs)
}

/// `SequenceMap`: a body for each entry of the first operand, and of the others that are sequences.
pub(crate) fn import_sequence_map(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let body = ctx.attributes().require::<&ModelGraph>("body")?;
    let operands: Vec<Item> = (0..ctx.n_inputs())
        .map(|index| ctx.item(index).cloned().unwrap_or(Item::Nothing))
        .collect();
    let Some(Item::Sequence(first)) = operands.first() else {
        let found = operands
            .first()
            .map_or_else(|| "nothing".to_owned(), Item::kind);
        return Err(ctx.operand_error(0, "a sequence", found));
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
