//! Conversion between a program and its stored form.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, PrimaryMap};
use kiln_ir::text::ReadLimits;
use kiln_ir::{BlobMap, Constant, Digest, Graph, Op, OpId, ValueId, text};
use kiln_symbolic_shape::text::{Cursor, Diagnostic, parse_dim, parse_predicate};
use kiln_symbolic_shape::{DimId, DimTable, PlanFact, RequirementKind, SizeRequirement, SymbolId};

use super::walk::Walk;
use super::{
    FORMAT, StoredBlock, StoredKernel, StoredProgram, StoredRequirement, StoredSegment, StoredStep,
    check,
};
use crate::error::ProgramError;
use crate::plan_operation::{PlanOperation, RuntimeShapeInjector};
use crate::program::{Block, Program, ProgramKernel, Requirement, Segment};
use crate::sizes::SizeTable;
use crate::step::{Action, Step};

fn damaged(problem: impl Into<String>) -> ProgramError {
    ProgramError::Damaged {
        problem: problem.into(),
    }
}

impl Program {
    /// The program as data. The constants that the graph's text omits go into `blobs`.
    ///
    /// # Errors
    /// A program that refers to something its graph lacks.
    pub fn store(&self, blobs: &mut BlobMap) -> Result<StoredProgram, ProgramError> {
        let dims = self.graph.dims();
        let numbers = Walk::over(&self.graph).numbers();
        let op = |id: OpId| numbers.ops.get(&id).map(|&number| OpId::new(number));
        let value = |id: ValueId| numbers.values.get(&id).map(|&number| ValueId::new(number));
        for (_, data) in self.graph.ops() {
            match &data.op {
                Op::Constant(constant) if !constant.is_inline() => blobs.insert(constant.clone()),
                _ => {}
            }
        }
        let name = |&symbol: &SymbolId| dims.symbol_name(symbol).to_owned();
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.values() {
            let mut segments = Vec::with_capacity(block.segments.len());
            for segment in &block.segments {
                let steps = segment.steps.iter().map(|step| {
                    let mut step = step.clone();
                    let symbols = symbols_of(&mut step.action).map_or_else(Vec::new, |symbols| {
                        std::mem::take(symbols).iter().map(name).collect()
                    });
                    renumber(&mut step, &op, &value)
                        .ok_or_else(|| ProgramError::plan("a step of another graph"))?;
                    Ok(StoredStep { step, symbols })
                });
                let text = |dim| dims.display(dim).to_string();
                segments.push(StoredSegment {
                    steps: steps.collect::<Result<_, ProgramError>>()?,
                    slots: segment.slots.clone(),
                    own: segment.own.clone(),
                    sizes: segment.sizes.clone(),
                    facts: segment
                        .check
                        .iter()
                        .flat_map(PlanOperation::facts)
                        .map(|fact| (text(fact.left), text(fact.right), fact.origin.clone()))
                        .collect(),
                    contract: segment
                        .contract
                        .iter()
                        .map(|asked| store_requirement(asked, &text))
                        .collect(),
                    requirements: segment
                        .requirements
                        .iter()
                        .map(|required| {
                            let predicate = dims.display_predicate(&required.predicate);
                            (predicate.to_string(), required.message.clone())
                        })
                        .collect(),
                });
            }
            blocks.push(StoredBlock {
                region: numbers
                    .regions
                    .get(&block.region)
                    .copied()
                    .unwrap_or_default(),
                buffers: block.buffers.values().cloned().collect(),
                parameters: block.parameters.clone(),
                symbols: block.symbols.iter().map(name).collect(),
                segments,
                results: block.results.clone(),
                donations: block.donations.clone(),
            });
        }
        let kernels = self.kernels.values().map(|kernel| StoredKernel {
            name: kernel.name.clone(),
            text: kiln_kernel::text::print(kernel.kernel.kernel()),
            uses: kernel.uses,
        });
        let constants = self.constants.values();
        let constants = constants.map(|c| (c.digest().to_string(), c.is_inline()));
        Ok(StoredProgram {
            format: FORMAT,
            graph: text::print(&self.graph),
            sizes: self
                .sizes
                .iter()
                .map(|(_, dim)| dims.display(dim).to_string())
                .collect(),
            kernels: kernels.collect(),
            constants: constants.collect(),
            blocks,
            body: self.body,
        })
    }

