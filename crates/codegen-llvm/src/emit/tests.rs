//! Instructions that no other test of this crate covers: masked memory, lanes, loops.

use inkwell::IntPredicate;

use kiln_tensor::DType;

use super::{Elem, Emitter, Value};
use crate::session::{Output, compile_module};
use crate::testing::{Lanes, host_levels, request};
use kiln_backend::IsaLevel;

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&chunk| f32::from_le_bytes(chunk))
        .collect()
}

#[test]
fn masked_memory_is_touched_only_where_the_mask_is_true() {
    const X: [f32; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    for level in host_levels() {
        let compiled = Lanes::new(level, 8, &[DType::F32], &[DType::F32], |e, values| {
            let memory = e.stack(64);
            let zero = e.float(values[0], 0.0);
            e.store_dtype(DType::F32, memory, zero);
            let numbers = e.lane_numbers(Elem::I64, 8);
            let first_five = e.icmp(IntPredicate::ULT, numbers, e.int(numbers, 5));
            e.masked_store_dtype(DType::F32, memory, values[0], first_five);
            let upper = e.icmp(IntPredicate::UGT, numbers, e.int(numbers, 2));
            let otherwise = e.float(values[0], -1.0);
            vec![e.masked_load_dtype(DType::F32, memory, upper, otherwise)]
        });
        let bytes: Vec<u8> = X.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(
            f32s(&compiled.run(&[&bytes])[0]),
            [-1.0, -1.0, -1.0, 4.0, 5.0, 0.0, 0.0, 0.0],
            "{level}"
        );
    }
}

#[test]
fn store_first_stores_only_the_first_elements() {
    let inputs = [DType::F32, DType::I64];
    for level in host_levels() {
        let compiled = Lanes::new(level, 8, &inputs, &[DType::F32], |e, values| {
            let memory = e.stack(64);
            e.store_dtype(DType::F32, memory, e.float(values[0], 0.0));
            let count = e.extract(values[1], 0);
            e.store_first(DType::F32, memory, values[0], count);
            let all = e.bool_of(8, true);
            vec![e.masked_load_dtype(DType::F32, memory, all, values[0])]
        });
        let bytes: Vec<u8> = (1..=8).flat_map(|x| (x as f32).to_le_bytes()).collect();
        for count in 0..12i64 {
            let counts: Vec<u8> = [count; 8].iter().flat_map(|n| n.to_le_bytes()).collect();
            let expected = (1..=8).map(|x| if x <= count { x as f32 } else { 0.0 });
            assert_eq!(
                f32s(&compiled.run(&[&bytes, &counts])[0]),
                expected.collect::<Vec<_>>(),
                "{level} {count}"
            );
        }
    }
}

#[test]
fn gather_reads_what_scatter_wrote() {
    for level in host_levels() {
        for dtype in [DType::F32, DType::Bool, DType::F16, DType::I64] {
            let compiled = Lanes::new(level, 4, &[dtype], &[dtype], |e, values| {
                let memory = e.stack(64);
                let numbers = e.lane_numbers(Elem::I64, 4);
                let size = e.int(numbers, dtype.size_in_bytes() as i64);
                let reversed = e.isub(e.int(numbers, 3), numbers);
                let all = e.bool_of(4, true);
                let from = e.offset(memory, e.imul(reversed, size));
                e.scatter_dtype(dtype, from, values[0], all);
                let to = e.offset(memory, e.imul(numbers, size));
                vec![e.gather_dtype(dtype, to, all, values[0])]
            });
            let bytes: Vec<u8> = (0..4 * dtype.size_in_bytes())
                .map(|n| {
                    if dtype == DType::Bool {
                        (n & 1) as u8
                    } else {
                        n as u8
                    }
                })
                .collect();
            let reversed: Vec<u8> = bytes
                .chunks(dtype.size_in_bytes())
                .rev()
                .flatten()
                .copied()
                .collect();
            assert_eq!(compiled.run(&[&bytes])[0], reversed, "{level} {dtype}");
        }
    }
}

#[test]
fn lanes_are_extracted_and_broadcast() {
    for level in host_levels() {
        let compiled = Lanes::new(level, 4, &[DType::F32], &[DType::F32; 2], |e, values| {
            let x = values[0];
            let swapped = e.shuffle(x, e.float(x, 9.0), &[1, 0, 7, 2]);
            vec![swapped, e.splat(e.extract(x, 2), 4)]
        });
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let results = compiled.run(&[&bytes]);
        assert_eq!(f32s(&results[0]), [2.0, 1.0, 9.0, 3.0], "{level}");
        assert_eq!(f32s(&results[1]), [3.0; 4], "{level}");
    }
}

#[test]
fn loops_and_branches_carry_values() {
    for level in host_levels() {
        let compiled = Lanes::new(level, 1, &[DType::I64], &[DType::I64], |e, values| {
            let n = values[0];
            // The sum of the odd numbers below n, or -1 for a negative n.
            let negative = e.icmp(IntPredicate::SLT, n, e.i64(0));
            e.branch(
                negative,
                || vec![e.i64(-1)],
                || {
                    e.for_range(e.i64(1), n, e.i64(2), None, &[e.i64(0)], |i, sum| {
                        vec![e.iadd(sum[0], i)]
                    })
                },
            )
        });
        let bytes: Vec<u8> = [-5i64, 0, 1, 2, 10]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        let sums: Vec<i64> = compiled.run(&[&bytes])[0]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&chunk| i64::from_le_bytes(chunk))
            .collect();
        assert_eq!(sums, [-1, 0, 0, 1, 25], "{level}");
    }
}

