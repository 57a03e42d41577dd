//! For each rule, a kernel that violates it, and the error.

use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;

use super::*;
use crate::error::KernelErrors;
use crate::form::{
    AxisId, BufferId, Combine, Extent, KernelBuilder, Load, Reduction, Role, Stage, StageId,
    StageOperation, Store,
};

/// A builder with sizes N and M, and a buffer of each role: `%x: in f32[N]`, `%y: out f32[N]`, `%z: inout f32[N]`.
struct Start {
    b: KernelBuilder,
    n: DimId,
    x: BufferId,
    y: BufferId,
    z: BufferId,
    i: AxisId,
}

fn start() -> Start {
    let mut dims = DimTable::new();
    let n = dims.symbol("N").unwrap();
    let mut b = KernelBuilder::new("k", dims);
    let x = b.buffer("x", Role::In, DType::F32, [n]);
    let y = b.buffer("y", Role::Out, DType::F32, [n]);
    let z = b.buffer("z", Role::InOut, DType::F32, [n]);
    let i = b.outer("i", n);
    Start { b, n, x, y, z, i }
}

/// The errors of a kernel that also copies `%x` to `%y`.
fn said(change: impl FnOnce(&mut Start)) -> Vec<&'static str> {
    let mut start = start();
    let at = start.b.index(start.i);
    let value = start.b.load(start.x, [at]);
    start.b.store([], start.y, [at], value);
    change(&mut start);
    codes(start.b)
}

fn codes(b: KernelBuilder) -> Vec<&'static str> {
    match verify(b.finish().unwrap()) {
        Ok(_) => Vec::new(),
        Err(KernelErrors { errors, .. }) => errors.iter().map(KernelError::code).collect(),
    }
}

#[test]
fn ids_of_another_kernel_are_errors() {
    assert_eq!(said(|_| {}), [""; 0]);
    let foreign = AxisId::from_u32(99);
    assert_eq!(
        said(|s| {
            s.b.index(foreign);
        }),
        ["E0215"]
    );
    assert_eq!(
        said(|s| {
            s.b.axis("j", DimId::from_u32(999));
        }),
        ["E0215"]
    );
    assert_eq!(
        said(|s| {
            let value = s.b.number(0.0, DType::F32);
            s.b.map("s", [foreign], value);
        }),
        ["E0215"]
    );
}

#[test]
fn names_are_distinct() {
    assert_eq!(
        said(|s| {
            s.b.buffer("x", Role::In, DType::F32, []);
        }),
        ["E0230"]
    );
    assert_eq!(
        said(|s| {
            s.b.outer("i", s.n);
        }),
        ["E0230", "E0243"][..1]
    );
    let twice = said(|s| {
        let value = s.b.number(0.0, DType::F32);
        s.b.map("s", [], value);
        s.b.map("s", [], value);
    });
    assert_eq!(twice, ["E0230"]);
    let shadowed = said(|s| {
        let inner = s.b.axis("i", s.n);
        let at = s.b.index(inner);
        let value = s.b.load(s.x, [at]);
        s.b.reduce("s", [], Reduction::Add, [inner], value);
    });
    assert_eq!(shadowed, ["E0230"]);
}

#[test]
fn an_axis_is_used_in_one_loop_only() {
    let twice = said(|s| {
        let value = s.b.number(0.0, DType::F32);
        s.b.map("s", [s.i], value);
    });
    assert_eq!(twice, ["E0231"]);
    let elsewhere = said(|s| {
        let j = s.b.axis("j", s.n);
        let at = s.b.index(j);
        let value = s.b.load(s.x, [at]);
        s.b.reduce("sum", [], Reduction::Add, [j], value);
        s.b.map("late", [], value);
    });
    assert_eq!(elsewhere, ["E0232"]);
}

