//! Binds symbols to the sizes of inputs, and checks all facts about them.
//!
//! A symbol that occurs bare in an input's type is bound there; two axes must agree. Bounds, multiples and contract facts
//! are checked as soon as their symbols have values.

use crate::error::{InputAxis, InterpretError};
use kiln_ir::{Graph, TensorType};
use kiln_symbolic_shape::{Binding, ContractFact, DimId, EvaluateError, PlanFact, SymbolId};
use std::collections::{BTreeMap, BTreeSet};

/// The values of symbols for inputs of these shapes, in the order of the graph's inputs.
///
/// # Errors
/// Shapes that contradict the inputs' types, each other, or a fact that the graph declares. The
/// error names the inputs and axes.
pub fn bind_symbols<S: AsRef<[usize]>>(
    graph: &Graph,
    shapes: &[S],
) -> Result<Binding, InterpretError> {
    let mut binding = Binding::new();
    Contract::of(graph).bind_inputs(&mut binding, shapes)?;
    Ok(binding)
}

/// A plan fact with the values of its two sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFactValue {
    /// The fact.
    pub fact: PlanFact,
    /// The sizes, left and right; `None` while a symbol has no value, or where one cannot be computed.
    pub sizes: Option<(i64, i64)>,
}

impl PlanFactValue {
    /// Whether the fact holds; `None` if that is not known yet.
    pub fn holds(&self) -> Option<bool> {
        self.sizes.map(|(left, right)| left == right)
    }
}

/// Every plan fact of the graph, evaluated with a binding.
pub fn plan_facts_hold(graph: &Graph, binding: &Binding) -> Vec<PlanFactValue> {
    let value = |dim: DimId| graph.dims().evaluate(dim, binding).ok();
    let facts = graph.dims().plan_facts().iter();
    facts
        .map(|fact| PlanFactValue {
            fact: fact.clone(),
            sizes: value(fact.left).zip(value(fact.right)),
        })
        .collect()
}

/// The facts about a graph's symbols, and the places where the symbols were bound.
pub(crate) struct Contract<'g> {
    graph: &'g Graph,
    /// The contract facts in which each symbol occurs.
    facts_of: BTreeMap<SymbolId, Vec<usize>>,
    sources: BTreeMap<SymbolId, Source>,
}

/// The source of a symbol's value.
#[derive(Clone, Debug)]
enum Source {
    Input { input: usize, axis: usize },
    Op(String),
}

impl<'g> Contract<'g> {
    pub(crate) fn of(graph: &'g Graph) -> Self {
        let mut facts_of: BTreeMap<SymbolId, Vec<usize>> = BTreeMap::new();
        for (index, fact) in graph.dims().contract_facts().iter().enumerate() {
            for symbol in symbols_of(graph, fact) {
                facts_of.entry(symbol).or_default().push(index);
            }
        }
        Self {
            graph,
            facts_of,
            sources: BTreeMap::new(),
        }
    }

    /// Binds the symbols of the graph's inputs.
    pub(crate) fn bind_inputs<S: AsRef<[usize]>>(
        &mut self,
        binding: &mut Binding,
        shapes: &[S],
    ) -> Result<(), InterpretError> {
        let types = self.input_types()?;
        if types.len() != shapes.len() {
            return Err(InterpretError::InputCount {
                expected: types.len(),
                found: shapes.len(),
            });
        }
        for (input, (ty, shape)) in types.iter().zip(shapes).enumerate() {
            self.bind_input(binding, input, ty, shape.as_ref())?;
        }
        for (input, (ty, shape)) in types.iter().zip(shapes).enumerate() {
            self.check_input(binding, input, ty, shape.as_ref())?;
        }
        let all = 0..self.graph.dims().contract_facts().len();
        self.check_facts(binding, all)
    }

    /// Checks an op's value for a symbol, and every fact it completes.
    pub(crate) fn bind(
        &mut self,
        binding: &mut Binding,
        symbol: SymbolId,
        value: i64,
        op: impl FnOnce() -> String,
    ) -> Result<(), InterpretError> {
        // A symbol of a loop's region gets another value in each iteration, so the source is kept up to date.
        if self.facts_of.contains_key(&symbol)
            || !self.graph.dims().symbol_info(symbol).allows(value)
        {
            self.sources.insert(symbol, Source::Op(op()));
        }
        self.check_bounds(symbol, value)?;
        if binding.set(symbol, value).is_err() {
            let source_of_value = self.describe_source(symbol);
            let expected = format!(
                "to be {}, as it was before,",
                binding.get(symbol).unwrap_or_default()
            );
            return Err(InterpretError::SymbolBounds {
                symbol: self.graph.dims().symbol_info(symbol).name().to_owned(),
                expected,
                given: value,
                source_of_value,
            });
        }
        let facts = self.facts_of.get(&symbol).cloned().unwrap_or_default();
        self.check_facts(binding, facts)
    }

