//! Code of an instruction-set level uses no instruction outside the level.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions};
use kiln_backend::IsaLevel;
use kiln_backend::{KernelCompiler, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_testkit::cases::topic;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, SectionKind};
use support::kernel;

/// Products, windows, rows with functions, conversions and integers: kernels that use vectors.
const KERNELS: [&str; 7] = [
    "kernel @product(%x: in f32[M, 48], %w: const f32[48, 40], %y: out f32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] %x[m, k] * %w[k, n]
       store %y[m, n] = max(acc, 0)
     }",
    "kernel @norm(%x: in f32[B, 100], %y: out f32[B, 100]) {
       outer b < B
       s = reduce add[r < 100] exp(%x[b, r])
       store %y[b, r < 100] = exp(%x[b, r]) / s
     }",
    "kernel @halves(%x: in f16[N], %y: out f32[N]) {
       outer n < N
       store %y[n] = f32(%x[n]) * 2
     }",
    "kernel @rounded(%x: in f32[N], %y: out i32[N]) {
       outer n < N
       store %y[n] = i32(floor(%x[n]))
     }",
    "kernel @integers(%x: in i64[N], %z: in i64[N], %y: out i64[N]) {
       outer n < N
       store %y[n] = max(%x[n] * 7, %z[n])
     }",
    "kernel @bytes(%x: in u8[M, 48], %w: const i8[48, 40], %y: out i32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] i32(%x[m, k]) * i32(%w[k, n])
       store %y[m, n] = acc
     }",
    "kernel @bf16(%x: in bf16[M, 48], %w: const bf16[48, 40], %y: out f32[M, 40]) {
       outer m < M, n < 40
       acc = reduce add[k < 48] f32(%x[m, k]) * f32(%w[k, n])
       store %y[m, n] = acc
     }",
];

/// The baseline of the architecture.
const BASE: [&str; 8] = [
    "X64",
    "CMOV",
    "SSE",
    "SSE2",
    "FPU",
    "MULTIBYTENOP",
    "FXSR",
    "CX8",
];

/// The processor features that correspond to those passed to LLVM.
fn allowed(level: IsaLevel) -> BTreeSet<String> {
    let features = level
        .features()
        .split(',')
        .filter(|feature| !feature.is_empty());
    let named = features.map(|feature| {
        let name = feature
            .trim_start_matches('+')
            .to_uppercase()
            .replace('.', "_");
        match name.strip_prefix("AVX512") {
            None if name == "BMI" => "BMI1".to_owned(),
            Some("F") | None => name,
            Some(part @ ("VNNI" | "BF16")) => format!("AVX512_{part}"),
            Some(part) => format!("AVX512{part}"),
        }
    });
    named.chain(BASE.map(str::to_owned)).collect()
}

/// The processor features that an object's instructions need.
fn asked_for(object: &[u8]) -> BTreeSet<String> {
    let file = ElfFile64::<LittleEndian>::parse(object).unwrap();
    let code = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text);
    let mut features = BTreeSet::new();
    for section in code {
        let decoder = Decoder::with_ip(64, section.data().unwrap(), 0, DecoderOptions::NONE);
        for instruction in decoder {
            assert!(!instruction.is_invalid(), "it is code");
            let asked = instruction.cpuid_features().iter();
            features.extend(asked.map(|feature| format!("{feature:?}")));
        }
    }
    features
}

#[test]
fn every_example_becomes_an_object_for_other_machines() {
    let compiler = LlvmCompiler::new();
    for case in topic("examples").unwrap() {
        let kernel = kernel(&case.text());
        for level in IsaLevel::ALL.into_iter().filter(|level| !level.runs_here()) {
            let target = LlvmCompiler::target(level);
            for candidate in compiler.schedules(&kernel, &target) {
                compiler
                    .compile(&kernel, &target, &candidate.schedule, &mut Unobserved)
                    .unwrap();
            }
        }
    }
}

#[test]
fn code_of_a_level_has_no_instruction_that_the_level_lacks() {
    let compiler = LlvmCompiler::new();
    for level in IsaLevel::ALL
        .into_iter()
        .filter(|&level| !level.is_aarch64())
    {
        let (target, allowed) = (LlvmCompiler::target(level), allowed(level));
        let mut all = BTreeSet::new();
        for text in KERNELS {
            let kernel = kernel(text);
            for candidate in compiler.schedules(&kernel, &target) {
                let schedule = &candidate.schedule;
                let artifact = compiler
                    .compile(&kernel, &target, schedule, &mut Unobserved)
                    .unwrap();
                for feature in asked_for(&artifact.code) {
                    let is_there = feature.starts_with("INTEL") || allowed.contains(&feature);
                    assert!(is_there, "{feature} in {schedule} of {level}:\n{text}");
                    all.insert(feature);
                }
            }
        }
        // The level's own instructions are used; otherwise the test would be vacuous.
        let expected = match level {
            IsaLevel::Avx2Fma => Some("FMA"),
            IsaLevel::Avx512 => Some("AVX512F"),
            IsaLevel::Avx512Vnni => Some("AVX512_VNNI"),
            IsaLevel::Avx512Bf16 => Some("AVX512_BF16"),
            _ => None,
        };
        assert!(
            expected.is_none_or(|feature| all.contains(feature)),
            "{level}: {all:?}"
        );
    }
}