#[test]
fn a_stage_is_defined_once_and_read_only_afterwards() {
    let unplaced = said(|s| {
        let zero = s.b.number(0.0, DType::F32);
        s.b.declare_stage("s", [], zero);
    });
    assert_eq!(unplaced, ["E0234"]);
    let ahead = said(|s| {
        let zero = s.b.number(0.0, DType::F32);
        s.b.begin_carry(AxisId::from_u32(0), false);
        let late = s.b.declare_stage("late", [], zero);
        let early = s.b.local(late, []);
        s.b.map("early", [], early);
        s.b.define_stage(late, StageOperation::Map, zero);
        s.b.end_carry();
    });
    assert_eq!(ahead, ["E0231"], "the block runs over an outer axis");
}

/// A block over t with `s init 0`, and its readers, inside and after the block.
fn block(
    inside: impl FnOnce(&mut Start, StageId),
    after: impl FnOnce(&mut Start, StageId),
) -> Vec<&'static str> {
    said(|s| {
        let t = s.b.axis("t", s.n);
        let zero = s.b.number(0.0, DType::F32);
        s.b.begin_carry(t, false);
        let stage = s.b.declare_stage("s", [], zero);
        inside(s, stage);
        s.b.define_stage(stage, StageOperation::Map, zero);
        s.b.end_carry();
        after(s, stage);
    })
}

#[test]
fn carry_stages_are_read_by_prev_inside_and_last_outside() {
    let prev = |s: &mut Start, stage| {
        let value = s.b.previous(stage, []);
        s.b.map("reader", [], value);
    };
    let local = |s: &mut Start, stage| {
        let value = s.b.local(stage, []);
        s.b.map("reader", [], value);
    };
    let last = |s: &mut Start, stage| {
        let value = s.b.last(stage, []);
        s.b.map("reader", [], value);
    };
    assert_eq!(block(prev, |_, _| {}), [""; 0]);
    assert_eq!(block(local, |_, _| {}), ["E0233"]);
    assert_eq!(block(last, |_, _| {}), ["E0233"]);
    assert_eq!(block(|_, _| {}, prev), ["E0233"]);
    assert_eq!(block(|_, _| {}, local), ["E0233"]);
    assert_eq!(block(|_, _| {}, last), [""; 0]);
}

#[test]
fn only_carry_stages_have_init_and_prev() {
    let outside = said(|s| {
        let zero = s.b.number(0.0, DType::F32);
        let stage = s.b.declare_stage("s", [], zero);
        s.b.define_stage(stage, StageOperation::Map, zero);
    });
    assert_eq!(outside, ["E0245"]);
    let without = said(|s| {
        let t = s.b.axis("t", s.n);
        let zero = s.b.number(0.0, DType::F32);
        s.b.begin_carry(t, true);
        let first = s.b.map("first", [], zero);
        let back = s.b.previous(first, []);
        s.b.map("second", [], back);
        s.b.end_carry();
        let last = s.b.last(first, []);
        s.b.map("third", [], last);
    });
    assert_eq!(without, ["E0233", "E0233"]);
    let of_step = said(|s| {
        let t = s.b.axis("t", s.n);
        let at = s.b.index(t);
        s.b.begin_carry(t, false);
        let first = s.b.map("first", [], at);
        let own = s.b.local(first, []);
        let stage = s.b.declare_stage("s", [], own);
        s.b.define_stage(stage, StageOperation::Map, at);
        s.b.end_carry();
    });
    assert_eq!(of_step, ["E0233"], "an init is computed before the block");
    let of_axis = said(|s| {
        let t = s.b.axis("t", s.n);
        let at = s.b.index(t);
        s.b.begin_carry(t, false);
        let stage = s.b.declare_stage("s", [], at);
        s.b.define_stage(stage, StageOperation::Map, at);
        s.b.end_carry();
    });
    assert_eq!(of_axis, ["E0232"]);
    let dtype = said(|s| {
        let t = s.b.axis("t", s.n);
        let (zero, one) = (s.b.number(0.0, DType::F32), s.b.integer(1));
        s.b.begin_carry(t, false);
        let stage = s.b.declare_stage("s", [], zero);
        let back = s.b.previous(stage, []);
        s.b.map("reader", [], back);
        s.b.define_stage(stage, StageOperation::Map, one);
        s.b.end_carry();
    });
    assert_eq!(dtype, ["E0218", "E0218"]);
}

