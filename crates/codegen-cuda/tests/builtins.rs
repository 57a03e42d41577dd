//! Builtins on the host: their device code, executed thread by thread, gives the same results as the CPU's builtins.
//! Needs g++; without it the tests print a message and pass.
#![allow(unsafe_code, reason = "builtins run on memory of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_backend::{Builtin, BuiltinOperand, KernelCompiler, KernelExecutor, MemorySlice};
use kiln_codegen_cuda::{CudaArch, CudaCompiler, CudaError, DeviceBuiltin};
use kiln_native::NativeExecutor;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, random_tensor};
use kiln_testkit::random::SplitMix64;
use support::{HostProgram, lacks_compiler};

/// An operand with ties, both zeros, infinities and NaNs.
fn drawn(dtype: DType, shape: &[usize], random: &mut SplitMix64) -> Tensor {
    random_tensor(random, dtype, shape, Flavor::Edges).unwrap()
}

/// The outputs of a builtin on the CPU.
fn on_the_cpu(builtin: &Builtin, x: &Tensor, outputs: &[(DType, Vec<usize>)]) -> Vec<Vec<u8>> {
    let device = NativeExecutor::new();
    let input = device.upload(x).unwrap();
    let bytes = |(dtype, shape): &(DType, Vec<usize>)| {
        shape.iter().product::<usize>() * dtype.size_in_bytes()
    };
    let memories: Vec<_> = outputs
        .iter()
        .map(|output| device.alloc(bytes(output)).unwrap())
        .collect();
    let whole = |memory| MemorySlice {
        memory,
        offset: 0,
        bytes: kiln_backend::Memory::bytes(memory),
    };
    let read = [(whole(&input), operand(x.dtype(), x.shape()))];
    let written: Vec<_> = memories
        .iter()
        .zip(outputs)
        .map(|(memory, (dtype, shape))| (whole(memory), operand(*dtype, shape)))
        .collect();
    let mut run = device.begin();
    // SAFETY: the memories are new, and nothing else uses them.
    unsafe { run.run_builtin(builtin, &read, &written) }.unwrap();
    run.finish().unwrap();
    let download = |(memory, (dtype, shape)): (_, &(DType, Vec<usize>))| {
        let tensor = device.download(memory, 0, *dtype, shape).unwrap();
        tensor.as_bytes().unwrap().to_vec()
    };
    memories.iter().zip(outputs).map(download).collect()
}

fn operand(dtype: DType, shape: &[usize]) -> BuiltinOperand<'_> {
    BuiltinOperand { dtype, shape }
}

/// A builtin, its operand, and the types of its results.
type Call = (Builtin, Tensor, Vec<(DType, Vec<usize>)>);

/// Compares calls that share one piece of code with the CPU's.
fn check(calls: &[Call]) {
    let mut code = None;
    let mut started = Vec::new();
    for (seed, (builtin, x, outputs)) in (0..).zip(calls) {
        let results: Vec<_> = outputs
            .iter()
            .map(|(d, shape)| operand(*d, shape))
            .collect();
        let found = DeviceBuiltin::of(builtin, &[operand(x.dtype(), x.shape())], &results);
        let (found, symbols) = found.unwrap();
        assert_eq!(*code.get_or_insert(found), found);
        let mut buffers = vec![x.as_bytes().unwrap().to_vec()];
        buffers.extend(results.iter().map(|result| {
            let count: usize = result.shape.iter().product();
            vec![0xff; count * result.dtype.size_in_bytes()]
        }));
        started.push((symbols, buffers, seed));
    }
    let code = code.unwrap();
    let program = HostProgram::build(
        &code.host_text().unwrap(),
        code.parts(CudaArch::Sm90a),
        None,
    );
    let ended = program.and_then(|program| program.launch(&started));
    for ((builtin, x, outputs), ended) in calls.iter().zip(ended.unwrap()) {
        assert_eq!(ended.fault, u64::MAX);
        let buffers = ended.buffers;
        let what = format!("{builtin:?} of {}{:?}", x.dtype(), x.shape());
        assert_eq!(buffers[0], x.as_bytes().unwrap(), "{what}: the operand");
        let expected = on_the_cpu(builtin, x, outputs);
        assert!(expected == buffers[1..], "{what}: the results");
    }
}

