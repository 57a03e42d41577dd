//! Soundness: what the verifier proves is true for every size, by enumeration over random kernels.

use std::collections::BTreeMap;

use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::{Binding, DimId, DimTable};
use kiln_tensor::DType;
use proptest::prelude::*;

use super::*;
use crate::form::{AxisId, KernelBuilder, Role};
use crate::verified::IndexClass;

/// A size by number: symbols, constants, and expressions of them.
fn size(dims: &mut DimTable, number: u8) -> DimId {
    let (n, m) = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
    let constant = |dims: &mut DimTable, value| dims.constant(value);
    match number % 10 {
        0 => n,
        1 => m,
        2 => constant(dims, 1),
        3 => constant(dims, 2),
        4 => constant(dims, 3),
        5 => dims.mul(n, m).unwrap(),
        6 => {
            let two = constant(dims, 2);
            dims.mul(two, n).unwrap()
        }
        7 => {
            let one = constant(dims, 1);
            dims.add(n, one).unwrap()
        }
        8 => {
            let one = constant(dims, 1);
            dims.sub(n, one).unwrap()
        }
        _ => {
            let two = constant(dims, 2);
            dims.floor_div(n, two).unwrap()
        }
    }
}

/// An index over axes: a program of small steps.
fn index(b: &mut KernelBuilder, axes: &[AxisId], program: &[(u8, u8, u8)]) -> NodeId {
    let mut made: Vec<NodeId> = axes.iter().map(|&axis| b.index(axis)).collect();
    for number in [0, 1, 2, 3, 4, 6] {
        let dim = size(b.dims_mut(), number);
        made.push(b.size(dim));
    }
    let mut last = made[0];
    for &(op, left, right) in program {
        let a = if left % 2 == 0 {
            last
        } else {
            made[usize::from(left / 2) % made.len()]
        };
        let c = made[usize::from(right) % made.len()];
        let op = match op % 8 {
            0 | 1 => ScalarOp::Add,
            2 => ScalarOp::Sub,
            3 => ScalarOp::Mul,
            4 => ScalarOp::FloorDiv,
            5 => ScalarOp::FloorMod,
            6 => ScalarOp::Min,
            _ => ScalarOp::Max,
        };
        last = b.apply(op, [a, c]);
        made.push(last);
    }
    last
}

/// The value of an integer node; `None` if it divides by zero.
fn value(
    kernel: &Kernel,
    node: NodeId,
    at: &BTreeMap<AxisId, i64>,
    sizes: &Binding,
) -> Option<i64> {
    match kernel.node(node) {
        Node::Literal(ScalarValue::I64(value)) => Some(*value),
        Node::Size(dim) => kernel.dims().evaluate(*dim, sizes).ok(),
        Node::Axis(axis) => at.get(axis).copied(),
        Node::Apply { op, operands } => {
            let a = value(kernel, operands[0], at, sizes)?;
            let b = value(kernel, operands[1], at, sizes)?;
            let floor = |a: i64, b: i64| a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0);
            Some(match op {
                ScalarOp::Add => a + b,
                ScalarOp::Sub => a - b,
                ScalarOp::Mul => a * b,
                ScalarOp::Min => a.min(b),
                ScalarOp::Max => a.max(b),
                ScalarOp::FloorDiv if b != 0 => floor(a, b),
                ScalarOp::FloorMod if b != 0 => a - b * floor(a, b),
                _ => return None,
            })
        }
        _ => None,
    }
}

/// Calls `visit` at every point of the axes.
fn points(
    kernel: &Kernel,
    axes: &[AxisId],
    sizes: &Binding,
    visit: &mut dyn FnMut(&BTreeMap<AxisId, i64>),
) {
    let extents: Vec<i64> = axes
        .iter()
        .map(|&axis| {
            kernel
                .dims()
                .evaluate(kernel.axis(axis).extent.bound(), sizes)
                .unwrap()
                .max(0)
        })
        .collect();
    let n: i64 = extents.iter().product();
    for flat in 0..n {
        let mut rest = flat;
        let mut at = BTreeMap::new();
        for (&axis, &extent) in axes.iter().zip(&extents).rev() {
            at.insert(axis, rest % extent);
            rest /= extent;
        }
        visit(&at);
    }
}

fn bindings() -> Vec<Binding> {
    let mut found = Vec::new();
    for n in 0..5 {
        for m in 0..4 {
            let mut dims = DimTable::new();
            let _ = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
            let mut binding = Binding::new();
            binding.set(dims.symbol_named("N").unwrap(), n).unwrap();
            binding.set(dims.symbol_named("M").unwrap(), m).unwrap();
            found.push(binding);
        }
    }
    found
}

type Program = Vec<(u8, u8, u8)>;

