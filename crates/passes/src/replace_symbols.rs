//! Replaces symbols that are no longer bound with expressions.
//!
//! The graph is copied over a new table of sizes without those symbols: its facts, plan facts and hints are the old ones
//! with the expressions substituted. On an error (a fact that then cannot hold, a size that overflows) the caller keeps the
//! original graph.

use kiln_ir::{Graph, NewOp, RegionId, Type, ValueId};
use kiln_symbolic_shape::{
    DimError, DimId, DimImport, DimTable, PlanFact, SizeRequirement, SymbolId,
};

/// Symbols with their values, in the order in which they were defined.
pub(crate) type Replacements = Vec<(SymbolId, DimId)>;

/// Copies a graph with each symbol replaced.
pub(crate) fn replace_symbols(
    graph: &Graph,
    replacements: &Replacements,
) -> Result<Graph, DimError> {
    let (dims, import) = replaced_table(graph.dims(), replacements)?;
    let mut new = Graph::with_dims(graph.name(), dims);
    new.metadata_mut().clone_from(graph.metadata());
    let body = new.body();
    let mut copy = Copy {
        old: graph,
        new,
        import,
        values: vec![None; graph.n_values()],
    };
    copy.region(graph.body(), body)?;
    let names = graph.output_names().to_vec();
    let outputs = copy.new.outputs().to_vec();
    copy.new.set_outputs(names.into_iter().zip(outputs));
    Ok(copy.new)
}

fn replaced_table(
    from: &DimTable,
    replacements: &Replacements,
) -> Result<(DimTable, DimImport), DimError> {
    let mut table = DimTable::with_limits(from.limits().clone());
    let mut import = DimImport::new();
    for &(symbol, dim) in replacements {
        let dim = table.import(from, dim, &mut import)?;
        import.map(symbol, dim);
    }
    for symbol in from.symbols() {
        table.import(from, from.dim(symbol), &mut import)?;
    }
    table.import_facts(from, &mut import)?;
    for fact in from.plan_facts() {
        let left = table.import(from, fact.left, &mut import)?;
        let right = table.import(from, fact.right, &mut import)?;
        if left != right {
            table.expect(PlanFact {
                left,
                right,
                origin: fact.origin.clone(),
            });
        }
    }
    Ok((table, import))
}

struct Copy<'a> {
    old: &'a Graph,
    new: Graph,
    import: DimImport,
    values: Vec<Option<ValueId>>,
}

impl Copy<'_> {
    /// Recursion is bounded by the verifier's limit on nested regions.
    fn region(&mut self, from: RegionId, into: RegionId) -> Result<(), DimError> {
        let data = self.old.region(from);
        for &symbol in &data.symbols {
            if let Some(symbol) = self.symbol(symbol) {
                self.new.add_region_symbol(into, symbol);
            }
        }
        for &parameter in &data.parameters {
            let ty = self.ty(parameter)?;
            let copy = self.new.add_parameter(into, ty);
            self.map(parameter, copy);
        }
        for &op in &data.ops {
            let data = self.old.op(op);
            let types = data
                .results
                .iter()
                .map(|&value| self.ty(value))
                .collect::<Result<Vec<_>, _>>()?;
            let operands: Vec<ValueId> = data
                .operands
                .iter()
                .map(|&value| self.value(value))
                .collect();
            let mut new = NewOp::new(data.op.clone(), operands, types);
            new.op.try_map_dims(&mut |dim| self.dim(dim))?;
            new.symbols = data
                .symbols
                .iter()
                .filter_map(|&symbol| self.symbol(symbol))
                .collect();
            new.origin.clone_from(&data.origin);
            for &region in &data.regions {
                let copy = self.new.add_region();
                self.region(region, copy)?;
                new.regions.push(copy);
            }
            let copy = self.new.append(into, new);
            let results = self.new.op(copy).results.clone();
            for (&from, &to) in data.results.iter().zip(&results) {
                self.map(from, to);
            }
        }
        let results: Vec<ValueId> = data
            .results
            .iter()
            .map(|&value| self.value(value))
            .collect();
        self.new.set_results(into, results);
        let requirements = self.requirements(&data.requirements)?;
        let position = data.position.clone();
        self.new.set_requirements(into, requirements, position);
        Ok(())
    }

    /// A region's requirements on sizes, except those known to hold with the expressions substituted.
    fn requirements(&mut self, old: &[SizeRequirement]) -> Result<Vec<SizeRequirement>, DimError> {
        let (from, dims) = (self.old.dims(), self.new.dims_mut());
        let import = &mut self.import;
        let asked = old
            .iter()
            .map(|asked| dims.import_requirement(from, asked, import));
        let mut asked = asked.collect::<Result<Vec<_>, _>>()?;
        asked.retain(|asked| !dims.always_meets(asked));
        Ok(asked)
    }

    fn dim(&mut self, dim: DimId) -> Result<DimId, DimError> {
        self.new
            .dims_mut()
            .import(self.old.dims(), dim, &mut self.import)
    }

    fn ty(&mut self, value: ValueId) -> Result<Type, DimError> {
        self.old.ty(value).try_map_dims(&mut |dim| self.dim(dim))
    }

    /// A symbol in the new table; `None` if it was replaced by an expression.
    fn symbol(&self, symbol: SymbolId) -> Option<SymbolId> {
        self.import
            .get(symbol)
            .and_then(|dim| self.new.dims().as_symbol(dim))
    }

    fn map(&mut self, old: ValueId, new: ValueId) {
        self.new
            .set_value_name(new, self.old.value(old).name.as_deref());
        if let Some(entry) = self.values.get_mut(old.as_u32() as usize) {
            *entry = Some(new);
        }
    }

    fn value(&self, old: ValueId) -> ValueId {
        match self.values.get(old.as_u32() as usize).copied().flatten() {
            Some(value) => value,
            None => {
                unreachable!("{old} is read before it was copied; the graph passed no verifier")
            }
        }
    }
}
