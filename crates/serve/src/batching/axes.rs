//! The symbol along which requests are batched, and the axis of each input and output that has it.

use super::independence;
use super::parts::{Refusal, mentions};
use kiln::internals::ir::{Graph, ValueId};
use kiln::internals::symbolic_shape::{DimId, DimTable, Predicate, SymbolId};

/// The axes along which requests are joined and split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchPlan {
    /// The symbol's name.
    pub(crate) symbol: String,
    /// The axis of each input.
    pub(crate) inputs: Vec<usize>,
    /// The axis of each output.
    pub(crate) outputs: Vec<usize>,
    /// The largest size that the model takes, if it has a limit.
    pub(crate) max: Option<usize>,
}

impl BatchPlan {
    /// The plan for joining along the symbol called `symbol`, or else along the first size of the first input.
    ///
    /// Unless `is_vouched_for`, it is proved from the graph that each part of every output depends only on the same part of
    /// the inputs.
    pub(crate) fn of_graph(
        graph: &Graph,
        symbol: Option<&str>,
        is_vouched_for: bool,
    ) -> Result<Self, Refusal> {
        let dims = graph.dims();
        let symbol = symbol_of(graph, symbol)?;
        let name = dims.symbol_name(symbol).to_owned();
        let axes = |values: &[ValueId], what: &str| {
            let axes = values.iter().map(|&value| {
                axis_of(graph, value, symbol).ok_or_else(|| {
                    let shown = graph.ty(value).display(dims).to_string();
                    Refusal(format!("an {what} is {shown}, which does not have the size {name} on exactly one axis"))
                })
            });
            axes.collect::<Result<Vec<usize>, Refusal>>()
        };
        let inputs = axes(graph.inputs(), "input")?;
        let outputs = axes(graph.outputs(), "output")?;
        check_facts(dims, symbol, &name)?;
        if !is_vouched_for {
            independence::check(graph, symbol, &inputs)?;
        }
        let max = dims.symbol_info(symbol).max();
        Ok(Self {
            symbol: name,
            inputs,
            outputs,
            max: max.map(|max| usize::try_from(max).unwrap_or(0)),
        })
    }
}

fn symbol_of(graph: &Graph, name: Option<&str>) -> Result<SymbolId, Refusal> {
    let dims = graph.dims();
    if let Some(name) = name {
        return dims.symbol_named(name).ok_or_else(|| {
            Refusal(format!(
                "the model has no dimension `{}`",
                name.escape_debug()
            ))
        });
    }
    let first = graph.inputs().first();
    let first = first.and_then(|&value| graph.tensor_ty(value)?.dims.first().copied());
    let first = first.and_then(|dim| dims.as_symbol(dim));
    first.ok_or_else(|| Refusal("the first size of the first input is not a symbol".to_owned()))
}

/// The axis whose size is the symbol, if no other size of the value has it.
fn axis_of(graph: &Graph, value: ValueId, symbol: SymbolId) -> Option<usize> {
    let dims = graph.dims();
    let sizes = &graph.tensor_ty(value)?.dims;
    let axis = sizes
        .iter()
        .position(|&dim| dims.as_symbol(dim) == Some(symbol))?;
    let mut others = sizes.iter().enumerate().filter(|(index, _)| *index != axis);
    let is_alone = others.all(|(_, &dim)| !mentions(dims, dim, symbol));
    is_alone.then_some(axis)
}

/// Rejects facts that relate the symbol to other symbols, since joining would break them, unless they hold either for
/// every size of the symbol or for none.
fn check_facts(dims: &DimTable, symbol: SymbolId, name: &str) -> Result<(), Refusal> {
    if dims.definition(symbol).is_some() {
        return Err(Refusal(format!("{name} follows from other sizes")));
    }
    let mut table = dims.clone();
    let batch = table.symbol(name);
    let batch = batch.map_err(|error| Refusal(error.to_string()))?;
    for fact in dims.contract_facts() {
        let symbols = dims.free_symbols(&fact.predicate.dims());
        let relates = symbols.len() > 1 && symbols.contains(&symbol);
        if relates && !is_scaled(&mut table, &fact.predicate, batch, symbol) {
            let fact = dims.display_predicate(&fact.predicate);
            return Err(Refusal(format!("the model requires {fact}")));
        }
    }
    Ok(())
}

/// Whether a fact is an equality both of whose sides are the batch times something else.
fn is_scaled(dims: &mut DimTable, fact: &Predicate, batch: DimId, symbol: SymbolId) -> bool {
    let mut is_multiple = |factors: &[DimId]| {
        let with: Vec<DimId> = (factors.iter().copied())
            .filter(|&dim| mentions(dims, dim, symbol))
            .collect();
        let &[factor] = with.as_slice() else {
            return false;
        };
        let rest = dims.exact_quotient(factor, batch);
        rest.is_some_and(|rest| !mentions(dims, rest, symbol))
    };
    match fact {
        Predicate::Equal(left, right) => is_multiple(&[*left]) && is_multiple(&[*right]),
        Predicate::ProductEqual(left, right) => is_multiple(left) && is_multiple(right),
        _ => false,
    }
}
