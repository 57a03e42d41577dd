//! Graphs with a few errors: missing operands, operands in the wrong order, too many or too few, another op's attributes,
//! types and symbols that do not fit.
//!
//! The result may still be valid. Ids are those of the original graph where they exist, so a mutation is a copy with a
//! few errors.

use arbitrary::Unstructured;
use cranelift_entity::EntityRef;
use kiln_ir::{Definition, Graph, NewOp, Op, OpId, RegionId, Type, ValueId};
use kiln_symbolic_shape::{DimId, DimTable, SymbolId};
use std::collections::BTreeMap;

/// A copy of a graph with up to four mutations.
///
/// # Errors
/// When the source of choices fails.
pub fn mutate(choices: &mut Unstructured<'_>, graph: &Graph) -> arbitrary::Result<Graph> {
    let n_mutations = choices.int_in_range(1..=4)?;
    let mut targets = BTreeMap::new();
    for _ in 0..n_mutations {
        let op = choices.int_in_range(0..=graph.n_ops())?;
        targets.insert(op, choices.int_in_range(0..=12_u8)?);
    }
    let mut copy = Copy::of(graph);
    for index in 0..graph.n_ops() {
        let id = OpId::new(index);
        copy.add_parameters_before(id);
        let region = copy.places.get(&id).copied().unwrap_or(graph.body());
        let mut new = copy.op(id);
        let region = match targets.get(&index) {
            Some(&kind) => copy.spoil(choices, &mut new, region, kind)?,
            None => region,
        };
        copy.new.append(region, new);
    }
    copy.finish(choices, targets.get(&graph.n_ops()).copied())
}

/// A graph being copied, id by id.
struct Copy<'g> {
    old: &'g Graph,
    new: Graph,
    /// The region of each op.
    places: BTreeMap<OpId, RegionId>,
    /// The next value to be created, if it is a parameter.
    next_value: usize,
}

impl<'g> Copy<'g> {
    fn of(old: &'g Graph) -> Self {
        let mut new = Graph::with_dims(old.name(), old.dims().clone());
        while new.n_regions() < old.n_regions() {
            new.add_region();
        }
        let mut places = BTreeMap::new();
        for region in (0..old.n_regions()).map(RegionId::new) {
            places.extend(old.region(region).ops.iter().map(|&op| (op, region)));
            for &symbol in &old.region(region).symbols {
                new.add_region_symbol(region, symbol);
            }
        }
        Self {
            old,
            new,
            places,
            next_value: 0,
        }
    }

    /// Adds the parameters that were created before an op's results.
    fn add_parameters_before(&mut self, op: OpId) {
        while self.next_value < self.old.n_values() {
            let data = self.old.value(ValueId::new(self.next_value));
            match data.definition {
                Definition::Parameter { region, .. } => {
                    let value = self.new.add_parameter(region, data.ty.clone());
                    self.new.set_value_name(value, data.name.as_deref());
                }
                Definition::Result { op: by, .. } if by < op => {}
                Definition::Result { .. } => return,
            }
            self.next_value += 1;
        }
    }

    fn op(&self, id: OpId) -> NewOp {
        let data = self.old.op(id);
        NewOp {
            op: data.op.clone(),
            operands: data.operands.clone(),
            result_types: data
                .results
                .iter()
                .map(|&value| self.old.ty(value).clone())
                .collect(),
            regions: data.regions.clone(),
            symbols: data.symbols.clone(),
            origin: data.origin.clone(),
        }
    }

    /// Introduces an error into an op; returns its region.
    fn spoil(
        &self,
        choices: &mut Unstructured<'_>,
        new: &mut NewOp,
        region: RegionId,
        kind: u8,
    ) -> arbitrary::Result<RegionId> {
        let n_operands = new.operands.len();
        match kind {
            0..=2 if n_operands > 0 => {
                let at = choices.int_in_range(0..=n_operands - 1)?;
                new.operands[at] = self.any_value(choices)?;
            }
            3 if n_operands > 0 => {
                new.operands
                    .remove(choices.int_in_range(0..=n_operands - 1)?);
            }
            4 => new.operands.push(self.any_value(choices)?),
            5 if n_operands > 1 => new.operands.swap(0, n_operands - 1),
            6 if !new.result_types.is_empty() => {
                let at = choices.int_in_range(0..=new.result_types.len() - 1)?;
                let other = ValueId::new(choices.int_in_range(0..=self.old.n_values() - 1)?);
                new.result_types[at] = self.old.ty(other).clone();
            }
            7 if !new.result_types.is_empty() => {
                let ty = new.result_types.remove(0);
                let foreign = foreign_dim(choices)?;
                let map = &mut |_| Ok::<DimId, std::convert::Infallible>(foreign);
                let Ok(spoilt) = ty.try_map_dims(map);
                new.result_types.insert(
                    0,
                    if choices.arbitrary()? {
                        spoilt
                    } else {
                        Type::Optional(Box::new(ty))
                    },
                );
            }
            8 => {
                let other = self
                    .old
                    .op(OpId::new(choices.int_in_range(0..=self.old.n_ops() - 1)?));
                new.op = other.op.clone();
            }
            9 if !new.regions.is_empty() => {
                let at = choices.int_in_range(0..=new.regions.len() - 1)?;
                new.regions[at] = RegionId::new(choices.int_in_range(0..=self.old.n_regions())?);
            }
            10 => {
                return Ok(RegionId::new(
                    choices.int_in_range(0..=self.old.n_regions() - 1)?,
                ));
            }
            11 => new
                .symbols
                .push(SymbolId::new(choices.int_in_range(0..=6_usize)?)),
            _ => {
                let foreign = foreign_dim(choices)?;
                let mut failed = new.op.clone();
                let map = &mut |_| Ok::<DimId, std::convert::Infallible>(foreign);
                let Ok(()) = failed.try_map_dims(map);
                new.op = if choices.arbitrary()? {
                    failed
                } else {
                    Op::Bind
                };
            }
        }
        Ok(region)
    }

    fn finish(
        mut self,
        choices: &mut Unstructured<'_>,
        spoilt: Option<u8>,
    ) -> arbitrary::Result<Graph> {
        self.add_parameters_before(OpId::new(self.old.n_ops()));
        for region in (0..self.old.n_regions()).map(RegionId::new) {
            self.new
                .set_results(region, self.old.region(region).results.iter().copied());
        }
        let mut outputs: Vec<ValueId> = self.old.outputs().to_vec();
        if spoilt.is_some() {
            outputs.push(self.any_value(choices)?);
        }
        let names = (0..outputs.len()).map(|index| format!("y{index}"));
        self.new.set_outputs(names.zip(outputs));
        Ok(self.new)
    }

    /// Any value of the graph, or one that does not exist.
    fn any_value(&self, choices: &mut Unstructured<'_>) -> arbitrary::Result<ValueId> {
        let index = choices.int_in_range(0..=self.old.n_values())?;
        let beyond = index == self.old.n_values() && choices.arbitrary()?;
        Ok(ValueId::new(if beyond { 1 << 30 } else { index }))
    }
}

/// A size of another table: a small number here, or nonexistent.
fn foreign_dim(choices: &mut Unstructured<'_>) -> arbitrary::Result<DimId> {
    let mut table = DimTable::new();
    let n_before = choices.int_in_range(0..=80_i64)?;
    let mut dim = table.constant(7);
    for value in 0..n_before {
        dim = table.constant(1000 + value);
    }
    Ok(dim)
}
