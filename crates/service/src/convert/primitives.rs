//! The ops of the graph as kinds of nodes: one function each. Attributes have the names of the graph's text form.

use super::node::Node;
use super::{Built, Kind, row};
use kiln::internals::ir::{
    Combine, Constant, Coordinates, CumulateFunction, Dims, Extremum, Indices, Integers,
    NearestRounding, Op, PadMode, PoolFunction, ReduceFunction, Resize, ResizeMode, Window,
};
use kiln::internals::scalar::Function;
use kiln::{DType, Tensor};
use kiln_fork_lock::ForkLazy;
use smallvec::SmallVec;

const MANY: usize = usize::MAX;

/// The ops, scalar functions apart.
pub(super) const KINDS: &[Kind] = &[
    row("constant", 0..=0, "", constant),
    row("iota", 0..=0, "", iota),
    row("dims", 0..=0, "", dims),
    row("random_bits", 1..=1, "", random_bits),
    row("cast", 1..=1, "", cast),
    row("reshape", 1..=1, "b.reshape({0}, &{dims})?", reshape),
    row(
        "broadcast",
        1..=1,
        "b.broadcast_to({0}, &{dims})?",
        broadcast,
    ),
    row(
        "transpose",
        1..=1,
        "b.transpose({0}, &{permutation})?",
        transpose,
    ),
    row(
        "slice",
        1..=1,
        "b.slice({0}, &{starts}, &{sizes}, &{steps})?",
        slice,
    ),
    row("pad", 2..=2, "", pad),
    row("concat", 1..=MANY, "b.concat(&[{*}], {axis})?", concat),
    row("gather", 2..=2, "b.gather({0}, {1}, {axis})?", gather),
    row(
        "gather_elements",
        2..=2,
        "b.gather_elements({0}, {1}, {axis})?",
        gather_elements,
    ),
    row(
        "gather_nd",
        2..=2,
        "b.gather_nd({0}, {1}, {batch_axes})?",
        gather_nd,
    ),
    row("scatter_elements", 3..=3, "", scatter_elements),
    row("scatter_nd", 3..=3, "", scatter_nd),
    row(
        "update_slice",
        3..=3,
        "b.update_slice({0}, {1}, {2}, &{axes})?",
        update_slice,
    ),
    row("matmul", 2..=2, "b.matmul({0}, {1})?", matmul),
    row("conv", 2..=2, "", conv),
    row("conv_transpose", 2..=2, "", conv_transpose),
    row("reduce", 1..=1, "", reduce),
    row("arg_reduce", 1..=1, "", arg_reduce),
    row("cumulate", 1..=1, "", cumulate),
    row("pool", 1..=1, "", pool),
    row("arg_pool", 1..=1, "", arg_pool),
    row("resize", 1..=1, "", resize),
    Kind {
        results: 2..=2,
        ..row("non_zero", 1..=1, "", non_zero)
    },
    Kind {
        results: 2..=2,
        ..row("top_k", 1..=1, "", top_k)
    },
    Kind {
        results: 2..=2,
        ..row("suppress", 4..=4, "", suppress)
    },
];

/// One kind for each scalar function, under its name.
pub(super) fn functions() -> impl Iterator<Item = &'static Kind> {
    static ROWS: ForkLazy<Vec<Kind>> = ForkLazy::new(|| {
        let rows = Function::all().map(|function| Kind {
            name: function.name(),
            operands: function.arity()..=function.arity(),
            results: 1..=1,
            code: "",
            build: map,
        });
        rows.collect()
    });
    ROWS.iter()
}

fn map(node: &mut Node<'_, '_>) -> Built {
    let Some(function) = Function::by_name(node.kind()) else {
        unreachable!("the kinds are the functions' names");
    };
    node.op(Op::map(function))
}

fn constant(node: &mut Node<'_, '_>) -> Built {
    let placeholder = Constant::new(Tensor::scalar(false));
    let placeholder =
        placeholder.map_err(|error| node.attribute_problem("value", error.to_string()))?;
    node.op(Op::Constant(placeholder))
}

fn iota(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Iota {
        dims: Dims::new(),
        axis: 0,
        dtype: DType::I64,
    })
}

fn dims(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Dims { sizes: Dims::new() })
}

fn random_bits(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::RandomBits { dims: Dims::new() })
}

fn cast(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Cast { to: DType::F32 })
}

fn reshape(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Reshape { dims: Dims::new() })
}

fn broadcast(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Broadcast { dims: Dims::new() })
}

fn transpose(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Transpose {
        permutation: Indices::new(),
    })
}

fn slice(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Slice {
        starts: Dims::new(),
        sizes: Dims::new(),
        steps: Integers::new(),
    })
}

fn pad(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Pad {
        low: Dims::new(),
        high: Dims::new(),
        mode: PadMode::Constant,
    })
}

fn concat(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Concat { axis: 0 })
}

fn gather(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Gather { axis: 0 })
}

fn gather_elements(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::GatherElements { axis: 0 })
}

fn gather_nd(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::GatherNd { batch_axes: 0 })
}

fn scatter_elements(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::ScatterElements {
        axis: 0,
        combine: Combine::Set,
    })
}

fn scatter_nd(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::ScatterNd {
        combine: Combine::Set,
    })
}

fn update_slice(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::UpdateSlice {
        axes: Indices::new(),
    })
}

/// The default element type of the result: that of the first operand.
fn out(node: &Node<'_, '_>) -> Result<DType, crate::error::Problem> {
    let dtype = node.builder.dtype(node.operand(0));
    node.check(dtype)
}

fn matmul(node: &mut Node<'_, '_>) -> Built {
    let out = out(node)?;
    node.op(Op::Matmul { out })
}

fn conv(node: &mut Node<'_, '_>) -> Built {
    let out = out(node)?;
    node.op(Op::Conv {
        window: window(),
        groups: 1,
        out,
    })
}

fn conv_transpose(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::ConvTranspose {
        window: window(),
        output_padding: Dims::new(),
        groups: 1,
    })
}

fn reduce(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Reduce {
        function: ReduceFunction::Sum,
        axes: Indices::new(),
        keep_dims: false,
    })
}

fn arg_reduce(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::ArgReduce {
        extremum: Extremum::Max,
        axis: 0,
        keep_dims: false,
        last: false,
    })
}

fn cumulate(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Cumulate {
        function: CumulateFunction::Sum,
        axis: 0,
        exclusive: false,
        reverse: false,
    })
}

fn pool(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Pool {
        function: PoolFunction::Max,
        size: Integers::new(),
        window: window(),
    })
}

fn arg_pool(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::ArgPool {
        size: Integers::new(),
        window: window(),
    })
}

fn resize(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::Resize(Resize {
        axes: Indices::new(),
        sizes: Dims::new(),
        scales: SmallVec::new(),
        mode: ResizeMode::Nearest,
        coordinates: Coordinates::HalfPixel,
        rounding: NearestRounding::PreferFloor,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        antialias: false,
    }))
}

fn non_zero(node: &mut Node<'_, '_>) -> Built {
    node.op(Op::NonZero)
}

fn top_k(node: &mut Node<'_, '_>) -> Built {
    let k = node.builder.size(0);
    node.op(Op::TopK {
        k,
        axis: 0,
        extremum: Extremum::Max,
    })
}

fn suppress(node: &mut Node<'_, '_>) -> Built {
    let k = node.builder.size(0);
    node.op(Op::Suppress { k })
}

fn window() -> Window {
    Window {
        strides: Integers::new(),
        dilations: Integers::new(),
        low: Dims::new(),
        high: Dims::new(),
    }
}
