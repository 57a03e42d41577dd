//! Kernels in stored form: in the layout of their buffers, canonical, and deduplicated.

use std::collections::HashMap;
use std::sync::Arc;

use cranelift_entity::EntityRef;
use kiln_kernel::{CanonicalKernel, Kernel, VerifiedKernel, canonicalize};
use kiln_symbolic_shape::{DimId, DimImport};

use super::layout::Orders;
use super::node::KernelNode;
use super::{Builder, size_error};
use crate::buffer::Place;
use crate::error::ProgramError;
use crate::ids::KernelId;
use crate::program::{Block, ProgramKernel};
use crate::step::Action;

/// Kernels known so far, by their text before canonicalisation, and after.
#[derive(Default)]
pub(super) struct KnownKernels {
    raw: HashMap<String, (KernelId, Arc<CanonicalKernel>)>,
    canonical: HashMap<String, KernelId>,
}

/// Gives every kernel step of a block its kernel. Until then the step's kernel is a position in `nodes`.
pub(super) fn finish_kernels(
    program: &mut Builder<'_>,
    block: &mut Block,
    nodes: &[KernelNode],
    orders: &Orders,
) -> Result<(), ProgramError> {
    let steps = block
        .segments
        .iter_mut()
        .flat_map(|segment| &mut segment.steps);
    for step in steps {
        let Action::Kernel(launch) = &mut step.action else {
            continue;
        };
        let node = nodes
            .get(launch.kernel.index())
            .ok_or_else(|| ProgramError::plan("a missing kernel"))?;
        let mut symbols = node.symbols.clone();
        let mut kernel = None;
        for (position, &buffer) in launch.operands.iter().enumerate() {
            let data = &block.buffers[buffer];
            let Some(strides) = &data.strides else {
                continue;
            };
            let mut before = kernel
                .take()
                .unwrap_or_else(|| node.kernel.kernel().clone());
            let mut strides: Vec<DimId> = strides
                .iter()
                .map(|&size| program.sizes.dim(size))
                .collect();
            if let Some(order) = orders.get(&buffer) {
                // Its axes are put in memory order, so that it is row-major again for the kernel.
                if let Some(id) = before.buffers().keys().nth(position) {
                    before = before.with_axis_order(id, order);
                }
                strides = order
                    .iter()
                    .filter_map(|&axis| strides.get(axis).copied())
                    .collect();
            }
            let is_dense =
                orders.contains_key(&buffer) && !matches!(data.place, Place::View { .. });
            kernel = Some(if is_dense {
                before
            } else {
                lay_out(program, before, position, &strides, &mut symbols)
            });
        }
        let verified = match kernel {
            None => node.kernel.clone(),
            Some(kernel) => verify(kernel.in_memory_order())?,
        };
        let (id, canonical) = program.canonical_kernel(&verified);
        let mut import = DimImport::new();
        for (symbol, &dim) in verified.kernel().dims().symbols().zip(&symbols) {
            import.map(symbol, dim);
        }
        launch.kernel = id;
        launch.symbols.clear();
        for &value in &canonical.values {
            let dims = program.graph.dims_mut();
            let value = dims.import(&canonical.dims, value, &mut import);
            let value = value.map_err(size_error(format!("a size of {}", step.name)))?;
            launch.symbols.push(program.sizes.intern(value));
        }
    }
    Ok(())
}

/// A kernel with a different layout of one buffer; strides that are not constants become new symbols.
fn lay_out(
    program: &Builder<'_>,
    kernel: Kernel,
    position: usize,
    strides: &[DimId],
    symbols: &mut Vec<DimId>,
) -> Kernel {
    let Some(buffer) = kernel.buffers().keys().nth(position) else {
        return kernel;
    };
    let graph = program.graph.dims();
    kernel.with_strides(buffer, |dims| {
        let stride = |&stride: &DimId| match graph.as_constant(stride) {
            Some(value) => dims.constant(value),
            None => {
                let symbol = dims.fresh("stride");
                symbols.push(stride);
                dims.dim(symbol)
            }
        };
        Some(strides.iter().map(stride).collect())
    })
}

/// Verifies a kernel.
pub(super) fn verify(kernel: Kernel) -> Result<VerifiedKernel, ProgramError> {
    let name = kernel.name().to_owned();
    kiln_kernel::verify(kernel).map_err(|errors| ProgramError::Kernel {
        kernel: name,
        problem: errors.to_string(),
    })
}

impl Builder<'_> {
    /// The canonical form of a kernel, and the kernel of the program with that form.
    fn canonical_kernel(&mut self, kernel: &VerifiedKernel) -> (KernelId, Arc<CanonicalKernel>) {
        let text = kiln_kernel::text::print(kernel.kernel());
        let kernels = &mut self.kernels;
        let known = &mut self.known;
        let (id, canonical) = known.raw.entry(text).or_insert_with(|| {
            let canonical = canonicalize(kernel);
            let name = kernel.kernel().name();
            let id = *known.canonical.entry(canonical.text()).or_insert_with(|| {
                let (name, kernel) = (name.to_owned(), canonical.kernel.clone());
                kernels.push(ProgramKernel {
                    name,
                    kernel,
                    uses: 0,
                })
            });
            (id, Arc::new(canonical))
        });
        kernels[*id].uses += 1;
        (*id, Arc::clone(canonical))
    }
}
