//! The LLVM module of one kernel: its functions, and their common attributes.
//!
//! All functions have the same attributes, so that LLVM can inline them into each other. Their bodies are emitted in
//! `emit`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::targets::TargetMachine;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::FunctionValue;
use inkwell::{AddressSpace, targets::TargetTriple};

use crate::emit::{Emitter, Value};
use crate::target;
use kiln_backend::IsaLevel;

/// A module under construction.
/// `phase` adds an exported function of the kernel ABI, `internal` a private one, once per name. Both return an [`Emitter`]
/// placed at the start of the body.
pub(crate) struct ModuleBuilder<'ctx> {
    context: &'ctx Context,
    module: Module<'ctx>,
    level: IsaLevel,
    /// Whether code never polls the stop word.
    pub(crate) omits_polls: bool,
    internal: RefCell<BTreeMap<String, FunctionValue<'ctx>>>,
}

/// The parameters of a phase, in the order of the kernel ABI.
#[derive(Clone, Copy)]
pub(crate) struct PhaseParameters<'ctx> {
    /// The launch arguments (see `abi`).
    pub(crate) arguments: Value<'ctx>,
    /// This worker's scratch memory.
    pub(crate) scratch: Value<'ctx>,
    /// The first task, an i64.
    pub(crate) first: Value<'ctx>,
    /// One past the last task, an i64.
    pub(crate) last: Value<'ctx>,
}

impl<'ctx> ModuleBuilder<'ctx> {
    pub(crate) fn new(context: &'ctx Context, level: IsaLevel) -> ModuleBuilder<'ctx> {
        ModuleBuilder {
            context,
            module: context.create_module("kernel"),
            level,
            omits_polls: false,
            internal: RefCell::new(BTreeMap::new()),
        }
    }

    pub(crate) fn prepare(&self, machine: &TargetMachine) {
        self.module
            .set_triple(&TargetTriple::create(target::triple(self.level)));
        self.module
            .set_data_layout(&machine.get_target_data().get_data_layout());
    }

    pub(crate) fn context(&self) -> &'ctx Context {
        self.context
    }

    pub(crate) fn module(&self) -> &Module<'ctx> {
        &self.module
    }

    pub(crate) fn level(&self) -> IsaLevel {
        self.level
    }

    /// Adds the exported function of a phase.
    ///
    /// The body must end in `emitter.return_none()`.
    pub(crate) fn phase(&self, name: &str) -> (Emitter<'_, 'ctx>, PhaseParameters<'ctx>) {
        let pointer = BasicMetadataTypeEnum::from(self.context.ptr_type(AddressSpace::default()));
        let integer = BasicMetadataTypeEnum::from(self.context.i64_type());
        let ty = self
            .context
            .void_type()
            .fn_type(&[pointer, pointer, integer, integer], false);
        let function = self.module.add_function(name, ty, Some(Linkage::External));
        self.set_attributes(function);
        let no_alias = self.attribute("noalias");
        function.add_attribute(AttributeLoc::Param(1), no_alias);
        for attribute in ["noalias", "readonly", "nocapture"] {
            function.add_attribute(AttributeLoc::Param(0), self.attribute(attribute));
        }
        let emitter = Emitter::at_start_of(self, function);
        let parameters = PhaseParameters {
            arguments: emitter.parameter(function, 0),
            scratch: emitter.parameter(function, 1),
            first: emitter.parameter(function, 2),
            last: emitter.parameter(function, 3),
        };
        (emitter, parameters)
    }

    /// The private function of a name; its body is emitted by the first call.
    ///
    /// `body` takes the parameters and returns the result. The function is marked cold.
    pub(crate) fn internal(
        &self,
        name: &str,
        parameters: &[BasicTypeEnum<'ctx>],
        result: BasicTypeEnum<'ctx>,
        body: impl FnOnce(&Emitter<'_, 'ctx>, &[Value<'ctx>]) -> Value<'ctx>,
    ) -> FunctionValue<'ctx> {
        use inkwell::types::BasicType as _;

        if let Some(&function) = self.internal.borrow().get(name) {
            return function;
        }
        let types: Vec<BasicMetadataTypeEnum<'ctx>> =
            parameters.iter().map(|&ty| ty.into()).collect();
        let function =
            self.module
                .add_function(name, result.fn_type(&types, false), Some(Linkage::Internal));
        self.set_attributes(function);
        for attribute in ["noinline", "cold"] {
            function.add_attribute(AttributeLoc::Function, self.attribute(attribute));
        }
        self.internal.borrow_mut().insert(name.to_owned(), function);
        let emitter = Emitter::at_start_of(self, function);
        let values: Vec<Value<'ctx>> = (0..types.len() as u32)
            .map(|position| emitter.parameter(function, position))
            .collect();
        let value = body(&emitter, &values);
        emitter.return_value(value);
        function
    }

    /// The address of a private, read-only array, added once per name.
    pub(crate) fn constant_words(&self, name: &str, words: &[u64]) -> Value<'ctx> {
        let global = self.module.get_global(name).unwrap_or_else(|| {
            let ty = self.context.i64_type();
            let values: Vec<_> = words
                .iter()
                .map(|&word| ty.const_int(word, false))
                .collect();
            let array = ty.const_array(&values);
            let global = self.module.add_global(array.get_type(), None, name);
            global.set_initializer(&array);
            global.set_constant(true);
            global.set_linkage(Linkage::Internal);
            global.set_unnamed_addr(true);
            global.set_alignment(64);
            global
        });
        global.as_pointer_value().into()
    }

    fn set_attributes(&self, function: FunctionValue<'ctx>) {
        let features = self.level.features();
        let mut texts = vec![
            ("target-cpu", target::cpu(self.level)),
            ("target-features", features),
            // LLVM must not introduce calls of C library functions.
            ("no-builtins", ""),
            ("denormal-fp-math", "ieee,ieee"),
        ];
        if self.level.vector_bytes() == 64 {
            // Without these, LLVM splits 512-bit vectors in two for some processors.
            texts.push(("prefer-vector-width", "512"));
            texts.push(("min-legal-vector-width", "512"));
        }
        for (name, value) in texts {
            let attribute = self.context.create_string_attribute(name, value);
            function.add_attribute(AttributeLoc::Function, attribute);
        }
        function.add_attribute(AttributeLoc::Function, self.attribute("nounwind"));
    }

    fn attribute(&self, name: &str) -> Attribute {
        self.context
            .create_enum_attribute(Attribute::get_named_enum_kind_id(name), 0)
    }
}
