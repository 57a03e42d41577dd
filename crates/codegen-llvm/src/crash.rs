//! Crash reports, written when LLVM aborts the process.
//!
//! When LLVM reaches a state that it considers impossible, it calls a handler and then exits. This handler writes a report
//! that names the kernel being compiled on this thread, then aborts. Invariant: nothing unwinds through LLVM's frames; the
//! handler never returns.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;

/// The data of a crash report, written when LLVM aborts the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// LLVM's message.
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

/// Sets the function that receives crash reports. Only the first call has an effect; the result says whether this was
/// the first.
///
/// The process aborts when the function returns. Without one, the report is written to standard error.
pub fn set_crash_report(report: impl Fn(&CrashReport) + Send + Sync + 'static) -> bool {
    REPORTER.set(Box::new(report)).is_ok()
}

/// While it is alive, a crash on this thread is attributed to a kernel.
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

/// Registers [`on_fatal_error`] with LLVM. Called once per process.
pub(super) fn install() {
    // SAFETY: the handler has the type that LLVM expects and lives as long as the process.
    unsafe { LLVMInstallFatalErrorHandler(Some(on_fatal_error)) };
}

extern "C" fn on_fatal_error(reason: *const c_char) {
    let message = if reason.is_null() {
        String::new()
    } else {
        // SAFETY: LLVM passes a NUL-terminated string that outlives the call.
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::emit::Elem;
    use crate::session::{Output, Request, compile_module};
    use crate::testing::request;
    use kiln_backend::IsaLevel;

    /// Emits an instruction that the level lacks, which is a fatal error in LLVM.
    fn provoke() {
        let request = Request {
            kernel: "doomed",
            text: "kernel @doomed()",
            ..request(IsaLevel::Portable, Output::Object)
        };
        let result = compile_module(request, &mut |_| {}, |module| {
            let (e, parameters) = module.phase("phase");
            let ty = e.ty(Elem::I8, 16);
            let x = e.load(ty, parameters.scratch, 1);
            let y = e.intrinsic("llvm.x86.ssse3.pshuf.b.128", &[], &[x, x]);
            e.store(parameters.scratch, y.expect("it has a value"), 1);
            e.return_none();
            Ok(())
        });
        panic!("LLVM went on: {result:?}");
    }

    #[test]
    #[ignore = "aborts; the tests below run it in a child process"]
    fn child_with_a_reporter() {
        set_crash_report(|report| println!("REPORT {report:?}"));
        assert!(!set_crash_report(|_| {}), "the first one stays");
        provoke();
    }

    #[test]
    #[ignore = "aborts; the tests below run it in a child process"]
    fn child_with_a_reporter_that_panics() {
        set_crash_report(|_| panic!("a reporter that fails"));
        provoke();
    }

    #[test]
    #[ignore = "aborts; the tests below run it in a child process"]
    fn child_without_a_reporter() {
        provoke();
    }

    fn run(child: &str) -> (bool, String) {
        let program = std::env::current_exe().expect("tests are programs");
        let name = format!("crash::tests::{child}");
        let output = Command::new(program)
            .args([&name, "--exact", "--ignored", "--nocapture"])
            .output()
            .expect("the test program runs");
        #[cfg(unix)]
        let aborted = {
            use std::os::unix::process::ExitStatusExt as _;
            // SIGABRT, not an exit code.
            output.status.signal() == Some(6)
        };
        #[cfg(not(unix))]
        let aborted = !output.status.success();
        let text = [output.stdout, output.stderr].concat();
        (aborted, String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn a_fatal_error_reports_the_kernel_and_aborts() {
        let (aborted, text) = run("child_with_a_reporter");
        assert!(aborted, "{text}");
        assert!(
            text.contains("REPORT CrashReport { message: \"Cannot select"),
            "{text}"
        );
        assert!(
            text.contains("kernel: \"doomed\", text: \"kernel @doomed()\""),
            "{text}"
        );
    }

    #[test]
    fn a_fatal_error_without_a_reporter_is_written_to_standard_error() {
        let (aborted, text) = run("child_without_a_reporter");
        assert!(aborted, "{text}");
        assert!(text.contains("while compiling kernel `doomed`"), "{text}");
        let (aborted, text) = run("child_with_a_reporter_that_panics");
        assert!(aborted, "{text}");
    }
}
