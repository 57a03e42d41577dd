//! The lifecycle of workers: when their parent ends, in forked children, and with many threads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln_codegen_llvm::{LlvmCompiler, LlvmError};
use kiln_compile_worker::{WorkerCompiler, WorkerProgram};

use crate::support::{children, compile, compiler, descriptors, kernel, limits, until};

#[test]
fn workers_are_reused_and_end_with_their_pool() {
    let before = descriptors();
    let compiler = compiler(limits(), 2);
    compile(&compiler, &kernel("first")).expect("it compiles");
    until("one worker that was used and one ahead", || {
        children().len() == 2
    });
    let mut workers = children();
    for number in 0..20 {
        compile(&compiler, &kernel(&format!("next_{number}"))).expect("it compiles");
    }
    let mut after = children();
    workers.sort_unstable();
    after.sort_unstable();
    assert_eq!(workers, after);
    drop(compiler);
    assert_eq!(children(), [0_u32; 0]);
    assert_eq!(descriptors(), before);
}

#[test]
fn an_idle_worker_that_is_killed_is_replaced_without_an_error() {
    let compiler = compiler(limits(), 1);
    for number in 0..5 {
        compile(&compiler, &kernel(&format!("k{number}"))).expect("it compiles");
        for child in children() {
            // SAFETY: sends a signal to a child of this process that has not been waited for.
            unsafe { libc::kill(child as i32, libc::SIGKILL) };
        }
    }
    assert_eq!(compiler.n_lost(), 0);
}

#[test]
fn a_worker_inherits_no_file_descriptors() {
    let file = std::fs::File::open("/proc/self/status").expect("procfs");
    // SAFETY: a duplicate that stays open across `exec`, as C libraries may leave them; only this test owns it.
    let leaked = unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) };
    let compiler = compiler(limits(), 1);
    compile(&compiler, &kernel("good")).expect("it compiles");
    for child in children() {
        let open = std::fs::read_dir(format!("/proc/{child}/fd")).expect("a live worker");
        for descriptor in open.flatten() {
            let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
            assert!(!target.ends_with("status"), "{target:?}");
        }
    }
    // SAFETY: it was duplicated above and is closed once.
    unsafe { libc::close(leaked) };
}

#[test]
#[ignore = "a parent that is killed; the test below runs it in a process of its own"]
fn child_parent() {
    let compiler = compiler(limits(), 2);
    compile(&compiler, &kernel("good")).expect("it compiles");
    until("two workers", || children().len() == 2);
    let ids: Vec<String> = children().iter().map(u32::to_string).collect();
    println!("WORKERS {}", ids.join(" "));
    let _ = compile(&compiler, &kernel("hang"));
}

#[test]
fn workers_exit_when_their_parent_is_killed() {
    let mut parent = Command::new(std::env::current_exe().expect("tests are programs"))
        .args([
            "lifecycle::child_parent",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test program runs");
    let output = BufReader::new(parent.stdout.take().expect("a pipe"));
    let line = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("WORKERS ").map(|(_, ids)| ids.to_owned()));
    let workers = line.expect("the parent names its workers");
    parent.kill().expect("it lives");
    parent.wait().expect("it was killed");
    let workers: Vec<&str> = workers.split(' ').collect();
    assert_eq!(workers.len(), 2);
    for worker in workers {
        // Gone, or a zombie that init has not yet waited for.
        until("the end of a worker", || {
            let stat = std::fs::read_to_string(format!("/proc/{worker}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        });
    }
}

#[test]
fn threads_share_workers_and_each_gets_its_own_result() {
    let compiler = compiler(limits(), 3);
    let expected: Vec<_> = (0..8)
        .map(|n| compile(&LlvmCompiler::new(), &kernel(&format!("k{n}"))).expect("it compiles"))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (compiler, expected) = (&compiler, &expected);
            scope.spawn(move || {
                for round in 0..8 {
                    let n = (thread + round) % 8;
                    if (thread + round) % 5 == 0 {
                        let name = format!("abort_{thread}_{round}");
                        let error = compile(compiler, &kernel(&name)).unwrap_err();
                        assert_eq!(error.code, "E0509");
                    }
                    let made = compile(compiler, &kernel(&format!("k{n}"))).expect("it compiles");
                    assert_eq!(made, expected[n]);
                }
            });
        }
        until("workers", || !children().is_empty());
        assert!(children().len() <= 3, "{:?}", children());
    });
    drop(compiler);
    assert_eq!(children(), [0_u32; 0]);
}

#[test]
fn a_forked_child_starts_its_own_workers() {
    let compiler = compiler(limits(), 2);
    let good = kernel("good");
    let expected = compile(&compiler, &good).expect("it compiles");
    // SAFETY: the child runs the tested code, then exits without running any of its parent's code.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = compile(&compiler, &kernel("in_the_child"))
            .is_ok_and(|made| made.kernel == "in_the_child")
            && compile(&compiler, &kernel("abort")).is_err_and(|error| error.code == "E0509")
            && compile(&compiler, &good).is_ok_and(|made| made == expected);
        drop(compiler);
        let left = children().len();
        // SAFETY: ends this process.
        unsafe { libc::_exit(if is_right && left == 0 { 0 } else { 1 }) };
    }
    assert!(child > 0, "the process forks");
    let status = std::cell::Cell::new(0);
    until("the end of the child", || {
        let mut ended = 0;
        // SAFETY: queries the child from above, without blocking.
        let is_over = unsafe { libc::waitpid(child, &raw mut ended, libc::WNOHANG) } == child;
        status.set(ended);
        is_over
    });
    let status = status.get();
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "{status}"
    );
    // The parent's workers are unaffected.
    assert_eq!(compile(&compiler, &good).expect("it compiles"), expected);
    assert_eq!(compiler.n_lost(), 0);
}

#[test]
fn a_missing_or_wrong_worker_program_is_an_error_with_the_next_step() {
    // SAFETY: the program does not exist.
    let error = unsafe { WorkerProgram::at("/no/such/program") }.unwrap_err();
    assert_eq!(error.code(), "E0508");
    assert!(error.to_string().contains("main_if_worker"), "{error}");
    assert_eq!(WorkerProgram::current().unwrap_err().code(), "E0508");
    // A program that exits at once.
    let mut short = limits();
    short.start = Duration::from_secs(20);
    let no_worker = Path::new("/bin/true");
    // SAFETY: its output is not a worker's message.
    let program = unsafe { WorkerProgram::at(no_worker) }.expect("it is there");
    let compiler = WorkerCompiler::new(LlvmCompiler::new(), LlvmError::CODES, program, short, 1)
        .expect("a thread for the pool");
    for _ in 0..3 {
        let error = compile(&compiler, &kernel("good")).unwrap_err();
        assert_eq!(error.code, "E0508", "{error}");
    }
    assert_eq!(children(), [0_u32; 0]);
}
