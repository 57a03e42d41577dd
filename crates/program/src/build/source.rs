//! The nodes of a [`FusionPlan`] as the builder's input: verified kernels, with sizes in the graph's table.

use std::collections::HashMap;

use kiln_fusion::{FusionNode, FusionNodeId, FusionPlan, LoweredKernel, NodeKind as Fused};
use kiln_ir::{Graph, RegionId};
use kiln_symbolic_shape::DimImport;

use super::node::{KernelNode, NodeKind, NodeSource, StepNode};
use super::size_error;
use crate::error::ProgramError;

/// A plan's nodes by region.
pub(super) struct Planned(HashMap<RegionId, Vec<StepNode>>);

impl Planned {
    /// Takes the plan's nodes for each region. Requirements may add expressions to the graph's table.
    pub(super) fn new(graph: &mut Graph, plan: &FusionPlan) -> Result<Self, ProgramError> {
        let mut regions = HashMap::new();
        for node in plan.nodes() {
            if regions.contains_key(&node.region) {
                continue;
            }
            let nodes = plan.nodes_of(node.region).iter();
            let nodes = nodes.map(|&id| take_node(graph, plan, id));
            regions.insert(node.region, nodes.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Self(regions))
    }
}

impl NodeSource for Planned {
    fn nodes(&self, region: RegionId) -> Vec<StepNode> {
        self.0.get(&region).cloned().unwrap_or_default()
    }
}

fn take_node(
    graph: &mut Graph,
    plan: &FusionPlan,
    id: FusionNodeId,
) -> Result<StepNode, ProgramError> {
    let node = plan.node(id);
    if let Some(op) = node.ops.iter().find(|&&op| !graph.contains_op(op)) {
        return Err(ProgramError::plan(format!("{op}, which the graph lacks")));
    }
    let kind = match &node.kind {
        Fused::Kernel => match &node.kernel {
            Some(lowered) => NodeKind::Kernel(Box::new(take_kernel(graph, lowered)?)),
            None => NodeKind::Interpret {
                reason: reason(node),
            },
        },
        Fused::View => NodeKind::View,
        Fused::Builtin(_) => NodeKind::Builtin,
        Fused::Control => NodeKind::Control,
        Fused::Constant | Fused::Bind | Fused::Dims => NodeKind::Host,
        _ => NodeKind::Interpret {
            reason: reason(node),
        },
    };
    Ok(StepNode {
        name: node.name.clone(),
        ops: node.all_ops(),
        kind,
        facts: node.facts.clone(),
    })
}

fn reason(node: &FusionNode) -> String {
    node.notes
        .last()
        .cloned()
        .unwrap_or_else(|| "as planned".to_owned())
}

/// A lowered kernel, verified, with its requirements expressed in the graph's sizes.
pub(super) fn take_kernel(
    graph: &mut Graph,
    lowered: &LoweredKernel,
) -> Result<KernelNode, ProgramError> {
    let invalid = |problem: String| ProgramError::Kernel {
        kernel: lowered.kernel.name().to_owned(),
        problem,
    };
    let kernel = super::kernels::verify(lowered.kernel.clone())?;
    let table = kernel.kernel().dims();
    let symbols: Vec<_> = table.symbols().collect();
    if symbols.len() != lowered.symbols.len() {
        let (expected, found) = (symbols.len(), lowered.symbols.len());
        return Err(invalid(format!(
            "expected values of {expected} symbols, found {found}"
        )));
    }
    let mut import = DimImport::new();
    for (&symbol, &dim) in symbols.iter().zip(&lowered.symbols) {
        import.map(symbol, dim);
    }
    let mut requirements = Vec::with_capacity(lowered.requirements.len());
    for (predicate, message) in &lowered.requirements {
        let predicate =
            predicate.try_map_dims(&mut |dim| graph.dims_mut().import(table, dim, &mut import));
        let predicate = predicate.map_err(size_error(format!("what {message} requires")))?;
        requirements.push((predicate, message.clone()));
    }
    let initialise = lowered.initialise.map(|(buffer, value)| {
        (
            kernel
                .kernel()
                .buffers()
                .keys()
                .position(|id| id == buffer)
                .unwrap_or_default(),
            value,
        )
    });
    Ok(KernelNode {
        kernel,
        operands: lowered.operands.clone(),
        symbols: lowered.symbols.clone(),
        initialise,
        requirements,
    })
}