#[test]
fn only_reduced_and_carry_axes_have_clamped_extents() {
    let clamped = |s: &mut Start| {
        let value = s.b.index(s.i);
        let bound = s.n;
        s.b.push_axis("j", Extent::Clamped { value, bound })
    };
    let reduced = said(|s| {
        let j = clamped(s);
        let at = s.b.index(j);
        let value = s.b.load(s.x, [at]);
        s.b.reduce("sum", [], Reduction::Add, [j], value);
    });
    assert_eq!(reduced, [""; 0]);
    let mapped = said(|s| {
        let j = clamped(s);
        let value = s.b.number(0.0, DType::F32);
        s.b.map("s", [j], value);
    });
    assert_eq!(mapped, ["E0235"]);
    let own = said(|s| {
        let (later, value) = (s.b.axis("later", s.n), s.b.number(0.0, DType::F32));
        let by = s.b.index(later);
        let bound = s.n;
        let j = s.b.push_axis("j", Extent::Clamped { value: by, bound });
        s.b.reduce("s", [], Reduction::Add, [j, later], value);
    });
    assert_eq!(
        own,
        ["E0232"],
        "an extent speaks of what is in scope before its axis"
    );
    let real = said(|s| {
        let value = s.b.number(0.0, DType::F32);
        let bound = s.n;
        let j = s.b.push_axis("j", Extent::Clamped { value, bound });
        s.b.reduce("s", [], Reduction::Add, [j], value);
    });
    assert_eq!(real, ["E0218"]);
}

#[test]
fn reductions_check_their_dtype_and_axes() {
    let reduce = |reduction, dtype, accumulator, n_axes: usize| {
        said(|s| {
            let value = match dtype {
                DType::Bool => s.b.literal(kiln_scalar::ScalarValue::Bool(true)),
                dtype => s.b.number(1.0, dtype),
            };
            let axes = ["p", "q"].map(|name| s.b.axis(name, s.n));
            s.b.push_stage(Stage {
                name: "s".to_string(),
                axes: [].into_iter().collect(),
                operation: StageOperation::Reduce {
                    reduction,
                    axes: axes.into_iter().take(n_axes).collect(),
                    accumulator,
                },
                value,
                init: None,
            });
        })
    };
    let best = Reduction::ArgMax { last: false };
    assert_eq!(reduce(Reduction::Add, DType::F32, DType::F32, 0), ["E0236"]);
    assert_eq!(reduce(best, DType::F32, DType::F32, 2), ["E0236"]);
    assert_eq!(reduce(best, DType::F16, DType::F16, 1), [""; 0]);
    assert_eq!(reduce(best, DType::Bool, DType::Bool, 1), ["E0237"]);
    assert_eq!(reduce(Reduction::Add, DType::F16, DType::F16, 1), ["E0237"]);
    assert_eq!(reduce(Reduction::Add, DType::F16, DType::F32, 1), [""; 0]);
    assert_eq!(reduce(Reduction::Add, DType::I8, DType::I32, 2), [""; 0]);
    assert_eq!(reduce(Reduction::Add, DType::I8, DType::F32, 1), ["E0237"]);
    assert_eq!(reduce(Reduction::Mul, DType::F64, DType::F32, 1), ["E0237"]);
    assert_eq!(reduce(Reduction::Max, DType::BF16, DType::BF16, 1), [""; 0]);
    assert_eq!(reduce(Reduction::And, DType::Bool, DType::Bool, 1), [""; 0]);
    assert_eq!(reduce(Reduction::Or, DType::I32, DType::I32, 1), ["E0237"]);
}

