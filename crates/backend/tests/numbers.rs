//! The numbers of a launch, computed from an artifact alone, for sizes that satisfy its contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Condition, LaunchContext, LaunchNumbers, Phase,
    PhaseNumbers, Quantity, Schedule, Target,
};
use kiln_symbolic_shape::{ContractFact, DimTable, FactOrigin, Predicate, SymbolicDimension};
use kiln_tensor::DType;

/// An artifact over these sizes with the first symbol as its only argument, and a buffer of as many bytes as the
/// second.
fn artifact(dims: &DimTable) -> Artifact {
    let parts = ArtifactParts {
        kernel: "tested".to_owned(),
        target: Target {
            backend: "none".to_owned(),
            level: "none".to_owned(),
        },
        schedule: Schedule::new("none"),
        code: Vec::new(),
        contract: Condition::contract(dims),
        buffers: vec![ArtifactBuffer {
            name: "x".to_owned(),
            dtype: DType::U8,
            written: false,
            bytes: Quantity::symbol(1),
        }],
        arguments: vec![Quantity::symbol(0)],
        phases: vec![Phase {
            entry: "all".to_owned(),
            tasks: Quantity::symbol(0) - Quantity::symbol(1),
            block: 1,
            scratch: Quantity::threads() * Quantity::constant(64),
        }],
        shared_scratch: Quantity::constant(0),
        packs: Vec::new(),
        in_place: Vec::new(),
        fault_sites: Vec::new(),
    };
    // SAFETY: nothing loads the code.
    unsafe { Artifact::trusted(parts) }
}

fn numbers(artifact: &Artifact, symbols: &[i64]) -> Result<LaunchNumbers, String> {
    let context = LaunchContext {
        symbols,
        threads: 3,
        caches: [0; 3],
    };
    let numbers = artifact.numbers(&context);
    numbers.map_err(|error| format!("{} {error}", error.code()))
}

#[test]
fn launch_numbers_follow_the_artifact_and_sizes_outside_its_contract_are_errors() {
    let mut dims = DimTable::new();
    let n = SymbolicDimension::range("N", 1..=64).and_then(|n| n.multiple_of(8));
    let (n, m) = (dims.declare(n.unwrap()).unwrap(), dims.symbol("M").unwrap());
    let n = dims.dim(n);
    dims.assume(ContractFact {
        predicate: Predicate::LessEqual(m, n),
        origin: FactOrigin::Declared,
    })
    .unwrap();
    let artifact = artifact(&dims);
    let found = numbers(&artifact, &[16, 5]).unwrap();
    assert_eq!((found.bytes(), found.arguments()), (&[5][..], &[16][..]));
    let phase = PhaseNumbers {
        tasks: 11,
        scratch: 192,
    };
    assert_eq!(found.phases(), [phase]);
    assert!(found.artifact().is_same(&artifact));
    for (symbols, expected) in [
        ([12, 5], "n0 % 8 == 0, found 4"),
        ([0, 0], "n0 - 8 >= 0, found -8"),
        ([72, 5], "64 - n0 >= 0, found -8"),
        ([16, 17], "n0 - n1 >= 0, found -1"),
    ] {
        let expected =
            format!("E0228 expected sizes that the code was compiled for, with {expected}");
        assert_eq!(numbers(&artifact, &symbols).unwrap_err(), expected);
    }
    let overflow = numbers(&artifact, &[16, i64::MIN]).unwrap_err();
    assert!(overflow.starts_with("E0224"), "{overflow}");
    assert!(numbers(&artifact, &[16]).unwrap_err().starts_with("E0226"));
}

#[test]
fn negative_task_counts_become_zero() {
    let artifact = artifact(&DimTable::new());
    let found = numbers(&artifact, &[1, 5]).unwrap();
    assert_eq!(found.phases()[0].tasks, 0);
}