fn program() -> impl Strategy<Value = Program> {
    proptest::collection::vec(any::<(u8, u8, u8)>(), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// One or two stores with random indices: accepted ones write each element exactly once.
    #[test]
    fn accepted_stores_write_each_element_once(
        shape in proptest::collection::vec(0_u8..10, 1..3),
        outer in proptest::collection::vec(0_u8..10, 0..3),
        stores in proptest::collection::vec((proptest::collection::vec(0_u8..10, 0..2), program(), program()), 1..3),
    ) {
        let mut dims = DimTable::new();
        let _ = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
        let mut b = KernelBuilder::new("k", dims);
        let shape: Vec<DimId> = shape.iter().map(|&number| size(b.dims_mut(), number)).collect();
        let y = b.buffer("y", Role::Out, DType::I64, shape.iter().copied());
        let outer: Vec<AxisId> = outer.iter().enumerate().map(|(place, &number)| {
            let dim = size(b.dims_mut(), number);
            b.outer(format!("o{place}"), dim)
        }).collect();
        for (place, (inner, first, second)) in stores.iter().enumerate() {
            let own: Vec<AxisId> = inner.iter().enumerate().map(|(axis, &number)| {
                let dim = size(b.dims_mut(), number);
                b.axis(format!("i{place}{axis}"), dim)
            }).collect();
            let mut axes: Vec<AxisId> = outer.iter().chain(&own).copied().collect();
            if axes.is_empty() {
                let one = b.dims_mut().constant(1);
                axes.push(b.outer("only", one));
            }
            let mut indices = vec![index(&mut b, &axes, first)];
            if shape.len() == 2 {
                axes.reverse();
                indices.push(index(&mut b, &axes, second));
            }
            let zero = b.integer(0);
            b.store(own, y, indices, zero);
        }
        let Ok(kernel) = verify(b.finish().unwrap()) else { return Ok(()); };
        for sizes in bindings() {
            let extents: Vec<i64> = shape.iter().map(|&dim| kernel.dims().evaluate(dim, &sizes).unwrap()).collect();
            if extents.iter().any(|&extent| extent < 0) {
                continue;
            }
            let mut written: BTreeMap<Vec<i64>, usize> = BTreeMap::new();
            for store in stores_of(&kernel) {
                let axes: Vec<AxisId> = kernel.outer().iter().chain(&store.axes).copied().collect();
                points(&kernel, &axes, &sizes, &mut |at| {
                    let indices = store.indices.iter().map(|&node| value(&kernel, node, at, &sizes).unwrap());
                    *written.entry(indices.collect()).or_default() += 1;
                });
            }
            let n: i64 = extents.iter().product();
            prop_assert_eq!(written.len() as i64, n, "{}", kernel.kernel());
            for (indices, count) in written {
                prop_assert_eq!(count, 1, "{}", kernel.kernel());
                prop_assert!(indices.iter().zip(&extents).all(|(&index, &extent)| 0 <= index && index < extent));
            }
        }
    }

    /// A load and a combining store with random indices: proved indices are in bounds, and points of parallel axes never
    /// meet.
    #[test]
    fn proved_indices_are_in_bounds(
        shape in 0_u8..10,
        outer in proptest::collection::vec(0_u8..10, 1..3),
        load in program(),
        store in program(),
    ) {
        let mut dims = DimTable::new();
        let _ = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
        let mut b = KernelBuilder::new("k", dims);
        let dim = size(b.dims_mut(), shape);
        let x = b.buffer("x", Role::In, DType::I64, [dim]);
        let z = b.buffer("z", Role::InOut, DType::I64, [dim]);
        let axes: Vec<AxisId> = outer.iter().enumerate().map(|(place, &number)| {
            let dim = size(b.dims_mut(), number);
            b.outer(format!("o{place}"), dim)
        }).collect();
        let from = index(&mut b, &axes, &load);
        let to = index(&mut b, &axes, &store);
        let loaded = b.load(x, [from]);
        b.combine(crate::form::Combine::Add, [], z, [to], loaded);
        let kernel = verify(b.finish().unwrap()).unwrap();
        let info = &kernel.info().stores[0];
        for sizes in bindings() {
            let extent = kernel.dims().evaluate(dim, &sizes).unwrap();
            let mut met: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            let mut problem = None;
            points(&kernel, &axes, &sizes, &mut |at| {
                let is_in = |node| value(&kernel, node, at, &sizes).is_none_or(|index| 0 <= index && index < extent);
                if kernel.info().loads[loaded][0] == IndexClass::Proved && !is_in(from) {
                    problem = Some("load");
                }
                if info.indices[0] == IndexClass::Proved && !is_in(to) {
                    problem = Some("store");
                }
                let parallel = axes.iter().filter(|axis| !info.serial.contains(axis)).map(|axis| at[axis]);
                let parallel: Vec<i64> = parallel.collect();
                if let Some(index) = value(&kernel, to, at, &sizes)
                    && *met.entry(index).or_insert_with(|| parallel.clone()) != parallel
                {
                    problem = Some("meeting");
                }
            });
            prop_assert_eq!(problem, None, "{}", kernel.kernel());
        }
    }
}

fn stores_of(kernel: &Kernel) -> Vec<&crate::form::Store> {
    stores(kernel)
}
