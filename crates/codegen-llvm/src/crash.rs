//! What is left behind when LLVM gives up on the whole process.
//!
//! LLVM calls a handler and then exits when it meets what it holds for impossible. The handler
//! here writes a report that names the kernel being compiled on this thread, then aborts.
//! Invariant: nothing unwinds through LLVM's frames; the handler never returns.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;

/// What is known when LLVM ends the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// What LLVM said.
    pub message: String,
    /// The name of the kernel that was being compiled, empty if none was.
    pub kernel: String,
    /// That kernel's text.
    pub text: String,
}

type Reporter = Box<dyn Fn(&CrashReport) + Send + Sync>;

static REPORTER: OnceLock<Reporter> = OnceLock::new();

thread_local! {
    static CURRENT: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Says where a crash report goes; the first call decides, and later ones change nothing.
///
/// The process aborts when the function returns. Without one, the report goes to standard error.
pub fn set_crash_report(report: impl Fn(&CrashReport) + Send + Sync + 'static) -> bool {
    REPORTER.set(Box::new(report)).is_ok()
}

/// While it lives, a crash on this thread is blamed on a kernel.
pub(crate) struct CurrentKernel(());

impl CurrentKernel {
    pub(crate) fn set(name: &str, text: &str) -> CurrentKernel {
        CURRENT.with_borrow_mut(|current| *current = Some((name.to_owned(), text.to_owned())));
        CurrentKernel(())
    }
}

impl Drop for CurrentKernel {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

/// Makes LLVM call [`on_fatal_error`]. Once per process.
pub(super) fn install() {
    // SAFETY: the handler is a function of the type LLVM asks for and lives as long as the process.
    unsafe { LLVMInstallFatalErrorHandler(Some(on_fatal_error)) };
}

extern "C" fn on_fatal_error(reason: *const c_char) {
    let message = if reason.is_null() {
        String::new()
    } else {
        // SAFETY: LLVM passes a string that ends in a zero and outlives the call.
        unsafe { CStr::from_ptr(reason) }
            .to_string_lossy()
            .into_owned()
    };
    // A reporter that panics must not unwind into LLVM; the abort below follows either way.
    let _ = catch_unwind(AssertUnwindSafe(|| write_report(message)));
    std::process::abort();
}

fn write_report(message: String) {
    let (kernel, text) = CURRENT
        .try_with(|current| {
            current
                .try_borrow()
                .ok()
                .and_then(|current| current.clone())
        })
        .ok()
        .flatten()
        .unwrap_or_default();
    let report = CrashReport {
        message,
        kernel,
        text,
    };
    match REPORTER.get() {
        Some(reporter) => reporter(&report),
        None => {
            let _ = writeln!(
                std::io::stderr(),
                "LLVM gave up: {}\nwhile compiling kernel `{}`:\n{}",
                report.message,
                report.kernel,
                report.text
            );
        }
    }
}