#[test]
fn multiply_adds_are_contracted_only_where_allowed() {
    // (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24, or 0 if the product is rounded.
    let x = 1.0 + 2f32.powi(-12);
    let compute = |level, contracted: bool| {
        let compiled = Lanes::new(level, 8, &[DType::F32], &[DType::F32], |e, values| {
            let x = values[0];
            let limit = e.float(x, -(1.0 + 2f64.powi(-11)));
            if contracted {
                let product = e.contracted(e.fmul(x, x));
                vec![e.contracted(e.fadd(product, limit))]
            } else {
                vec![e.fadd(e.fmul(x, x), limit)]
            }
        });
        f32s(&compiled.run(&[&x.to_le_bytes()])[0])
    };
    for level in host_levels() {
        assert_eq!(compute(level, false), [0.0], "{level}");
        let expected = if level.has_fma() { 2f32.powi(-24) } else { 0.0 };
        assert_eq!(compute(level, true), [expected], "{level}");
    }
}

/// How many values of a module are hidden from LLVM.
fn hidden(write: impl Fn(&Emitter<'_, '_>)) -> usize {
    let request = request(IsaLevel::Portable, Output::Ir);
    let text = compile_module(request, &mut |_| {}, |module| {
        let (e, _) = module.phase("phase");
        write(&e);
        e.return_none();
        Ok(())
    });
    let text = String::from_utf8(text.unwrap()).unwrap();
    text.matches(" asm ").count()
}

fn count_to_three<'ctx>(e: &Emitter<'_, 'ctx>, body: impl FnOnce(Value<'ctx>)) {
    e.for_range(e.i64(0), e.i64(3), e.i64(1), None, &[], |counter, _| {
        body(counter);
        Vec::new()
    });
}

#[test]
fn counters_of_outer_loops_are_hidden() {
    fn innermost(e: &Emitter<'_, '_>) {
        count_to_three(e, |counter| {
            e.iadd(counter, counter);
        });
    }
    let around = |e: &Emitter<'_, '_>| count_to_three(e, |_| innermost(e));
    assert_eq!([hidden(innermost), hidden(around)], [0, 1]);
    let all = hidden(|e| {
        e.hide_counters();
        around(e);
    });
    assert_eq!(all, 2);
}

#[test]
fn a_loop_with_a_hidden_counter_runs_every_iteration() {
    for level in host_levels() {
        let compiled = Lanes::new(level, 1, &[DType::I64], &[DType::I64], |e, values| {
            e.hide_counters();
            let (zero, one) = (e.i64(0), e.i64(1));
            // The sum of outer * 10 + inner, each over 0..x for the input x.
            let sum = e.for_range(zero, values[0], one, None, &[zero], |outer, carried| {
                e.for_range(zero, values[0], one, None, carried, |inner, carried| {
                    let both = e.iadd(e.imul(outer, e.i64(10)), inner);
                    vec![e.iadd(carried[0], both)]
                })
            });
            vec![sum[0]]
        });
        for (x, sum) in [(0i64, 0i64), (1, 0), (2, 22), (5, 550)] {
            let bytes = x.to_le_bytes();
            let got = compiled.run(&[&bytes]);
            assert_eq!(got[0], sum.to_le_bytes(), "{level} {x}");
        }
    }
}
