//! The generic kernel of each node of a plan, built once.
//!
//! A kernel for known sizes is not lowered again: it is the generic kernel with facts about its symbols
//! ([`kiln_kernel::specialize`]), requested by a runtime for frequent sizes.

use std::collections::BTreeMap;

use kiln_ir::{Graph, OpId, ValueId};
use kiln_kernel::{Class, verify};

use crate::candidate::Refusal;
use crate::lower::{LoweredKernel, Region, lower};
use crate::op_kind::OpKind;

/// Some ops and their outputs, from which a kernel is made.
type Parts = (Vec<OpId>, Vec<ValueId>);

/// Makes and caches the kernels of nodes of one graph.
#[derive(Debug)]
pub(crate) struct FusionKernelGenerator<'a> {
    graph: &'a Graph,
    made: BTreeMap<Parts, Result<(LoweredKernel, Class), Refusal>>,
}

impl<'a> FusionKernelGenerator<'a> {
    /// A generator for nodes of a graph.
    pub(crate) fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            made: BTreeMap::new(),
        }
    }

    /// The kernel of a region for all sizes for which its facts hold, and its class. `planned` is the class that was
    /// planned.
    ///
    /// # Errors
    /// Why the region is not a kernel, or not one of that class.
    pub(crate) fn generate_generic_kernel(
        &mut self,
        region: &Region<'_>,
        planned: Option<Class>,
    ) -> Result<(LoweredKernel, Class), Refusal> {
        let key = (region.ops.to_vec(), region.outputs.to_vec());
        if let Some(known) = self.made.get(&key) {
            return known.clone();
        }
        let made = self.make(region).and_then(|(kernel, class)| {
            self.check_class(region, planned, class)?;
            Ok((kernel, class))
        });
        self.made.insert(key, made.clone());
        made
    }

    fn make(&self, region: &Region<'_>) -> Result<(LoweredKernel, Class), Refusal> {
        let refuse = |reason: String| Refusal::Lowering { reason };
        let lowered = lower(self.graph, region).map_err(|error| refuse(error.to_string()))?;
        let verified = verify(lowered.kernel.clone());
        let verified = verified.map_err(|errors| refuse(errors.to_string()))?;
        Ok((lowered, verified.classification().class))
    }

    /// Fusion with other ops must not lose the main op's schedule. A single op may have any class: a product over a
    /// single element is a map.
    fn check_class(
        &self,
        region: &Region<'_>,
        planned: Option<Class>,
        found: Class,
    ) -> Result<(), Refusal> {
        let Some(expected) = planned.filter(|&class| class != found) else {
            return Ok(());
        };
        if (expected, found) == (Class::Window, Class::Contraction) {
            // A convolution of single elements.
            return Ok(());
        }
        let heavy = |op: &&OpId| OpKind::of(&self.graph.op(**op).op).is_heavy();
        let mut ops = region.ops.iter();
        let Some(&op) = ops.find(heavy).filter(|_| region.ops.len() > 1) else {
            return Ok(());
        };
        let alone = Region {
            ops: &[op],
            outputs: &self.graph.op(op).results,
            ..*region
        };
        let alone = self.make(&alone).ok().map(|(_, class)| class);
        if alone == Some(found) && expected != Class::Attention {
            return Ok(());
        }
        Err(Refusal::Class { expected, found })
    }
}
