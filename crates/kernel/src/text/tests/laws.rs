//! The round-trip laws, on random kernels and on corrupted texts.

use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimTable;
use kiln_tensor::DType;
use proptest::prelude::*;

use super::expect_stable;
use crate::form::{Extent, Kernel, KernelBuilder, NodeId, Reduction, Role, Stage, StageOperation};
use crate::text::{print, read};

const EXAMPLES: [&str; 5] = [
    include_str!("../../../../testkit/testdata/examples/lstm.kernel"),
    include_str!("../../../../testkit/testdata/examples/causal_attention.kernel"),
    include_str!("../../../../testkit/testdata/examples/conv_transpose.kernel"),
    include_str!("../../../../testkit/testdata/examples/scatter_add.kernel"),
    include_str!("../../../../testkit/testdata/examples/norm.kernel"),
];

/// A kernel whose expressions are derived from the bytes. It is well typed; its meaning is arbitrary.
fn random_kernel(choices: &[[u8; 4]]) -> Kernel {
    let mut dims = DimTable::new();
    let (n, m) = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
    let three = dims.constant(3);
    let product = dims.mul(n, m).unwrap();
    let sizes = [n, three, product, m];
    let mut b = KernelBuilder::new("random", dims);
    let buffers = [
        b.buffer("x", Role::In, DType::F32, [n]),
        b.buffer("h", Role::Const, DType::F16, [n]),
        b.buffer("k", Role::In, DType::I64, [m]),
        b.buffer("u", Role::InOut, DType::U8, [product]),
    ];
    let i = b.outer("i", n);
    let mut nodes: Vec<NodeId> = vec![b.index(i), b.size(product)];
    for (position, choice) in choices.iter().enumerate() {
        let [what, first, second, third] = *choice;
        let pick = |nodes: &[NodeId], by: u8| nodes[usize::from(by) % nodes.len()];
        let integer = |b: &mut KernelBuilder, by: u8| {
            let node = pick(&nodes, by);
            b.cast(node, DType::I64)
        };
        let node = match what % 8 {
            0 => b.number(f64::from(first) - 100.0, DType::F32),
            1 => b.literal(ScalarValue::zero(
                DType::ALL[usize::from(first) % DType::ALL.len()],
            )),
            2 => {
                let (index, buffer) = (integer(&mut b, first), buffers[usize::from(second) % 4]);
                let dtype = b.kernel().buffer(buffer).dtype;
                let otherwise = pick(&nodes, third);
                let otherwise = b.cast(otherwise, dtype);
                match third % 3 {
                    0 => b.load(buffer, [index]),
                    1 => b.load_inside(buffer, [index], otherwise),
                    _ => {
                        let when = pick(&nodes, second);
                        let when = b.cast(when, DType::Bool);
                        b.load_when(buffer, [index], when, otherwise)
                    }
                }
            }
            3 => {
                let axis = if third % 2 == 0 {
                    b.axis("r", sizes[usize::from(first) % 4])
                } else {
                    let value = integer(&mut b, second);
                    b.push_axis(
                        "r",
                        Extent::Clamped {
                            value,
                            bound: sizes[usize::from(first) % 4],
                        },
                    )
                };
                let (value, at) = (pick(&nodes, second), b.index(axis));
                let value = b.cast(value, DType::I32);
                let at = b.cast(at, DType::I32);
                let value = b.apply(ScalarOp::Max, [value, at]);
                let reduction = Reduction::ALL[usize::from(third) % 4];
                let accumulator = [DType::I32, DType::I64][usize::from(first) % 2];
                let operation = StageOperation::Reduce {
                    reduction,
                    axes: [axis].into_iter().collect(),
                    accumulator,
                };
                let stage = Stage {
                    name: format!("s{position}"),
                    axes: Default::default(),
                    operation,
                    value,
                    init: None,
                };
                let stage = b.push_stage(stage);
                b.local(stage, [])
            }
            4 => {
                let all: Vec<Function> = Function::all()
                    .filter(|function| function.primitive().is_none())
                    .collect();
                let function = all[usize::from(first) % all.len()];
                let takes = |dtype| function.result_type(&vec![dtype; function.arity()]).is_ok();
                let dtype = match takes(DType::F32) {
                    true => DType::F32,
                    false => DType::U64,
                };
                let operands: Vec<NodeId> = (0..function.arity())
                    .map(|_| {
                        let operand = pick(&nodes, second);
                        b.cast(operand, dtype)
                    })
                    .collect();
                b.call(function, &[], operands)
            }
            _ => {
                let op = ScalarOp::ALL[usize::from(first) % ScalarOp::ALL.len()];
                let dtype = [DType::F32, DType::I64, DType::Bool][usize::from(what / 8) % 3];
                let mut operands = Vec::new();
                for position in 0..op.arity() {
                    let operand = pick(&nodes, if position == 0 { second } else { third });
                    let is_condition = op == ScalarOp::Select && position == 0;
                    operands.push(b.cast(operand, if is_condition { DType::Bool } else { dtype }));
                }
                let dtypes: Vec<DType> = operands
                    .iter()
                    .map(|&node| b.kernel().dtype(node))
                    .collect();
                match op.signature().result_type(&dtypes) {
                    Some(_) => b.apply(op, operands),
                    None => b.integer(i64::from(first)),
                }
            }
        };
        nodes.push(node);
    }
    let value = b.cast(*nodes.last().unwrap(), DType::U8);
    let r = b.axis("r", product);
    let at = b.index(r);
    b.combine(crate::form::Combine::Add, [r], buffers[3], [at], value);
    b.finish().unwrap()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printed_kernels_round_trip(choices in proptest::collection::vec(any::<[u8; 4]>(), 1..60)) {
        let kernel = random_kernel(&choices);
        expect_stable(&kernel);
        prop_assert_eq!(print(&kernel), print(&random_kernel(&choices)));
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "\\PC{0,60}|(kernel @k\\(%x: in f32\\[N\\]\\) \\{)?[a-z0-9%<>=,;+*/ \\[\\]\\{\\}().-]{0,60}") {
        match read(&text) {
            Ok(kernel) => expect_stable(&kernel),
            Err(errors) => prop_assert!(!errors.render(&text).is_empty()),
        }
    }

    #[test]
    fn a_damaged_text_is_read_or_rejected(
        example in 0_usize..5,
        from in any::<prop::sample::Index>(),
        length in 0_usize..12,
        to in any::<prop::sample::Index>(),
        word in "| |0|-1|i|s|\\[|\\]|\\{|\\}|%x\\[i\\]|inside|init|prev\\(h\\)|carry t < T \\{|size\\(2*B\\)|<|clamp\\(1, S\\)",
    ) {
        let mut text = EXAMPLES[example].to_owned();
        let start = from.index(text.len());
        let end = (start + length).min(text.len());
        let cut = text.drain(start..end).collect::<String>();
        let at = to.index(text.len() + 1);
        text.insert_str(at, if word.is_empty() { &cut } else { &word });
        match read(&text) {
            Ok(kernel) => expect_stable(&kernel),
            Err(errors) => prop_assert!(!errors.render(&text).is_empty()),
        }
    }
}
