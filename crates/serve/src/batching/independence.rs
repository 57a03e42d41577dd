//! A conservative analysis of whether the parts of a batch are independent in a graph.
//!
//! A *part* is what one request contributes along the batch symbol. Each value of the graph is either the *same*
//! whatever the batch; or *split*: one of its axes is the batch times some size, and part `i` of it depends only on
//! part `i` of the inputs; or *mixed*: anything else. An op without a rule that keeps parts separate gives a mixed
//! value, and a model with a mixed output is not batched.
//!
//! *Invariant:* whatever a rule says, a result counts as split only if its type has the batch on exactly that axis, and as
//! the same only if its type does not have it at all.

use super::parts::{Analysis, Refusal, State};
use super::rules;
use kiln::internals::ir::{Graph, OpData, OpId};
use kiln::internals::symbolic_shape::SymbolId;

/// Proves that each part of every output depends only on the same part of the inputs, which have the symbol on `axes`.
pub(super) fn check(graph: &Graph, symbol: SymbolId, axes: &[usize]) -> Result<(), Refusal> {
    let mut analysis = Analysis::new(graph, symbol, axes)?;
    let mut first_mixed = None;
    for &op in &graph.region(graph.body()).ops {
        let mixes = visit(&mut analysis, op)?;
        if mixes && first_mixed.is_none() {
            first_mixed = Some(op);
        }
    }
    let one = analysis.dims.constant(1);
    let (outputs, names) = (graph.outputs().iter(), graph.output_names());
    for (output, name) in outputs.zip(names) {
        let split = matches!(analysis.state(*output), State::Split { inner, .. } if inner == one);
        if !split {
            return Err(refusal(&analysis, name, first_mixed));
        }
    }
    Ok(())
}

/// Finds the states of an op's results; returns whether one is mixed although no operand is.
fn visit(analysis: &mut Analysis<'_>, op: OpId) -> Result<bool, Refusal> {
    let graph = analysis.graph;
    let data: &OpData = graph.op(op);
    let operands = data.operands.iter().map(|&value| analysis.state(value));
    let operands: Vec<State> = operands.collect();
    let is_same = operands.iter().all(|state| *state == State::Same);
    // Sizes that depend on the batch could be anything.
    if !data.symbols.is_empty() && !is_same {
        let op = name_of(data);
        return Err(Refusal(format!("{op} makes sizes of what is in the batch")));
    }
    let was_mixed = operands.contains(&State::Mixed);
    let state = match was_mixed {
        true => State::Mixed,
        false => rules::state_of(analysis, data, &operands),
    };
    let mut is_mixed = false;
    for &result in &data.results {
        is_mixed |= analysis.note(result, state);
    }
    Ok(is_mixed && !was_mixed)
}

fn refusal(analysis: &Analysis<'_>, output: &str, first_mixed: Option<OpId>) -> Refusal {
    let graph = analysis.graph;
    let (output, symbol) = (
        output.escape_debug(),
        graph.dims().symbol_name(analysis.symbol),
    );
    Refusal(match first_mixed {
        Some(op) => {
            let op = name_of(graph.op(op));
            format!("{op} may combine elements along {symbol}, and output {output} depends on it")
        }
        None => format!("output {output} does not depend on the inputs along {symbol}"),
    })
}

/// An op in a message: its kind and its origin.
fn name_of(data: &OpData) -> String {
    match &data.origin {
        Some(origin) => format!("{} ({})", data.op.mnemonic(), origin.escape_debug()),
        None => data.op.mnemonic().to_string(),
    }
}
