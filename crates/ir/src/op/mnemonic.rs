//! The mnemonic of each op in the text form, and the op of each mnemonic.
//!
//! Element-wise ops have the name of their scalar function, so the core mnemonics and the function names are disjoint
//! (checked by a test).

use super::Op;
use super::attributes::{
    Combine, CumulateFunction, Extremum, Indices, Integers, PadMode, PoolFunction, ReduceFunction,
    Resize, Window,
};
use crate::constant::Constant;
use crate::ty::Dims;
use kiln_scalar::Function;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

impl Op {
    /// The word that names the op in the text form, such as `matmul` or `relu`.
    pub fn mnemonic(&self) -> &'static str {
        match self {
            Self::Constant(_) => "constant",
            Self::Iota { .. } => "iota",
            Self::Dims { .. } => "dims",
            Self::RandomBits { .. } => "random_bits",
            Self::Map { function, .. } => function.name(),
            Self::Cast { .. } => "cast",
            Self::Reshape { .. } => "reshape",
            Self::Broadcast { .. } => "broadcast",
            Self::Transpose { .. } => "transpose",
            Self::Slice { .. } => "slice",
            Self::Pad { .. } => "pad",
            Self::Concat { .. } => "concat",
            Self::Gather { .. } => "gather",
            Self::GatherElements { .. } => "gather_elements",
            Self::GatherNd { .. } => "gather_nd",
            Self::ScatterElements { .. } => "scatter_elements",
            Self::ScatterNd { .. } => "scatter_nd",
            Self::UpdateSlice { .. } => "update_slice",
            Self::Matmul { .. } => "matmul",
            Self::Conv { .. } => "conv",
            Self::ConvTranspose { .. } => "conv_transpose",
            Self::Reduce { .. } => "reduce",
            Self::ArgReduce { .. } => "arg_reduce",
            Self::Cumulate { .. } => "cumulate",
            Self::Pool { .. } => "pool",
            Self::ArgPool { .. } => "arg_pool",
            Self::Resize(_) => "resize",
            Self::Bind => "bind",
            Self::NonZero => "non_zero",
            Self::TopK { .. } => "top_k",
            Self::Suppress { .. } => "suppress",
            Self::If => "if",
            Self::Loop { .. } => "loop",
            Self::Custom { .. } => "custom",
        }
    }

    /// The op of a mnemonic, whose attributes still have to be filled in through [`visit_fields`](Self::visit_fields);
    /// `dim` and `constant` are placeholders for sizes and tensors until then, and results have dtype `out` unless the
    /// attributes state otherwise.
    pub fn of_mnemonic(
        mnemonic: &str,
        dim: DimId,
        constant: &Constant,
        out: DType,
    ) -> Option<Self> {
        let dims = Dims::new();
        Some(match mnemonic {
            "constant" => Self::Constant(constant.clone()),
            "iota" => Self::Iota {
                dims,
                axis: 0,
                dtype: DType::I64,
            },
            "dims" => Self::Dims { sizes: dims },
            "random_bits" => Self::RandomBits { dims },
            "cast" => Self::Cast { to: DType::F32 },
            "reshape" => Self::Reshape { dims },
            "broadcast" => Self::Broadcast { dims },
            "transpose" => Self::Transpose {
                permutation: Indices::new(),
            },
            "slice" => Self::Slice {
                starts: dims.clone(),
                sizes: dims,
                steps: Integers::new(),
            },
            "pad" => Self::Pad {
                low: dims.clone(),
                high: dims,
                mode: PadMode::Constant,
            },
            "concat" => Self::Concat { axis: 0 },
            "gather" => Self::Gather { axis: 0 },
            "gather_elements" => Self::GatherElements { axis: 0 },
            "gather_nd" => Self::GatherNd { batch_axes: 0 },
            "scatter_elements" => Self::ScatterElements {
                axis: 0,
                combine: Combine::Set,
            },
            "scatter_nd" => Self::ScatterNd {
                combine: Combine::Set,
            },
            "update_slice" => Self::UpdateSlice {
                axes: Indices::new(),
            },
            "matmul" => Self::Matmul { out },
            "conv" => Self::Conv {
                window: Window::empty(),
                groups: 1,
                out,
            },
            "conv_transpose" => Self::ConvTranspose {
                window: Window::empty(),
                output_padding: dims,
                groups: 1,
            },
            "reduce" => Self::Reduce {
                function: ReduceFunction::Sum,
                axes: Indices::new(),
                keep_dims: false,
            },
            "arg_reduce" => Self::ArgReduce {
                extremum: Extremum::Max,
                axis: 0,
                keep_dims: false,
                last: false,
            },
            "cumulate" => Self::Cumulate {
                function: CumulateFunction::Sum,
                axis: 0,
                exclusive: false,
                reverse: false,
            },
            "pool" => Self::Pool {
                function: PoolFunction::Max,
                size: Integers::new(),
                window: Window::empty(),
            },
            "arg_pool" => Self::ArgPool {
                size: Integers::new(),
                window: Window::empty(),
            },
            "resize" => Self::Resize(Resize::empty()),
            "bind" => Self::Bind,
            "non_zero" => Self::NonZero,
            "top_k" => Self::TopK {
                k: dim,
                axis: 0,
                extremum: Extremum::Max,
            },
            "suppress" => Self::Suppress { k: dim },
            "if" => Self::If,
            "loop" => Self::Loop { carried: 0 },
            "custom" => Self::Custom {
                name: String::new(),
                arguments: String::new(),
            },
            name => Self::map(Function::by_name(name)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mnemonic that is not a scalar function's name.
    const CORE_MNEMONICS: &[&str] = &[
        "constant",
        "iota",
        "dims",
        "random_bits",
        "cast",
        "reshape",
        "broadcast",
        "transpose",
        "slice",
        "pad",
        "concat",
        "gather",
        "gather_elements",
        "gather_nd",
        "scatter_elements",
        "scatter_nd",
        "update_slice",
        "matmul",
        "conv",
        "conv_transpose",
        "reduce",
        "arg_reduce",
        "cumulate",
        "pool",
        "arg_pool",
        "resize",
        "bind",
        "non_zero",
        "top_k",
        "if",
        "loop",
        "custom",
    ];

    #[test]
    fn every_core_mnemonic_is_the_one_its_op_prints() {
        let constant = kiln_tensor::Tensor::zeros(DType::Bool, &[])
            .and_then(Constant::new)
            .unwrap();
        for &mnemonic in CORE_MNEMONICS {
            let op = Op::of_mnemonic(mnemonic, DimId::from_u32(0), &constant, DType::F32);
            assert_eq!(op.map(|op| op.mnemonic()), Some(mnemonic));
        }
    }

    #[test]
    fn no_scalar_function_is_named_like_a_core_op() {
        for function in Function::all() {
            assert!(
                !CORE_MNEMONICS.contains(&function.name()),
                "{}",
                function.name()
            );
        }
    }
}
