//! The workloads for measuring tiles: a product, and a window over an image.

use super::fixed::Fixed;
use kiln::internals::ir::Graph;
use kiln::internals::lazy_runtime::{
    CompiledProgram, Planner, PreferredLayouts, Runtime, RuntimeOptions,
};
use kiln::internals::native::NativeExecutor;
use kiln::internals::program::{BuildOptions, Program};
use kiln::internals::shape_inference::{GraphBuilder, InferError};
use kiln::internals::symbolic_shape::FactSelection;
use kiln::{DType, Tensor};
use std::error::Error;
use std::sync::Arc;

/// Steps of the reductions.
pub(crate) const STEPS: usize = 288;

/// Window size along each axis.
const TAPS: usize = 3;

/// Channels that the window reads: as many reduction steps as the product.
const CHANNELS: usize = STEPS / (TAPS * TAPS);

/// Image width: full tiles of any level.
const WIDTH: usize = 120;

const HEIGHT: usize = 4;

/// A kind of workload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// `f32[M, K]` times weights.
    Product,
    /// 3 x 3 taps over `f32[N, C, H, W]`, with a border of one, and the mean of each channel.
    Window,
}

impl Work {
    pub(crate) const ALL: [Work; 2] = [Work::Product, Work::Window];

    /// Its name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Product => "product",
            Work::Window => "window",
        }
    }

    /// The number of computed rows.
    pub(crate) fn rows(self) -> usize {
        WIDTH * HEIGHT
    }

    /// The program for results with this many columns, on one thread, with its inputs and outputs.
    pub(crate) fn program(
        self,
        compiler: Arc<Fixed>,
        columns: u32,
    ) -> (CompiledProgram, Vec<Tensor>, Vec<Tensor>) {
        let columns = columns as usize;
        let (input, output) = match self {
            Work::Product => (vec![self.rows(), STEPS], vec![self.rows(), columns]),
            Work::Window => (vec![1, CHANNELS, HEIGHT, WIDTH], vec![1, columns, 1, 1]),
        };
        let tensor = |shape: &[usize]| Tensor::full(shape, 0.5_f32).expect("there is memory");
        let options = RuntimeOptions::new().with_variants(None);
        let executor = Arc::new(NativeExecutor::new());
        let runtime = Arc::new(Runtime::new(Some(compiler), executor, options));
        let graph = self.graph(columns).expect("the types are right");
        let layouts = PreferredLayouts::of(Arc::clone(&runtime));
        let planner = Arc::new(Laid { graph, layouts });
        let program = CompiledProgram::new(runtime, planner).expect("a plan");
        (program, vec![tensor(&input)], vec![tensor(&output)])
    }

    fn graph(self, columns: usize) -> Result<Graph, InferError> {
        let mut builder = GraphBuilder::new("tile");
        let result = match self {
            Work::Product => {
                let (rows, steps) = (builder.symbol("M")?, builder.size(STEPS as i64));
                let x = builder.input("x", DType::F32, &[rows, steps]);
                let y = builder.constant(weights(&[STEPS, columns]))?;
                builder.matmul(x, y)?
            }
            Work::Window => {
                let (pictures, channels) = (builder.symbol("N")?, builder.size(CHANNELS as i64));
                let places = [builder.symbol("H")?, builder.symbol("W")?];
                let shape = [pictures, channels, places[0], places[1]];
                let x = builder.input("x", DType::F32, &shape);
                let y = builder.constant(weights(&[columns, CHANNELS, TAPS, TAPS]))?;
                let window = builder.window(&[1; 2], &[1; 2], &[1; 2], &[1; 2]);
                // The result is read, so that it is laid out like intermediate results of a model.
                let picture = builder.conv(x, y, window, 1)?;
                builder.global_mean_pool(picture)?
            }
        };
        builder.finish(&[("z", result)])
    }
}

/// Equal weights would be folded into one number.
fn weights(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product())
        .map(|place: usize| (place % 101) as f32 / 101.0)
        .collect();
    Tensor::from_slice(shape, &elements).expect("it fits")
}

/// Plans with the layouts that the compiler prefers, as for models.
struct Laid {
    graph: Graph,
    layouts: PreferredLayouts,
}

impl Planner for Laid {
    fn plan(&self, _facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        let plan = kiln::internals::fusion::plan(
            &self.graph,
            &kiln::internals::fusion::FusionOptions::new(),
        )?;
        let options = BuildOptions::default();
        let program =
            kiln::internals::program::build(self.graph.clone(), &plan, &self.layouts, &options);
        Ok(program?)
    }
}
