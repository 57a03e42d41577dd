//! One compilation inside LLVM, from an empty module to bytes.
//!
//! LLVM's rules, enforced only here: targets are initialised once; every context has a handler that collects errors
//! (without one LLVM would exit the process); every module passes the verifier before any pass runs, in release builds
//! too; LLVM's objects are dropped in the order machine, module, context. Each compilation has its own context, so
//! threads share nothing.

use std::ffi::{CStr, c_void};
use std::process;

use inkwell::OptimizationLevel;
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription,
    LLVMGetDiagInfoSeverity,
};
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine,
    TargetMachineOptions, TargetTriple,
};

use crate::crash::{self, CurrentKernel};
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use crate::object;
use crate::setup::Setup;
use crate::target;
use kiln_backend::IsaLevel;

/// The input of a compilation, and the kind of output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The kernel's name, for errors and crash reports.
    pub(crate) kernel: &'a str,
    /// The kernel's text, for crash reports.
    pub(crate) text: &'a str,
    pub(crate) level: IsaLevel,
    pub(crate) effort: Effort,
    /// Whether code never polls the stop word.
    pub(crate) omits_polls: bool,
    pub(crate) output: Output,
}

/// LLVM's optimisation level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// No passes and the simplest instruction selection.
    None,
    /// The passes that pay for code that is already vectorised.
    #[default]
    Light,
    /// LLVM's own `-O2` without its vectorisers.
    Full,
}

/// The output of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Output {
    /// A relocatable ELF object.
    Object,
    /// LLVM IR, as generated.
    Ir,
    /// LLVM IR, after the passes.
    OptimisedIr,
    /// Assembly.
    Assembly,
}

/// The stages of a compilation, for observers that attribute time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Build,
    Verify,
    Optimise,
    Emit,
}

