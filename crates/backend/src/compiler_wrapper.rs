//! A compiler that wraps another: [`CompilerWrapper`].

use crate::artifact::Artifact;
use crate::compile::{Candidate, CompileError, CompileObserver, KernelCompiler, Listing};
use crate::schedule::{Schedule, Target};
use kiln_kernel::VerifiedKernel;

/// A [`KernelCompiler`] around another one, to which all methods that the wrapper does not override are forwarded. The
/// methods are those of [`KernelCompiler`].
///
/// ```
/// use kiln_backend::{CompilerWrapper, KernelCompiler};
///
/// /// A compiler under a name of its own.
/// struct Named<C>(C);
///
/// impl<C: KernelCompiler> CompilerWrapper for Named<C> {
///     type Inner = C;
///
///     fn inner(&self) -> &C {
///         &self.0
///     }
///
///     fn version(&self) -> String {
///         format!("{}, named", self.0.version())
///     }
/// }
///
/// fn takes_a_compiler(_: impl KernelCompiler) {}
/// # fn compiles(compiler: Box<dyn KernelCompiler>) {
/// takes_a_compiler(Named(compiler));
/// # }
/// ```
pub trait CompilerWrapper: Send + Sync {
    /// The inner compiler.
    type Inner: KernelCompiler + ?Sized;

    /// The inner compiler.
    fn inner(&self) -> &Self::Inner;

    /// See [`KernelCompiler::version`].
    fn version(&self) -> String {
        self.inner().version()
    }

    /// See [`KernelCompiler::host`].
    fn host(&self) -> Target {
        self.inner().host()
    }

    /// See [`KernelCompiler::features`].
    fn features(&self, target: &Target) -> Vec<String> {
        self.inner().features(target)
    }

    /// See [`KernelCompiler::supports`].
    fn supports(&self, target: &Target) -> bool {
        self.inner().supports(target)
    }

    /// See [`KernelCompiler::schedules`].
    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        self.inner().schedules(kernel, target)
    }

    /// See [`KernelCompiler::adapted`].
    fn adapted(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        general: &Schedule,
    ) -> Option<Schedule> {
        self.inner().adapted(kernel, target, general)
    }

    /// See [`KernelCompiler::compile`].
    ///
    /// # Errors
    /// As there.
    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        self.inner().compile(kernel, target, schedule, observer)
    }

    /// See [`KernelCompiler::listing`].
    ///
    /// # Errors
    /// As there.
    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        self.inner().listing(kernel, target, schedule, listing)
    }

    /// See [`KernelCompiler::forget_failures`].
    fn forget_failures(&self) {
        self.inner().forget_failures();
    }
}

impl<C: KernelCompiler + ?Sized> CompilerWrapper for Box<C> {
    type Inner = C;

    fn inner(&self) -> &C {
        self
    }
}

impl<W: CompilerWrapper> KernelCompiler for W {
    fn version(&self) -> String {
        CompilerWrapper::version(self)
    }

    fn host(&self) -> Target {
        CompilerWrapper::host(self)
    }

    fn features(&self, target: &Target) -> Vec<String> {
        CompilerWrapper::features(self, target)
    }

    fn supports(&self, target: &Target) -> bool {
        CompilerWrapper::supports(self, target)
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        CompilerWrapper::schedules(self, kernel, target)
    }

    fn adapted(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        general: &Schedule,
    ) -> Option<Schedule> {
        CompilerWrapper::adapted(self, kernel, target, general)
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        CompilerWrapper::compile(self, kernel, target, schedule, observer)
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        CompilerWrapper::listing(self, kernel, target, schedule, listing)
    }

    fn forget_failures(&self) {
        CompilerWrapper::forget_failures(self);
    }
}