#[test]
fn half_precision_arithmetic_is_an_error() {
    let apply = |op: ScalarOp, n: usize| {
        said(|s| {
            let value = s.b.number(1.0, DType::F16);
            s.b.apply(op, vec![value; n]);
        })
    };
    assert_eq!(apply(ScalarOp::Add, 2), ["E0238"]);
    assert_eq!(apply(ScalarOp::Lt, 2), [""; 0]);
    assert_eq!(apply(ScalarOp::Cast(DType::F32), 1), [""; 0]);
    let called = said(|s| {
        let value = s.b.number(1.0, DType::BF16);
        let gelu = kiln_scalar::Function::by_name("gelu").unwrap();
        s.b.call(gelu, &[], [value]);
    });
    assert_eq!(called, ["E0238"]);
}

#[test]
fn buffer_roles_restrict_loads_and_stores() {
    let stores = |buffer: fn(&Start) -> BufferId, combine: Option<Combine>| {
        said(|s| {
            let (at, value) = (s.b.index(s.i), s.b.number(1.0, DType::F32));
            s.b.push_store(Store {
                axes: [].into_iter().collect(),
                buffer: buffer(s),
                indices: [at].into_iter().collect(),
                value,
                combine,
            });
        })
    };
    assert_eq!(stores(|s| s.x, None), ["E0239"]);
    assert_eq!(stores(|s| s.x, Some(Combine::Add)), ["E0239"]);
    assert_eq!(stores(|s| s.y, Some(Combine::Set)), ["E0239"]);
    assert_eq!(stores(|s| s.z, None), ["E0239"]);
    assert_eq!(stores(|s| s.z, Some(Combine::Max)), [""; 0]);
    let loads = said(|s| {
        let at = s.b.index(s.i);
        s.b.push_load(Load {
            buffer: s.y,
            indices: [at].into_iter().collect(),
            guard: None,
        });
    });
    assert_eq!(loads, ["E0239"]);
    let combined = |dtype: DType, combine: Combine| {
        said(|s| {
            let b = s.b.buffer("h", Role::InOut, dtype, []);
            let value = match dtype {
                DType::Bool => s.b.literal(kiln_scalar::ScalarValue::Bool(true)),
                dtype => s.b.number(1.0, dtype),
            };
            s.b.combine(combine, [], b, [], value);
        })
    };
    assert_eq!(combined(DType::F16, Combine::Add), ["E0240"]);
    assert_eq!(combined(DType::F16, Combine::Min), [""; 0]);
    assert_eq!(combined(DType::Bool, Combine::Set), [""; 0]);
    assert_eq!(combined(DType::Bool, Combine::Max), ["E0240"]);
}

#[test]
fn strides_fit_their_buffer() {
    let strided = |role: Role, strides: &[i64]| {
        said(|s| {
            let strides: Vec<DimId> = strides
                .iter()
                .map(|&value| s.b.dims_mut().constant(value))
                .collect();
            let shape = [s.n, s.n];
            s.b.strided_buffer("w", role, DType::F32, shape, strides);
        })
    };
    assert_eq!(strided(Role::In, &[0, 1]), [""; 0]);
    assert_eq!(strided(Role::In, &[1]), ["E0241"]);
    assert_eq!(strided(Role::In, &[-1, 1]), ["E0241"]);
    assert_eq!(strided(Role::InOut, &[0, 1]), ["E0241"]);
}

#[test]
fn errors_are_collected_up_to_a_limit_and_print_with_their_codes() {
    let mut start = start();
    for number in 0..100 {
        let zero = start.b.number(0.0, DType::F32);
        start.b.declare_stage(format!("s{number}"), [], zero);
    }
    let errors = verify(start.b.finish().unwrap()).unwrap_err();
    assert_eq!(errors.errors.len(), MAX_ERRORS);
    assert!(
        errors
            .to_string()
            .starts_with("kernel @k is not valid\n  E0234: expected stage s0"),
        "{errors}"
    );
}