fn top_k(x: Tensor, axis: usize, k: usize, largest: bool) -> Call {
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    let outputs = vec![(x.dtype(), shape.clone()), (DType::I64, shape)];
    (Builtin::TopK { axis, largest }, x, outputs)
}

#[test]
fn top_k_finds_what_the_cpu_finds() {
    if lacks_compiler() {
        return;
    }
    let mut random = SplitMix64::new(1);
    for (dtype, largest) in [
        (DType::F32, true),
        (DType::F32, false),
        (DType::F16, true),
        (DType::BF16, false),
        (DType::I32, false),
        (DType::I16, true),
        (DType::I8, false),
        (DType::U8, true),
        (DType::Bool, true),
    ] {
        let calls: Vec<Call> = [
            (vec![1], 0, 1),
            (vec![7], 0, 7),
            (vec![3, 300, 2], 1, 5),
            (vec![2, 1000], 1, 257),
            (vec![4, 513], 1, 513),
            (vec![600, 3], 0, 256),
        ]
        .into_iter()
        .map(|(shape, axis, k)| top_k(drawn(dtype, &shape, &mut random), axis, k, largest))
        .collect();
        check(&calls);
    }
}

#[test]
fn non_zero_finds_what_the_cpu_finds() {
    if lacks_compiler() {
        return;
    }
    let mut random = SplitMix64::new(2);
    for (dtype, shapes) in [
        (
            DType::F32,
            vec![vec![0], vec![1], vec![4095], vec![4097], vec![20_000]],
        ),
        (DType::F64, vec![vec![3, 5], vec![0, 2], vec![91, 97]]),
        (DType::BF16, vec![vec![2, 3, 5], vec![17, 31, 19]]),
        (DType::I64, vec![vec![130, 70]]),
        (DType::I8, vec![vec![1, 1, 1, 1], vec![5, 6, 7, 8]]),
        (DType::Bool, vec![vec![64, 65]]),
    ] {
        let calls: Vec<Call> = shapes
            .into_iter()
            .map(|shape| {
                let (rank, count): (usize, usize) = (shape.len(), shape.iter().product());
                let outputs = vec![(DType::I64, vec![rank, count]), (DType::I64, vec![])];
                (Builtin::NonZero, drawn(dtype, &shape, &mut random), outputs)
            })
            .collect();
        check(&calls);
    }
}

#[test]
fn what_the_device_has_no_code_for_is_left_to_the_host() {
    let refused = |builtin: &Builtin, x: BuiltinOperand<'_>, outputs: &[BuiltinOperand<'_>]| {
        assert_eq!(DeviceBuiltin::of(builtin, &[x], outputs), None);
    };
    let top = Builtin::TopK {
        axis: 0,
        largest: true,
    };
    let (long, found) = ([5000], [3000]);
    let results = [operand(DType::F32, &found), operand(DType::I64, &found)];
    refused(&top, operand(DType::F32, &long), &results);
    let results = [operand(DType::F64, &[2]), operand(DType::I64, &[2])];
    refused(&top, operand(DType::F64, &[3]), &results);
    let results = [operand(DType::I32, &[2]), operand(DType::I64, &[2])];
    refused(&top, operand(DType::F32, &[3]), &results);
    let results = [operand(DType::I64, &[1, 2]), operand(DType::I64, &[])];
    refused(&Builtin::NonZero, operand(DType::F32, &[3]), &results);
    let results = [operand(DType::I64, &[0, 1]), operand(DType::I64, &[])];
    refused(&Builtin::NonZero, operand(DType::F32, &[]), &results);
}

#[test]
fn nvrtc_compiles_builtins() {
    let compiler = match CudaCompiler::new(CudaArch::Sm90a) {
        Ok(compiler) => compiler,
        Err(CudaError::Environment { .. }) => {
            println!("skipped: CUDA C is not compiled, since NVRTC is not installed");
            return;
        }
        Err(error) => unreachable!("{error}"),
    };
    for arch in [CudaArch::Sm80, CudaArch::Sm90a, CudaArch::Sm100] {
        assert!(compiler.supports(&arch.target()));
        for dtype in [DType::F32, DType::F16, DType::I8, DType::Bool] {
            for code in [
                DeviceBuiltin::TopK {
                    dtype,
                    largest: true,
                },
                DeviceBuiltin::NonZero { dtype, rank: 3 },
            ] {
                let artifact = CudaCompiler::compile_builtin(code, arch).unwrap();
                assert!(!artifact.code.is_empty());
            }
        }
    }
}
