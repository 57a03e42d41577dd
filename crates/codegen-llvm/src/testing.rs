//! Compiling and running small functions over arrays, for this crate's tests.

use std::ffi::{CStr, CString};
use std::ptr;

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile,
    LLVMOrcLLJITGetGlobalPrefix, LLVMOrcLLJITGetMainJITDylib, LLVMOrcLLJITLookup, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess, LLVMOrcJITDylibAddGenerator,
};
use inkwell::targets::{InitializationConfig, Target};

use kiln_tensor::DType;

use crate::emit::{Emitter, Value};
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use crate::session::{Effort, Output, Request, compile_module};
use crate::target::IsaLevel;

/// The levels that this machine runs.
pub(crate) fn host_levels() -> Vec<IsaLevel> {
    IsaLevel::ALL
        .into_iter()
        .filter(|level| level.runs_here())
        .collect()
}

pub(crate) fn request(level: IsaLevel, output: Output) -> Request<'static> {
    Request {
        kernel: "test",
        text: "kernel @test()",
        level,
        effort: Effort::Light,
        output,
    }
}

/// Compiles a function of lanes; the phase reads arrays of `inputs` and writes one of `outputs`
/// each.
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

fn build_lanes<'ctx>(
    module: &ModuleBuilder<'ctx>,
    lanes: u32,
    inputs: &[DType],
    outputs: &[DType],
    body: &impl for<'c> Fn(&Emitter<'_, 'c>, &[Value<'c>]) -> Vec<Value<'c>>,
) {
    let (e, parameters) = module.phase("phase");
    let pointer = e.ty(crate::emit::Elem::Pointer, 1);
    let array = |position: usize| {
        let place = e.offset(parameters.arguments, e.i64(8 * position as i64));
        e.load(pointer, place, 8)
    };
    let sources: Vec<_> = (0..inputs.len()).map(array).collect();
    let targets: Vec<_> = (0..outputs.len())
        .map(|position| array(inputs.len() + position))
        .collect();
    let step = e.i64(i64::from(lanes));
    e.for_range(parameters.first, parameters.last, step, &[], |index, _| {
        let values: Vec<_> = sources
            .iter()
            .zip(inputs)
            .map(|(&source, &dtype)| e.load_dtype(dtype, lanes, e.element(source, dtype, index)))
            .collect();
        let results = body(&e, &values);
        for ((&target, &dtype), result) in targets.iter().zip(outputs).zip(results) {
            e.store_dtype(dtype, e.element(target, dtype, index), result);
        }
        Vec::new()
    });
    e.return_none();
}

/// A compiled function of lanes that can be run.
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

    /// Runs over arrays of one length, given as bytes; gives the outputs as bytes.
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
        self.phase.call(&pointers, 0, padded as u64);
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
    jit: LLVMOrcLLJITRef,
    entry: Entry,
}

impl Phase {
    /// Runs tasks `first..last`, without scratch memory.
    pub(crate) fn call(&self, arguments: &[*mut u8], first: u64, last: u64) {
        (self.entry)(arguments.as_ptr(), ptr::null_mut(), first, last);
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        // SAFETY: made by `load_phase`, disposed of once, and nothing runs in it any more.
        check(unsafe { LLVMOrcDisposeLLJIT(self.jit) });
    }
}

/// Loads the function `phase` of an object.
pub(crate) fn load_phase(object: &[u8]) -> Phase {
    let (jit, entry) = load(object, c"phase");
    Phase { jit, entry }
}

type Entry = extern "C" fn(*const *mut u8, *mut u8, u64, u64);

fn load(object: &[u8], entry: &CStr) -> (LLVMOrcLLJITRef, Entry) {
    Target::initialize_x86(&InitializationConfig::default());
    let mut jit = ptr::null_mut();
    // SAFETY: each call gets what it asks for: a null builder means defaults, the buffer is a
    // copy that the JIT takes over, and the symbol is a function of the phase's type.
    unsafe {
        check(LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()));
        let library = LLVMOrcLLJITGetMainJITDylib(jit);
        let mut process = ptr::null_mut();
        check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
            &mut process,
            LLVMOrcLLJITGetGlobalPrefix(jit),
            None,
            ptr::null_mut(),
        ));
        LLVMOrcJITDylibAddGenerator(library, process);
        let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
            object.as_ptr().cast(),
            object.len(),
            c"test".as_ptr(),
        );
        check(LLVMOrcLLJITAddObjectFile(jit, library, buffer));
        let mut address = 0;
        check(LLVMOrcLLJITLookup(jit, &mut address, entry.as_ptr()));
        let entry: Entry = std::mem::transmute(address as usize);
        (jit, entry)
    }
}

fn check(error: LLVMErrorRef) {
    if !error.is_null() {
        // SAFETY: an error that is not null has a message, which is ours.
        let message = unsafe { CString::from_raw(LLVMGetErrorMessage(error)) };
        panic!("{}", message.to_string_lossy());
    }
}
