//! A kernel's identity in the cache: its text, and the keys of its code.

use std::collections::{BTreeMap, BTreeSet};

use kiln_backend::{KernelCompiler, KeyFields, Schedule, Target, stable_key};
use kiln_ir::Digest;
use kiln_kernel::{VerifiedKernel, specialize};
use kiln_kernel_cache::{CacheKey, EntryHead, EntryKind, FieldValue};
use kiln_symbolic_shape::Binding;

/// A kernel and its text: computed once per program.
#[derive(Clone, Debug)]
pub(crate) struct KernelIdentity {
    /// The kernel, with the name used in records, errors and crash reports, which is not part of the key.
    pub(crate) kernel: VerifiedKernel,
    /// Its name in compile timing.
    function: String,
    text: String,
    digest: Digest,
    digest_text: String,
    /// The assumptions beyond the kernel's contract: the sizes of a variant.
    facts: BTreeSet<String>,
}

impl KernelIdentity {
    /// The identity of a canonical kernel with a display name.
    pub(crate) fn of(kernel: &VerifiedKernel, name: &str) -> Self {
        let text = kiln_kernel::text::print(&kernel.kernel().clone().renamed("k"));
        let digest = Digest::of_text(&text);
        Self {
            kernel: kernel.labelled(name),
            function: name.to_owned(),
            text,
            digest,
            digest_text: digest.to_string(),
            facts: BTreeSet::new(),
        }
    }

    /// The same, timed under another name.
    pub(crate) fn with_function(self, function: &str) -> Self {
        Self {
            function: function.to_owned(),
            ..self
        }
    }

    /// The variant for these values of its symbols: the same kernel with more facts. `None` if no size becomes known.
    pub(crate) fn at(&self, symbols: &[i64]) -> Option<Self> {
        let kernel = specialize(&self.kernel, &binding_of(&self.kernel, symbols))?;
        Some(Self {
            kernel: kernel.labelled(self.name()),
            facts: self.facts_at(symbols).collect(),
            ..self.clone()
        })
    }

    /// The facts that these values of its symbols satisfy, one text each.
    pub(crate) fn facts_at(&self, symbols: &[i64]) -> impl Iterator<Item = String> {
        let dims = self.kernel.kernel().dims();
        let named = dims.symbols().zip(symbols.iter().copied());
        named.map(move |(symbol, size)| format!("{} == {size}", dims.symbol_name(symbol)))
    }

    /// The assumptions beyond the kernel's contract, as one text; empty for the generic kernel.
    pub(crate) fn facts(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(String::as_str).collect();
        facts.join(", ")
    }

    /// Its name in compile timing.
    pub(crate) fn function(&self) -> &str {
        &self.function
    }

    /// Its name in records.
    pub(crate) fn name(&self) -> &str {
        self.kernel.name()
    }

    /// The digest of its text.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The same, as text.
    pub(crate) fn digest_text(&self) -> &str {
        &self.digest_text
    }

    /// The key of its code by a compiler, for this `version` of Kiln.
    pub(crate) fn key(
        &self,
        compiler: &dyn KernelCompiler,
        target: &Target,
        schedule: &Schedule,
        version: &str,
    ) -> CacheKey {
        let fields = KeyFields {
            kernel: self.text.clone(),
            variant: self.facts.clone(),
            schedule: schedule.clone(),
            target: target.clone(),
            features: compiler.features(target).into_iter().collect(),
            kiln: version.to_owned(),
            compiler: compiler.version(),
            options: BTreeMap::new(),
        };
        let digest = *stable_key(&fields).as_bytes();
        let parts = fields.parts().map(|(name, parts)| (name, parts.join(" ")));
        CacheKey::new(EntryKind::KERNEL, digest.into(), parts)
    }
}

/// Values of a kernel's symbols, in the order of its table.
pub(crate) fn binding_of(kernel: &VerifiedKernel, symbols: &[i64]) -> Binding {
    let known = kernel.kernel().dims().symbols();
    known.zip(symbols.iter().copied()).collect()
}

/// The version of the compiler that made a stored entry, if the entry is code for a target stored by this `version` of
/// Kiln.
pub fn maker_of<'a>(head: &'a EntryHead, target: &Target, version: &str) -> Option<&'a str> {
    let text = |name: &str| {
        let field = head.fields.iter().find(|field| field.name == name)?;
        match &field.value {
            FieldValue::Text(text) => Some(text.as_str()),
            FieldValue::Digest { .. } => None,
        }
    };
    let is_code = head.kind == EntryKind::KERNEL.name()
        && text("kiln") == Some(version)
        && text("target") == Some(&format!("{} {}", target.backend, target.level));
    is_code.then(|| text("compiler")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_backend::{
        Artifact, Candidate, CompileError, CompileObserver, FALLBACK_SCHEDULE, Listing,
    };
    use std::time::Duration;

    struct Named;

    impl KernelCompiler for Named {
        fn version(&self) -> String {
            "llvm 19.1.7, code 0.1.0".to_owned()
        }

        fn host(&self) -> Target {
            level("portable")
        }

        fn features(&self, _target: &Target) -> Vec<String> {
            Vec::new()
        }

        fn supports(&self, _target: &Target) -> bool {
            true
        }

        fn schedules(&self, _kernel: &VerifiedKernel, _target: &Target) -> Vec<Candidate> {
            Vec::new()
        }

        fn compile(
            &self,
            _kernel: &VerifiedKernel,
            _target: &Target,
            _schedule: &Schedule,
            _observer: &mut dyn CompileObserver,
        ) -> Result<Artifact, CompileError> {
            unreachable!("it names what it would make")
        }

        fn listing(
            &self,
            _kernel: &VerifiedKernel,
            _target: &Target,
            _schedule: &Schedule,
            _listing: Listing,
        ) -> Result<String, CompileError> {
            unreachable!("it names what it would make")
        }
    }

    fn level(name: &str) -> Target {
        Target {
            backend: "llvm".to_owned(),
            level: name.to_owned(),
        }
    }

    #[test]
    fn the_code_key_names_its_compiler() {
        let text = "kernel @k(%x: in f32[N], %y: out f32[N]) {
          outer i < N
          store %y[i] = %x[i]
        }";
        let kernel = kiln_kernel::verify(kiln_kernel::text::read(text).unwrap()).unwrap();
        let schedule = Schedule::new(FALLBACK_SCHEDULE);
        let identity = KernelIdentity::of(&kernel, "copy");
        let key = identity.key(&Named, &Named.host(), &schedule, "0.1.0");
        let mut head = EntryHead {
            digest: key.digest(),
            kind: key.kind().name().to_owned(),
            compile_time: Duration::ZERO,
            fields: key.fields().to_vec(),
            content_bytes: 0,
        };
        let version = Named.version();
        assert_eq!(
            maker_of(&head, &Named.host(), "0.1.0"),
            Some(version.as_str())
        );
        assert_eq!(maker_of(&head, &Named.host(), "0.2.0"), None);
        assert_eq!(maker_of(&head, &level("avx512"), "0.1.0"), None);
        head.kind = EntryKind::PACKED.name().to_owned();
        assert_eq!(maker_of(&head, &Named.host(), "0.1.0"), None);
    }
}