    /// The program that was stored; large constants come from `blobs`.
    ///
    /// # Errors
    /// Another format, a missing constant, or any damage.
    pub fn load(stored: &StoredProgram, blobs: &BlobMap) -> Result<Self, ProgramError> {
        Self::load_within(stored, blobs, &ReadLimits::default())
    }

    /// As [`Program::load`], with other limits for its texts.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_within(
        stored: &StoredProgram,
        blobs: &BlobMap,
        limits: &ReadLimits,
    ) -> Result<Self, ProgramError> {
        if stored.format != FORMAT {
            return Err(ProgramError::Version {
                expected: FORMAT,
                found: stored.format,
            });
        }
        for (digest, is_inline) in &stored.constants {
            let parsed: Digest = digest.parse().map_err(|_| damaged("an invalid digest"))?;
            if !is_inline && blobs.get(parsed).is_none() {
                return Err(ProgramError::MissingConstant {
                    digest: digest.clone(),
                });
            }
        }
        let types = &mut text::AnnotatedTypes;
        let mut graph = text::read_within(&stored.graph, blobs, types, limits)
            .map_err(|errors| damaged(errors.to_string()))?;
        let n_symbols = graph.dims().symbols().count();
        let walk = Walk::over(&graph);
        let mut sizes = SizeTable::default();
        for text in &stored.sizes {
            sizes.push(parsed(text, graph.dims_mut(), parse_dim)?);
        }
        let mut kernels = PrimaryMap::new();
        for kernel in &stored.kernels {
            let form = kiln_kernel::text::read_within(&kernel.text, limits.dims.clone());
            let form = form.map_err(|errors| damaged(errors.to_string()))?;
            let verified = kiln_kernel::verify(form);
            let verified = verified.map_err(|errors| damaged(errors.to_string()))?;
            let (name, uses) = (kernel.name.clone(), kernel.uses);
            kernels.push(ProgramKernel {
                name,
                kernel: verified,
                uses,
            });
        }
        let constants = load_constants(stored, &graph)?;
        let mut blocks = PrimaryMap::new();
        for block in &stored.blocks {
            blocks.push(load_block(block, &mut graph, &walk)?);
        }
        // A name that is not in the graph would have become a new symbol.
        if graph.dims().symbols().count() != n_symbols {
            return Err(damaged("a size of symbols that the graph lacks"));
        }
        // Another plan of this graph has the same requirements.
        for block in blocks.values() {
            let block: &Block = block;
            let asked = block.segments.iter().flat_map(|segment| &segment.contract);
            graph.set_requirements(block.region, asked.cloned().collect(), Vec::new());
        }
        let program = Self {
            graph,
            sizes,
            kernels,
            constants,
            blocks,
            body: stored.body,
        };
        check::check(&program).map_err(damaged)?;
        Ok(program)
    }
}

fn load_constants(
    stored: &StoredProgram,
    graph: &Graph,
) -> Result<PrimaryMap<crate::ConstantId, Constant>, ProgramError> {
    let mut known: HashMap<String, Constant> = HashMap::new();
    for (_, data) in graph.ops() {
        if let Op::Constant(constant) = &data.op {
            known.insert(constant.digest().to_string(), constant.clone());
        }
    }
    let mut constants = PrimaryMap::new();
    for (digest, _) in &stored.constants {
        let constant = known.get(digest).cloned();
        constants.push(constant.ok_or_else(|| damaged("a constant that the graph lacks"))?);
    }
    Ok(constants)
}

