//! Tests on random graphs: the pipeline may not change any bit of a result, except the bits of a NaN.
//!
//! They consist of the ops that rules handle, with the operands and constants that rules match, on sizes where 0 and 1 are
//! frequent.

use crate::{PassOptions, optimize};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{Dims, Graph, ReduceFunction, ValueId, text};
use kiln_shape_inference::{GraphBuilder, check_types};
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;

/// One step of making a graph: which kind of op, and numbers that pick operands and attributes.
type Step = (u8, u8, u8, u8);

const UNARY: &[&str] = &[
    "neg", "abs", "relu", "floor", "ceil", "square", "sign", "trunc",
];
const BINARY: &[&str] = &["add", "sub", "mul", "div", "min", "max", "pow"];
const CONSTANTS: &[f32] = &[0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, f32::INFINITY];

/// The values made so far, with their sizes.
struct Pool {
    builder: GraphBuilder,
    values: Vec<ValueId>,
}

impl Pool {
    fn new() -> Self {
        let mut builder = GraphBuilder::new("random");
        let (b, s) = (builder.symbol("B").unwrap(), builder.symbol("S").unwrap());
        let four = builder.size(4);
        let x = builder.input("x", DType::F32, &[b, s, four]);
        let y = builder.input("y", DType::F32, &[s, four]);
        Self {
            builder,
            values: vec![x, y],
        }
    }

    fn pick(&self, at: u8) -> ValueId {
        self.values[usize::from(at) % self.values.len()]
    }

    fn dims(&self, value: ValueId) -> Dims {
        self.builder.shape(value).unwrap()
    }

    /// Performs a step; steps that do not fit their operands do nothing.
    fn step(&mut self, (kind, first, second, third): Step) {
        let x = self.pick(first);
        let dims = self.dims(x);
        let rank = dims.len();
        let at = |n: u8| usize::from(n);
        let made = match kind % 12 {
            0 | 1 => self.builder.map(UNARY[at(second) % UNARY.len()], &[x]).ok(),
            2 | 3 => {
                let operands = [x, self.pick(second)];
                self.builder
                    .map(BINARY[at(third) % BINARY.len()], &operands)
                    .ok()
            }
            4 | 5 => {
                let constant = self.constant(second);
                let operands = if third % 4 == 0 {
                    [constant, x]
                } else {
                    [x, constant]
                };
                self.builder
                    .map(BINARY[at(third) % BINARY.len()], &operands)
                    .ok()
            }
            6 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                permutation.rotate_left(at(second) % rank.max(1));
                self.builder.transpose(x, &permutation).ok()
            }
            7 => self.reshaped(x, &dims, second),
            8 => self.sliced(x, &dims, second, third),
            9 => {
                let functions = ReduceFunction::ALL;
                let function = functions[at(second) % 5];
                let axis = at(third) % rank.max(1);
                (rank > 0)
                    .then(|| {
                        self.builder
                            .reduce(x, function, &[axis], third % 2 == 0)
                            .ok()
                    })
                    .flatten()
            }
            10 => {
                let other = self.pick(second);
                let to = self.dims(other);
                self.builder.broadcast_to(x, &to).ok()
            }
            _ => {
                let other = self.pick(second);
                self.builder
                    .concat(&[x, other], at(third) % rank.max(1))
                    .ok()
            }
        };
        self.values.extend(made);
    }

    fn constant(&mut self, which: u8) -> ValueId {
        let value = CONSTANTS[usize::from(which) % CONSTANTS.len()];
        let tensor = match which / 32 {
            0..4 => Tensor::scalar(value),
            4 | 5 => Tensor::full(&[4], value).unwrap(),
            _ => Tensor::full(&[1, 1], value).unwrap(),
        };
        self.builder.constant(tensor).unwrap()
    }

    fn reshaped(&mut self, x: ValueId, dims: &[DimId], how: u8) -> Option<ValueId> {
        let mut to: Vec<DimId> = dims.to_vec();
        match how % 3 {
            0 => to.insert(usize::from(how) % (dims.len() + 1), self.builder.size(1)),
            1 => to = vec![self.builder.dims_mut().product(dims).ok()?],
            _ => to.retain(|&dim| self.builder.dims().as_constant(dim) != Some(1)),
        }
        self.builder.reshape(x, &to).ok()
    }

    /// The whole of most axes; of the last axis, a part if it is known to have enough elements.
    fn sliced(&mut self, x: ValueId, dims: &[DimId], second: u8, third: u8) -> Option<ValueId> {
        let axis = dims.len().checked_sub(1)?;
        let size = self.builder.dims().as_constant(dims[axis])?;
        let start = i64::from(second) % size.max(1);
        let length = i64::from(third) % (size - start + 1).max(1);
        let (start, length) = (self.builder.size(start), self.builder.size(length));
        self.builder.slice_axis(x, axis, start, length).ok()
    }

    fn finish(self) -> Graph {
        let last: Vec<ValueId> = self.values.iter().rev().take(4).copied().collect();
        let names: Vec<String> = (0..last.len()).map(|index| format!("y{index}")).collect();
        let outputs: Vec<(&str, ValueId)> = names.iter().map(String::as_str).zip(last).collect();
        self.builder.finish(&outputs).unwrap()
    }
}

