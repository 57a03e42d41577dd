//! Symbols bound while a program runs: from data, from the sizes of results, at entry to a block.
//!
//! Every fact about them is checked as in the interpreter.

use kiln_interpreter::{InterpretError, OpSite};
use kiln_ir::{Graph, OpId, TensorType};
use kiln_symbolic_shape::{Binding, EvaluateError, SymbolId};

/// An op for messages: by its origin, or otherwise by its first result.
pub(crate) fn site_of(graph: &Graph, id: OpId) -> OpSite {
    let op = graph.op(id);
    let origin = match (&op.origin, op.results.first()) {
        (Some(origin), _) => origin.to_string(),
        (None, Some(result)) => result.to_string(),
        (None, None) => id.to_string(),
    };
    OpSite {
        op: op.op.mnemonic(),
        origin,
    }
}

/// Binds a symbol, and checks its bounds and every fact that it completes.
pub(super) fn bind(
    graph: &Graph,
    binding: &mut Binding,
    symbol: SymbolId,
    given: i64,
    site: &dyn Fn() -> String,
) -> Result<(), InterpretError> {
    let dims = graph.dims();
    let info = dims.symbol_info(symbol);
    let refuse = |expected: String| InterpretError::SymbolBounds {
        symbol: info.name().to_owned(),
        expected,
        given,
        source_of_value: site(),
    };
    if !info.allows(given) {
        return Err(refuse(match info.value() {
            Some(value) => format!("to be {value}"),
            None if info.bounds().contains(given) => {
                format!("to be a multiple of {}", info.multiple())
            }
            None => format!("in {}", info.bounds()),
        }));
    }
    if binding.set(symbol, given).is_err() {
        let before = binding.get(symbol).unwrap_or_default();
        return Err(refuse(format!("to be {before}, as it was before,")));
    }
    for fact in dims.contract_facts() {
        let text = || dims.display_predicate(&fact.predicate).to_string();
        match dims.holds(&fact.predicate, binding) {
            Ok(true) | Err(EvaluateError::Unbound { .. }) => {}
            Ok(false) => {
                return Err(InterpretError::FactViolated {
                    fact: text(),
                    origin: fact.origin.to_string(),
                    given: format!("{} = {given} from {}", info.name(), site()),
                });
            }
            Err(error) => {
                let what = format!("{} ({})", text(), fact.origin);
                return Err(InterpretError::Size { what, error });
            }
        }
    }
    Ok(())
}

/// Binds those of `symbols` that occur bare in a type.
pub(super) fn bind_sizes(
    graph: &Graph,
    binding: &mut Binding,
    ty: &TensorType,
    symbols: &[SymbolId],
    shape: &[usize],
    site: &dyn Fn() -> String,
) -> Result<(), InterpretError> {
    for (&dim, &size) in ty.dims.iter().zip(shape) {
        match graph.dims().as_symbol(dim) {
            // A second axis of the same symbol is compared with the first when types are checked.
            Some(symbol) if symbols.contains(&symbol) && binding.get(symbol).is_none() => {
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                bind(graph, binding, symbol, size, site)?;
            }
            _ => {}
        }
    }
    Ok(())
}