/// Builds a module, verifies it, optimises it and emits it.
///
/// `observe` is called as each stage begins.
pub(crate) fn compile_module(
    request: Request<'_>,
    observe: &mut dyn FnMut(Stage),
    build: impl FnOnce(&ModuleBuilder<'_>) -> Result<(), LlvmError>,
) -> Result<Vec<u8>, LlvmError> {
    initialise()?;
    let _blame = CurrentKernel::set(request.kernel, request.text);
    // Dropped in the reverse order of declaration: machine, module (in `built`), context, errors.
    let diagnostics = Box::new(Diagnostics::default());
    let context = Context::create();
    diagnostics.collect_from(&context);
    let mut built = ModuleBuilder::new(&context, request.level);
    built.omits_polls = request.omits_polls;
    let machine = machine(request.level, request.effort)?;
    built.prepare(&machine);

    observe(Stage::Build);
    build(&built)?;
    let module = built.module();
    observe(Stage::Verify);
    verify(request, module)?;
    if request.output == Output::Ir {
        return Ok(module.print_to_string().to_bytes().to_vec());
    }
    observe(Stage::Optimise);
    optimise(request, module, &machine)?;
    diagnostics.check(request.kernel)?;
    if request.output == Output::OptimisedIr {
        return Ok(module.print_to_string().to_bytes().to_vec());
    }
    observe(Stage::Emit);
    let kind = match request.output {
        Output::Assembly => FileType::Assembly,
        _ => FileType::Object,
    };
    let emitted = machine.write_to_memory_buffer(module, kind);
    diagnostics.check(request.kernel)?;
    let emitted = emitted.map_err(|message| LlvmError::Diagnostics {
        kernel: request.kernel.to_owned(),
        diagnostics: vec![message.to_string()],
    })?;
    let bytes = emitted.as_slice();
    // An assembly buffer may include its terminating NUL.
    let bytes = match request.output {
        Output::Assembly => bytes.strip_suffix(b"\0").unwrap_or(bytes),
        _ => bytes,
    };
    if request.output == Output::Object {
        object::check_symbols(request.kernel, bytes)?;
    }
    Ok(bytes.to_vec())
}

fn initialise() -> Result<(), LlvmError> {
    static SETUP: Setup = Setup::new();
    SETUP.run(process::id(), || {
        let config = InitializationConfig::default();
        Target::initialize_x86(&config);
        Target::initialize_aarch64(&config);
        set_options();
        crash::install();
    })
}

/// Sets options that LLVM offers only on its command line.
///
/// Machine-level LICM keeps constants in registers across loops that do not use them, which spills accumulators of the
/// innermost loop: one matrix product ran at half speed. Instructions are scheduled top-down: bidirectional scheduling
/// moves all loads of a long body to its start, which spills accumulators too. The search for integers that could be
/// moved to mask registers takes a twentieth of the compile time and found none.
fn set_options() {
    let arguments = [
        c"kiln".as_ptr(),
        c"-disable-machine-licm".as_ptr(),
        c"-misched-topdown".as_ptr(),
        c"-disable-x86-domain-reassignment".as_ptr(),
    ];
    let count = arguments.len() as i32;
    // SAFETY: called once, before any other use of LLVM, with NUL-terminated strings that outlive the call; a null overview
    // is allowed.
    unsafe {
        LLVMParseCommandLineOptions(count, arguments.as_ptr(), std::ptr::null());
    }
}

fn machine(level: IsaLevel, effort: Effort) -> Result<TargetMachine, LlvmError> {
    let failed = |message: String| LlvmError::Target { level, message };
    let triple = TargetTriple::create(target::triple(level));
    let target = Target::from_triple(&triple).map_err(|message| failed(message.to_string()))?;
    let options = TargetMachineOptions::default()
        .set_cpu(target::cpu(level))
        .set_features(level.features())
        .set_level(match effort {
            Effort::None => OptimizationLevel::None,
            Effort::Light | Effort::Full => OptimizationLevel::Default,
        })
        .set_reloc_mode(RelocMode::PIC)
        .set_code_model(CodeModel::Small);
    target
        .create_target_machine_from_options(&triple, options)
        .ok_or_else(|| failed("no target machine".to_owned()))
}

fn verify(request: Request<'_>, module: &Module<'_>) -> Result<(), LlvmError> {
    module.verify().map_err(|message| LlvmError::InvalidModule {
        kernel: request.kernel.to_owned(),
        message: message.to_string(),
    })
}

fn optimise(
    request: Request<'_>,
    module: &Module<'_>,
    machine: &TargetMachine,
) -> Result<(), LlvmError> {
    let passes = match request.effort {
        Effort::None => return Ok(()),
        // The code is already vectorised, so CSE, address simplification and LICM are enough. Measured on `exp` of 32
        // lanes: 0.5 ms where `-O2` takes 2.9 ms, and the same code.
        Effort::Light => {
            "function(sroa,early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse)"
        }
        Effort::Full => "default<O2>",
    };
    let options = PassBuilderOptions::create();
    options.set_loop_vectorization(false);
    options.set_loop_slp_vectorization(false);
    module
        .run_passes(passes, machine, options)
        .map_err(|message| LlvmError::Diagnostics {
            kernel: request.kernel.to_owned(),
            diagnostics: vec![message.to_string()],
        })
}

/// The errors that LLVM reported on one context.
///
/// Invariant: its address is stable while the context, which points to it, is alive: it is boxed and dropped after the
/// context.
#[derive(Default)]
struct Diagnostics {
    errors: std::sync::Mutex<Vec<String>>,
}

impl Diagnostics {
    fn collect_from(&self, context: &Context) {
        let this: *const Diagnostics = self;
        // SAFETY: the context is alive; the handler has the required type; `this` is valid until after the context is
        // dropped (see the type), and is only read through a shared reference.
        unsafe {
            LLVMContextSetDiagnosticHandler(
                context.as_ctx_ref(),
                Some(on_diagnostic),
                this.cast_mut().cast::<c_void>(),
            );
        }
    }

    fn check(&self, kernel: &str) -> Result<(), LlvmError> {
        let mut errors = self
            .errors
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if errors.is_empty() {
            return Ok(());
        }
        Err(LlvmError::Diagnostics {
            kernel: kernel.to_owned(),
            diagnostics: std::mem::take(&mut errors),
        })
    }
}

extern "C" fn on_diagnostic(info: LLVMDiagnosticInfoRef, context: *mut c_void) {
    // SAFETY: LLVM passes the diagnostic, alive during the call, and the pointer registered with the handler, whose
    // validity `collect_from` ensures; the description is a NUL-terminated string, freed once with LLVM's own function.
    let (severity, message, diagnostics) = unsafe {
        let description = LLVMGetDiagInfoDescription(info);
        let message = CStr::from_ptr(description).to_string_lossy().into_owned();
        LLVMDisposeMessage(description);
        (
            LLVMGetDiagInfoSeverity(info),
            message,
            &*context.cast::<Diagnostics>(),
        )
    };
    if matches!(severity, LLVMDiagnosticSeverity::LLVMDSError) {
        let mut errors = diagnostics
            .errors
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        errors.push(message);
    } else {
        tracing::debug!(message, "llvm.diagnostic");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::Elem;
    use crate::testing::request;

    fn add_one(module: &ModuleBuilder<'_>) -> Result<(), LlvmError> {
        let (e, parameters) = module.phase("phase");
        let ty = e.ty(Elem::F32, 16);
        let x = e.load(ty, parameters.scratch, 4);
        e.store(parameters.scratch, e.fadd(x, e.float(x, 1.0)), 4);
        e.return_none();
        Ok(())
    }

    fn text(level: IsaLevel, output: Output) -> String {
        let bytes = compile_module(request(level, output), &mut |_| {}, add_one).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_module_becomes_an_object_on_every_level() {
        for level in IsaLevel::ALL {
            for effort in [Effort::None, Effort::Light, Effort::Full] {
                let request = Request {
                    effort,
                    ..request(level, Output::Object)
                };
                let mut stages = Vec::new();
                let object =
                    compile_module(request, &mut |stage| stages.push(stage), add_one).unwrap();
                assert!(object.starts_with(b"\x7fELF"), "{level}");
                assert_eq!(
                    stages,
                    [Stage::Build, Stage::Verify, Stage::Optimise, Stage::Emit]
                );
            }
        }
    }

    #[test]
    fn each_level_uses_its_widest_registers_and_no_wider() {
        let registers = |level| {
            let text = text(level, Output::Assembly);
            ["xmm", "ymm", "zmm"].map(|register| text.contains(register))
        };
        assert_eq!(registers(IsaLevel::Portable), [true, false, false]);
        assert_eq!(registers(IsaLevel::Avx2Fma), [false, true, false]);
        assert_eq!(registers(IsaLevel::Avx512), [false, false, true]);
        assert!(text(IsaLevel::Neon, Output::Assembly).contains("fadd\tv"));
    }

    #[test]
    fn ir_is_output_before_or_after_the_passes() {
        let before = text(IsaLevel::Avx512, Output::Ir);
        assert!(before.contains("fadd <16 x float>"), "{before}");
        assert!(
            before.contains("\"prefer-vector-width\"=\"512\""),
            "{before}"
        );
        assert!(text(IsaLevel::Avx512, Output::OptimisedIr).contains("fadd <16 x float>"));
    }

    #[test]
    fn an_invalid_module_is_an_error_that_names_the_kernel() {
        let error = compile_module(
            request(IsaLevel::Portable, Output::Object),
            &mut |_| {},
            |module| {
                // A body without a terminator.
                module.phase("phase");
                Ok(())
            },
        )
        .unwrap_err();
        assert_eq!(error.code(), "E0502");
        assert!(error.to_string().starts_with("kernel `test`: "), "{error}");
    }

    #[test]
    fn a_call_of_a_library_function_is_an_error() {
        let error = compile_module(
            request(IsaLevel::Portable, Output::Object),
            &mut |_| {},
            |module| {
                let (e, parameters) = module.phase("phase");
                let x = e.load(e.ty(Elem::F32, 1), parameters.scratch, 4);
                let y = e.intrinsic("llvm.sin", &[x.get_type()], &[x]).unwrap();
                e.store(parameters.scratch, y, 4);
                e.return_none();
                Ok(())
            },
        )
        .unwrap_err();
        assert_eq!(error.code(), "E0504");
        insta::assert_snapshot!(
            error,
            @"kernel `test`: the object code needs `sinf`, which no loader provides"
        );
    }

    #[test]
    fn what_llvm_reports_becomes_an_error() {
        let error = compile_module(
            request(IsaLevel::Portable, Output::Object),
            &mut |_| {},
            |module| {
                let (e, _) = module.phase("phase");
                e.inline_assembly("no such instruction");
                e.return_none();
                Ok(())
            },
        )
        .unwrap_err();
        assert_eq!(error.code(), "E0503");
        assert!(error.to_string().contains("inline asm"), "{error}");
    }
}