    fn input_types(&self) -> Result<Vec<&'g TensorType>, InterpretError> {
        let graph = self.graph;
        let types = graph.inputs().iter().map(|&input| {
            graph
                .tensor_ty(input)
                .ok_or_else(|| InterpretError::NotATensor {
                    value: format!("input {}", graph.input_name(input)),
                    ty: graph.ty(input).display(graph.dims()).to_string(),
                })
        });
        types.collect()
    }

    /// Binds the symbols that occur bare in an input's type.
    fn bind_input(
        &mut self,
        binding: &mut Binding,
        input: usize,
        ty: &TensorType,
        shape: &[usize],
    ) -> Result<(), InterpretError> {
        if ty.rank() != shape.len() {
            return Err(InterpretError::InputRank {
                input: self.input_name(input),
                ty: format!("{}{}", ty.dtype, self.graph.dims().display_shape(&ty.dims)),
                found: shape.to_vec(),
            });
        }
        for (axis, (&dim, &size)) in ty.dims.iter().zip(shape).enumerate() {
            let Some(symbol) = self.graph.dims().as_symbol(dim) else {
                continue;
            };
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            match (binding.get(symbol), self.sources.get(&symbol)) {
                (
                    Some(before),
                    Some(Source::Input {
                        input: first,
                        axis: first_axis,
                    }),
                ) if before != size => {
                    return Err(InterpretError::SymbolConflict {
                        symbol: self.graph.dims().symbol_info(symbol).name().to_owned(),
                        first: self.axis(*first, *first_axis),
                        first_size: before,
                        second: self.axis(input, axis),
                        second_size: size,
                    });
                }
                (Some(_), _) => {}
                (None, _) => {
                    self.sources.insert(symbol, Source::Input { input, axis });
                    self.check_bounds(symbol, size)?;
                    // The symbol has no value yet, so there is none to contradict.
                    let _new = binding.set(symbol, size);
                }
            }
        }
        Ok(())
    }

    /// Compares the sizes that follow from symbols.
    fn check_input(
        &self,
        binding: &Binding,
        input: usize,
        ty: &TensorType,
        shape: &[usize],
    ) -> Result<(), InterpretError> {
        let dims = self.graph.dims();
        for (axis, (&dim, &found)) in ty.dims.iter().zip(shape).enumerate() {
            let axis = || self.axis(input, axis);
            let expected = dims
                .evaluate(dim, binding)
                .map_err(|error| InterpretError::Size {
                    what: axis().to_string(),
                    error,
                })?;
            if usize::try_from(expected) != Ok(found) {
                let expression = dims.display(dim).to_string();
                return Err(InterpretError::InputSize {
                    axis: axis(),
                    expression,
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    fn check_bounds(&self, symbol: SymbolId, given: i64) -> Result<(), InterpretError> {
        let info = self.graph.dims().symbol_info(symbol);
        if info.allows(given) {
            return Ok(());
        }
        let expected = match info.value() {
            Some(value) => format!("to be {value}"),
            None if info.bounds().contains(given) => {
                format!("to be a multiple of {}", info.multiple())
            }
            None => format!("in {}", info.bounds()),
        };
        Err(InterpretError::SymbolBounds {
            symbol: info.name().to_owned(),
            expected,
            given,
            source_of_value: self.describe_source(symbol),
        })
    }

    /// Checks facts all of whose symbols have values.
    fn check_facts(
        &self,
        binding: &Binding,
        facts: impl IntoIterator<Item = usize>,
    ) -> Result<(), InterpretError> {
        let dims = self.graph.dims();
        for fact in facts
            .into_iter()
            .filter_map(|index| dims.contract_facts().get(index))
        {
            let text = || dims.display_predicate(&fact.predicate).to_string();
            match dims.holds(&fact.predicate, binding) {
                Ok(true) | Err(EvaluateError::Unbound { .. }) => {}
                Ok(false) => {
                    let given: Vec<String> = symbols_of(self.graph, fact)
                        .into_iter()
                        .filter_map(|symbol| {
                            let (name, value) =
                                (dims.symbol_info(symbol).name(), binding.get(symbol)?);
                            Some(format!(
                                "{name} = {value} from {}",
                                self.describe_source(symbol)
                            ))
                        })
                        .collect();
                    let origin = fact.origin.to_string();
                    return Err(InterpretError::FactViolated {
                        fact: text(),
                        origin,
                        given: given.join(", "),
                    });
                }
                Err(error) => {
                    return Err(InterpretError::Size {
                        what: format!("{} ({})", text(), fact.origin),
                        error,
                    });
                }
            }
        }
        Ok(())
    }

    fn describe_source(&self, symbol: SymbolId) -> String {
        match self.sources.get(&symbol) {
            Some(Source::Input { input, axis }) => self.axis(*input, *axis).to_string(),
            Some(Source::Op(op)) => op.clone(),
            None => "the program".to_owned(),
        }
    }

    fn axis(&self, input: usize, axis: usize) -> InputAxis {
        InputAxis {
            input: self.input_name(input),
            axis,
        }
    }

    fn input_name(&self, input: usize) -> String {
        self.graph
            .inputs()
            .get(input)
            .map_or_else(|| input.to_string(), |&value| self.graph.input_name(value))
    }
}

/// The symbols whose values a fact depends on, looking through definitions.
fn symbols_of(graph: &Graph, fact: &ContractFact) -> BTreeSet<SymbolId> {
    let mut found = BTreeSet::new();
    let mut defined = BTreeSet::new();
    let mut pending = fact.predicate.dims();
    while let Some(dim) = pending.pop() {
        for symbol in graph.dims().symbols_in(dim) {
            match graph.dims().definition(symbol) {
                None => drop(found.insert(symbol)),
                Some(definition) if defined.insert(symbol) => pending.push(definition),
                Some(_) => {}
            }
        }
    }
    found
}
