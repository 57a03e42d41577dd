//! Dispatches a demand to the lowering of its op's family.

use kiln_ir::{Op, OpData, OpId};
use kiln_kernel::NodeId;

use super::LowerError;
use super::context::{Demand, Halt, RegionLowering, Step};
use super::cumulate::Cumulate;

impl RegionLowering<'_> {
    /// The element that a demand requests, as an expression over the operands of the op that produces the value.
    pub(super) fn answer(&mut self, demand: &Demand) -> Step<NodeId> {
        let Some((id, data)) = self.producer(demand.value) else {
            let parameter = self.parameter(demand);
            return parameter
                .unwrap_or_else(|| self.load(demand.value, &demand.indices, demand.guard));
        };
        if let Some(read) = self.read_array(demand) {
            return read;
        }
        match &data.op {
            Op::Map {
                function,
                parameters,
            } => self.map(data, *function, parameters, demand),
            Op::Cast { to } => self.cast(data, *to, demand),

            Op::Iota { axis, dtype, .. } => Ok(self.iota(*axis, *dtype, demand)),
            Op::Dims { sizes } => self.sizes_as_data(sizes, demand),
            Op::RandomBits { .. } => self.random_bits(data, demand),

            Op::Broadcast { .. } => self.broadcast(data, demand),
            Op::Transpose { permutation } => self.transpose(data, permutation, demand),
            Op::Reshape { .. } => self.reshape(data, demand),
            Op::Slice {
                starts,
                sizes,
                steps,
            } => self.slice(data, starts, sizes, steps, demand),
            Op::Pad { low, mode, .. } => self.pad(data, low, *mode, demand),
            Op::Concat { axis } => self.concat(data, *axis, demand),

            Op::Matmul { out } => self.matmul(data, *out, demand),
            Op::Reduce {
                function,
                axes,
                keep_dims,
            } => self.reduce(data, *function, axes, *keep_dims, demand),
            Op::ArgReduce {
                extremum,
                axis,
                keep_dims,
                last,
            } => self.arg_reduce(data, *extremum, *axis, *keep_dims, *last, demand),
            Op::Cumulate {
                function,
                axis,
                exclusive,
                reverse,
            } => {
                let cumulate = Cumulate {
                    function: *function,
                    axis: *axis,
                    exclusive: *exclusive,
                    reverse: *reverse,
                };
                self.cumulate(data, cumulate, demand)
            }

            Op::Conv {
                window,
                groups,
                out,
            } => self.conv(data, window, *groups, *out, demand),
            Op::ConvTranspose { window, groups, .. } => {
                self.conv_transpose(data, window, *groups, demand)
            }
            Op::Pool {
                function,
                size,
                window,
            } => self.pool(data, *function, size, window, demand),
            Op::ArgPool { size, window } => self.arg_pool(data, size, window, demand),
            Op::Resize(resize) => self.resize(data, resize, demand),

            Op::Gather { axis } => self.gather(data, *axis, demand),
            Op::GatherElements { axis } => self.gather_elements(data, *axis, demand),
            Op::GatherNd { batch_axes } => self.gather_nd(id, data, *batch_axes, demand),
            Op::ScatterElements { .. } | Op::ScatterNd { .. } | Op::UpdateSlice { .. } => {
                Err(LowerError::Scatter {
                    value: demand.value,
                }
                .into())
            }
            _ => Err(unsupported(
                id,
                data,
                "it is a step of its own, not part of a kernel",
            )),
        }
    }
}

/// An op, or a form of it, that cannot be lowered.
pub(super) fn unsupported(op: OpId, data: &OpData, why: &'static str) -> Halt {
    LowerError::Unsupported {
        op,
        mnemonic: data.op.mnemonic(),
        why,
    }
    .into()
}