fn input(shape: &[usize], seed: u8) -> Tensor {
    let edges = [
        1.0,
        -0.0,
        0.0,
        2.5,
        -1.5,
        f32::NAN,
        f32::INFINITY,
        3.0,
        -4.0,
        1e-40,
        0.5,
    ];
    let len = shape.iter().product::<usize>();
    let elements: Vec<f32> = (0..len)
        .map(|i| edges[(i * 7 + usize::from(seed)) % edges.len()])
        .collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

/// Equal bit for bit, except NaNs.
fn same(left: &Tensor, right: &Tensor) -> bool {
    let bits = |tensor: &Tensor| -> Vec<u32> {
        let elements = tensor.to_vec::<f32>().unwrap();
        elements
            .into_iter()
            .map(|x| {
                if x.is_nan() {
                    f32::NAN.to_bits()
                } else {
                    x.to_bits()
                }
            })
            .collect()
    };
    left.shape() == right.shape() && bits(left) == bits(right)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pipeline_keeps_every_bit(
        steps in prop::collection::vec(any::<Step>(), 1..24),
        sizes in (prop::sample::select(vec![0_usize, 1, 1, 2, 3, 4]), prop::sample::select(vec![0_usize, 1, 1, 2, 4, 5])),
        seed in any::<u8>(),
        stop in prop::option::of(0_usize..40),
    ) {
        let mut pool = Pool::new();
        steps.into_iter().for_each(|step| pool.step(step));
        let before = pool.finish();
        // Facts that later ops require may leave no sizes for which an earlier op works.
        prop_assume!(check_types(&before).is_ok());
        let mut options = PassOptions { verify: true, stop_after_rewrites: stop, ..PassOptions::default() };
        let (after, _) = optimize(before.clone(), &mut options).map_err(|error| {
            TestCaseError::fail(format!("{error}\n{}", text::print(&before)))
        })?;
        let inputs = [input(&[sizes.0, sizes.1, 4], seed), input(&[sizes.1, 4], seed / 2)];
        let run = |graph| interpret(graph, &inputs, &InterpretOptions::default());
        // A dropped op may have faulted; if nothing faulted, the results are the same.
        if let Ok(expected) = run(&before) {
            let found = run(&after).map_err(|error| {
                TestCaseError::fail(format!("{error}\n{}{}", text::print(&before), text::print(&after)))
            })?;
            for (expected, found) in expected.iter().zip(&found) {
                prop_assert!(same(expected, found), "{}{}", text::print(&before), text::print(&after));
            }
        }
    }
}