fn load_block(stored: &StoredBlock, graph: &mut Graph, walk: &Walk) -> Result<Block, ProgramError> {
    let region = walk.regions.get(stored.region).copied();
    let region = region.ok_or_else(|| damaged("a region that the graph lacks"))?;
    let named = |graph: &Graph, names: &[String]| {
        let symbol = |name: &String| {
            let symbol = graph.dims().symbol_named(name);
            symbol.ok_or_else(|| damaged(format!("the symbol {}", name.escape_debug())))
        };
        names
            .iter()
            .map(symbol)
            .collect::<Result<Vec<SymbolId>, _>>()
    };
    let op = |id: OpId| walk.ops.get(id.index()).copied();
    let value = |id: ValueId| walk.values.get(id.index()).copied();
    let mut segments = Vec::with_capacity(stored.segments.len());
    for segment in &stored.segments {
        let mut steps = Vec::with_capacity(segment.steps.len());
        for StoredStep { step, symbols } in &segment.steps {
            let mut step = step.clone();
            renumber(&mut step, &op, &value)
                .ok_or_else(|| damaged("a step of an op that the graph lacks"))?;
            if let Some(list) = symbols_of(&mut step.action) {
                *list = named(graph, symbols)?;
            }
            steps.push(step);
        }
        let mut facts = Vec::with_capacity(segment.facts.len());
        for (left, right, origin) in &segment.facts {
            let left = parsed(left, graph.dims_mut(), parse_dim)?;
            let right = parsed(right, graph.dims_mut(), parse_dim)?;
            facts.push(PlanFact {
                left,
                right,
                origin: origin.clone(),
            });
        }
        let asked = segment.contract.iter();
        let asked = asked.map(|asked| load_requirement(asked, graph.dims_mut()));
        let contract = asked.collect::<Result<Vec<_>, _>>()?;
        let mut requirements = Vec::with_capacity(segment.requirements.len());
        for (predicate, message) in &segment.requirements {
            let predicate = parsed(predicate, graph.dims_mut(), parse_predicate)?;
            requirements.push(Requirement {
                predicate,
                message: message.clone(),
            });
        }
        segments.push(Segment {
            steps,
            slots: segment.slots.clone(),
            own: segment.own.clone(),
            sizes: segment.sizes.clone(),
            check: RuntimeShapeInjector::new(graph.dims()).inject_shape_check(facts),
            contract,
            requirements,
        });
    }
    Ok(Block {
        region,
        buffers: stored.buffers.iter().cloned().collect(),
        parameters: stored.parameters.clone(),
        symbols: named(graph, &stored.symbols)?,
        segments,
        results: stored.results.clone(),
        donations: stored.donations.clone(),
    })
}

fn store_requirement(asked: &SizeRequirement, text: &dyn Fn(DimId) -> String) -> StoredRequirement {
    let all = |dims: &[DimId]| dims.iter().map(|&dim| text(dim)).collect();
    let (kind, number) = asked.kind.parts();
    StoredRequirement {
        kind: kind.to_owned(),
        number,
        what: asked.what.to_string(),
        origin: asked.origin.clone(),
        left: all(&asked.left),
        right: all(&asked.right),
    }
}

fn load_requirement(
    stored: &StoredRequirement,
    dims: &mut DimTable,
) -> Result<SizeRequirement, ProgramError> {
    let kind = RequirementKind::from_parts(&stored.kind, stored.number)
        .ok_or_else(|| damaged("a requirement of unknown kind"))?;
    let mut all = |texts: &[String]| {
        let sizes = texts.iter().map(|text| parsed(text, dims, parse_dim));
        sizes.collect::<Result<Vec<_>, _>>()
    };
    Ok(SizeRequirement {
        kind,
        what: stored.what.clone().into(),
        origin: stored.origin.clone(),
        position: Vec::new(),
        left: all(&stored.left)?,
        right: all(&stored.right)?,
    })
}

/// An expression that spans the whole text.
fn parsed<T>(
    text: &str,
    dims: &mut DimTable,
    read: impl FnOnce(&mut Cursor<'_>, &mut DimTable) -> Result<T, Diagnostic>,
) -> Result<T, ProgramError> {
    let mut cursor = Cursor::new(text);
    let value = read(&mut cursor, dims).map_err(|error| damaged(format!("{error:?}")))?;
    if cursor.at_end() {
        Ok(value)
    } else {
        Err(damaged("an expression with trailing text"))
    }
}

/// The symbols that an action binds.
fn symbols_of(action: &mut Action) -> Option<&mut Vec<SymbolId>> {
    match action {
        Action::Bind { symbols, .. }
        | Action::If { symbols, .. }
        | Action::Loop { symbols, .. }
        | Action::Interpret { symbols, .. } => Some(symbols),
        Action::Kernel(_) | Action::Builtin { .. } | Action::Dims { .. } => None,
    }
}

/// Remaps the ops and values that a step refers to.
fn renumber(
    step: &mut Step,
    op: &dyn Fn(OpId) -> Option<OpId>,
    value: &dyn Fn(ValueId) -> Option<ValueId>,
) -> Option<()> {
    for id in &mut step.ops {
        *id = op(*id)?;
    }
    match &mut step.action {
        Action::Kernel(launch) => {
            for id in &mut launch.values {
                *id = value(*id)?;
            }
        }
        Action::Interpret {
            inputs, outputs, ..
        } => {
            for (id, _) in inputs.iter_mut().chain(outputs) {
                *id = value(*id)?;
            }
        }
        _ => {}
    }
    Some(())
}
