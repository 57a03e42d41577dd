//! Data-parallel steps on ranks that are processes: this test starts itself again under `mpirun`.

#![cfg(feature = "mpi")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

mod shared_batch;

use kiln_train::parallel::mpi::Mpi;
use kiln_train::parallel::{Collective, Numbers};
use shared_batch::{alone, expect_close, parameters, shared, train};
use std::process::Command;

const TEST: &str = "two_processes_train_as_one_does_with_both_parts_of_each_batch";

/// Set in the processes that are ranks.
const RANK: &str = "KILN_MPI_RANK";

#[test]
fn two_processes_train_as_one_does_with_both_parts_of_each_batch() {
    if std::env::var_os(RANK).is_some() {
        return of_rank();
    }
    let mut command = Command::new("mpirun");
    command
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "2", "-x"])
        .arg(format!("{RANK}=1"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"]);
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no mpirun; `cargo xtask mpi` installs one");
        }
        Err(error) => panic!("{error}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}\n{errors}");
            assert_eq!(
                text.matches("trained as one").count(),
                2,
                "{text}\n{errors}"
            );
        }
    }
}

fn of_rank() {
    let mpi = Mpi::start().unwrap();
    assert!(Mpi::start().is_err());
    let (rank, size) = (mpi.rank(), mpi.size());
    assert_eq!(size, 2);
    let mut sums = [rank as f64, 1.0];
    mpi.all_reduce(Numbers::F64(&mut sums)).unwrap();
    assert_eq!(sums, [1.0, 2.0]);
    assert!(mpi.broadcast(&mut [0], size).is_err());

    let mut trainer = shared(mpi);
    let found = train(&mut trainer, Some(rank));
    let mut expected = alone();
    let losses = train(&mut expected, None);
    expect_close(&found, &losses);
    expect_close(&parameters(&trainer), &parameters(&expected));
    println!("rank {rank} trained as one");
}
