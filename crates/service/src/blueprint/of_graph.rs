//! Converts graphs to blueprints, the reverse of `convert`. Control flow and symbols defined by data cannot be
//! represented.

use super::document::{
    Blueprint, BlueprintInput, BlueprintNode, BlueprintOutput, BlueprintSymbol, InputRole, Size,
    VERSION,
};
use super::tensor::tensor_to_json;
use crate::error::ServiceError;
use kiln::DType;
use kiln::internals::ir::{
    Constant, Dims, FieldVisitor, Graph, Indices, Integers, Op, Type, ValueId, Word,
};
use kiln::internals::symbolic_shape::{DimId, DimTable, FactOrigin};
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Blueprint {
    /// The blueprint of a graph. Building it gives an equal graph, up to the order of ops.
    ///
    /// # Errors
    /// E1412 for a graph with control flow, custom ops, values that are not tensors, or symbols that data define.
    pub fn from_graph(graph: &Graph) -> Result<Self, ServiceError> {
        let names = names(graph);
        let dims = graph.dims();
        let mut nodes = Vec::with_capacity(graph.n_ops());
        for &op in &graph.region(graph.body()).ops {
            let data = graph.op(op);
            if let Op::If | Op::Loop { .. } | Op::Custom { .. } | Op::Bind = data.op {
                return Err(no_form(format!("op `{}`", data.op.mnemonic())));
            }
            let name_of = |value: &ValueId| names[value].clone();
            let mut writer = Writer {
                dims,
                attributes: BTreeMap::new(),
                failed: None,
            };
            data.op.clone().visit_fields(&mut writer);
            if let Some(problem) = writer.failed {
                return Err(no_form(problem));
            }
            nodes.push(BlueprintNode {
                kind: data.op.mnemonic().to_owned(),
                operands: data.operands.iter().map(name_of).collect(),
                results: data.results.iter().map(name_of).collect(),
                attributes: writer.attributes,
            });
        }
        let inputs = graph.inputs().iter().map(|&input| {
            let Type::Tensor(ty) = graph.ty(input) else {
                return Err(no_form("an input that is not a tensor".to_owned()));
            };
            Ok(BlueprintInput {
                name: names[&input].clone(),
                dtype: ty.dtype.to_string(),
                shape: ty.dims.iter().map(|&dim| size(dims, dim)).collect(),
                role: InputRole::Data,
            })
        });
        let outputs = graph.output_names().iter().zip(graph.outputs());
        Ok(Self {
            version: VERSION,
            name: graph.name().to_owned(),
            metadata: graph.metadata().clone(),
            symbols: symbols(graph),
            facts: facts(dims),
            inputs: inputs.collect::<Result<_, _>>()?,
            nodes,
            outputs: outputs
                .map(|(name, value)| BlueprintOutput {
                    name: name.to_string(),
                    value: names[value].clone(),
                })
                .collect(),
            ..Self::default()
        })
    }
}

fn no_form(what: String) -> ServiceError {
    ServiceError::NoBlueprint { what }
}

/// A name for each value: its name in the graph if that is unique, otherwise a number.
fn names(graph: &Graph) -> HashMap<ValueId, String> {
    let body = graph.region(graph.body());
    let results = body.ops.iter().flat_map(|&op| &graph.op(op).results);
    let values: Vec<ValueId> = graph.inputs().iter().chain(results).copied().collect();
    let mut names = HashMap::new();
    let mut taken = BTreeSet::new();
    for &value in &values {
        let own = graph.value(value).name.as_deref();
        if let Some(own) = own.filter(|own| !own.is_empty() && taken.insert((*own).to_owned())) {
            names.insert(value, own.to_owned());
        }
    }
    let mut number = 0;
    for &value in &values {
        names.entry(value).or_insert_with(|| {
            loop {
                let name = format!("v{number}");
                number += 1;
                if taken.insert(name.clone()) {
                    return name;
                }
            }
        });
    }
    names
}

/// The symbols in use, with their facts.
fn symbols(graph: &Graph) -> Vec<BlueprintSymbol> {
    let dims = graph.dims();
    let symbols = dims.symbols().map(|symbol| {
        let info = dims.symbol_info(symbol);
        BlueprintSymbol {
            name: dims.symbol_name(symbol).to_owned(),
            min: Some(info.min()).filter(|&min| min != 0),
            max: info.max(),
            multiple_of: Some(info.multiple()).filter(|&multiple| multiple > 1),
            likely: info.likely_value(),
        }
    });
    symbols.collect()
}

fn facts(dims: &DimTable) -> Vec<String> {
    let declared = dims
        .contract_facts()
        .iter()
        .filter(|fact| fact.origin == FactOrigin::Declared);
    declared
        .map(|fact| dims.display_predicate(&fact.predicate).to_string())
        .collect()
}

fn size(dims: &DimTable, dim: DimId) -> Size {
    match dims.as_constant(dim) {
        Some(size) => Size::Fixed(size),
        None => Size::Expression(dims.display(dim).to_string()),
    }
}

/// Writes the fields of an op as attributes, with the names of the text form.
struct Writer<'a> {
    dims: &'a DimTable,
    attributes: BTreeMap<String, Value>,
    failed: Option<String>,
}

impl Writer<'_> {
    fn put(&mut self, name: &str, value: Value) {
        self.attributes.insert(name.to_owned(), value);
    }

    fn size(&self, dim: DimId) -> Value {
        match size(self.dims, dim) {
            Size::Fixed(size) => size.into(),
            Size::Expression(text) => text.into(),
        }
    }

    /// JSON has no infinities and NaNs, so they are written as words.
    fn number(value: f64) -> Value {
        match serde_json::Number::from_f64(value) {
            Some(number) => Value::Number(number),
            None => value.to_string().into(),
        }
    }
}

impl FieldVisitor for Writer<'_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        if *value {
            self.put(name, true.into());
        }
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        self.put(name, (*value).into());
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        self.put(name, json!(value.as_slice()));
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        self.put(name, json!(value.as_slice()));
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        self.put(name, Self::number(*value));
    }

    fn floats(&mut self, name: &'static str, value: &mut SmallVec<[f64; 4]>) {
        let numbers = value.iter().map(|&number| Self::number(number)).collect();
        self.put(name, Value::Array(numbers));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        let size = self.size(*value);
        self.put(name, size);
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        let sizes = value.iter().map(|&dim| self.size(dim)).collect();
        self.put(name, Value::Array(sizes));
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        self.put(name, value.to_string().into());
    }

    fn result_dtype(&mut self, name: &'static str, value: &mut DType) {
        self.dtype(name, value);
    }

    fn word(&mut self, name: &'static str, value: &mut dyn Word) {
        self.put(name, value.as_word().into());
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        self.put(name, value.as_str().into());
    }

    fn constant(&mut self, name: &'static str, value: &mut Constant) {
        match tensor_to_json(&value.tensor()) {
            Ok(json) => self.put(name, json),
            Err(problem) => self.failed = Some(problem),
        }
    }
}
