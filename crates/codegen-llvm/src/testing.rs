//! Compiles and runs small functions over arrays, for this crate's tests.

use std::ptr;

use kiln_native::{LaunchArguments, LoadedCode};
use kiln_tensor::DType;

use crate::abi::Launch;
use crate::emit::{Emitter, Value};
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use crate::session::{Effort, Output, Request, compile_module};
use kiln_backend::IsaLevel;

/// The levels that this machine runs.
pub(crate) fn host_levels() -> Vec<IsaLevel> {
    IsaLevel::of_host().collect()
}

pub(crate) fn request(level: IsaLevel, output: Output) -> Request<'static> {
    Request {
        kernel: "test",
        text: "kernel @test()",
        level,
        effort: Effort::Light,
        omits_polls: false,
        output,
    }
}

/// Compiles a function of lanes; the phase reads an array per input and writes one per output.
pub(crate) fn compile_lanes(
    request: Request<'_>,
    lanes: u32,
    inputs: &[DType],
    outputs: &[DType],
    body: impl for<'c> Fn(&Emitter<'_, 'c>, &[Value<'c>]) -> Vec<Value<'c>>,
) -> Result<Vec<u8>, LlvmError> {
    compile_module(request, &mut |_| {}, |module| {
        build_lanes(module, lanes, inputs, outputs, &body);
        Ok(())
    })
}

pub(crate) fn build_lanes<'ctx>(
    module: &ModuleBuilder<'ctx>,
    lanes: u32,
    inputs: &[DType],
    outputs: &[DType],
    body: &impl for<'c> Fn(&Emitter<'_, 'c>, &[Value<'c>]) -> Vec<Value<'c>>,
) {
    let (e, parameters) = module.phase("phase");
    let launch = Launch::new(parameters);
    let sources: Vec<_> = (0..inputs.len())
        .map(|position| launch.buffer(&e, position))
        .collect();
    let targets: Vec<_> = (0..outputs.len())
        .map(|position| launch.buffer(&e, inputs.len() + position))
        .collect();
    let step = e.i64(i64::from(lanes));
    e.for_range(
        parameters.first,
        parameters.last,
        step,
        None,
        &[],
        |index, _| {
            let values: Vec<_> = sources
                .iter()
                .zip(inputs)
                .map(|(&source, &dtype)| {
                    e.load_dtype(dtype, lanes, e.element(source, dtype, index))
                })
                .collect();
            let results = body(&e, &values);
            for ((&target, &dtype), result) in targets.iter().zip(outputs).zip(results) {
                e.store_dtype(dtype, e.element(target, dtype, index), result);
            }
            Vec::new()
        },
    );
    e.return_none();
}

/// A compiled function of lanes.
pub(crate) struct Lanes {
    phase: Phase,
    lanes: usize,
    inputs: Vec<DType>,
    outputs: Vec<DType>,
}

impl Lanes {
    /// Compiles for a level that this machine runs.
    pub(crate) fn new(
        level: IsaLevel,
        lanes: u32,
        inputs: &[DType],
        outputs: &[DType],
        body: impl for<'c> Fn(&Emitter<'_, 'c>, &[Value<'c>]) -> Vec<Value<'c>>,
    ) -> Lanes {
        assert!(level.runs_here());
        let object = compile_lanes(request(level, Output::Object), lanes, inputs, outputs, body)
            .expect("the function compiles");
        Lanes {
            phase: load_phase(&object),
            lanes: lanes as usize,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        }
    }

    /// Runs over arrays of equal length, as bytes; returns the outputs as bytes.
    pub(crate) fn run(&self, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
        let n = inputs[0].len() / self.inputs[0].size_in_bytes();
        let padded = n.next_multiple_of(self.lanes);
        let mut arrays: Vec<Vec<u8>> = inputs
            .iter()
            .zip(&self.inputs)
            .map(|(bytes, dtype)| {
                assert_eq!(bytes.len(), n * dtype.size_in_bytes());
                let mut bytes = bytes.to_vec();
                bytes.resize(padded * dtype.size_in_bytes(), 0);
                bytes
            })
            .collect();
        arrays.extend(
            self.outputs
                .iter()
                .map(|dtype| vec![0u8; padded * dtype.size_in_bytes()]),
        );
        let pointers: Vec<*mut u8> = arrays.iter_mut().map(|array| array.as_mut_ptr()).collect();
        let arguments = LaunchArguments {
            buffers: pointers.as_ptr(),
            sizes: ptr::null(),
            shared: ptr::null_mut(),
            fault: ptr::null_mut(),
            stop: &0,
        };
        // SAFETY: there are as many arrays as the function was built for, each with as many elements of its dtype as there
        // are tasks; nothing else is read.
        unsafe { self.phase.call(&arguments, 0, padded as u64) };
        arrays
            .split_off(inputs.len())
            .into_iter()
            .zip(&self.outputs)
            .map(|(mut array, dtype)| {
                array.truncate(n * dtype.size_in_bytes());
                array
            })
            .collect()
    }

    pub(crate) fn run_f32(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let bytes: Vec<Vec<u8>> = inputs
            .iter()
            .map(|input| input.iter().flat_map(|x| x.to_le_bytes()).collect())
            .collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        self.run(&bytes)[0]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&chunk| f32::from_le_bytes(chunk))
            .collect()
    }

    pub(crate) fn run_f64(&self, inputs: &[&[f64]]) -> Vec<f64> {
        let bytes: Vec<Vec<u8>> = inputs
            .iter()
            .map(|input| input.iter().flat_map(|x| x.to_le_bytes()).collect())
            .collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        self.run(&bytes)[0]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&chunk| f64::from_le_bytes(chunk))
            .collect()
    }
}

/// A loaded phase.
pub(crate) struct Phase {
    code: LoadedCode,
}

impl Phase {
    /// Runs tasks `first..last`, without scratch memory.
    ///
    /// # Safety
    /// The arguments are what the phase expects.
    pub(crate) unsafe fn call(&self, arguments: &LaunchArguments, first: u64, last: u64) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.code.call(0, arguments, ptr::null_mut(), first, last) };
    }
}

/// Loads the function `phase` of an object.
pub(crate) fn load_phase(object: &[u8]) -> Phase {
    Phase {
        code: LoadedCode::load(object, &["phase"]).expect("the object loads"),
    }
}
