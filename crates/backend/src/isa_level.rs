//! The table of instruction-set levels: the targets of code generation, and the capabilities of devices.
//!
//! Levels are named by the features they need, never by a processor's marketing name; a compiler is given each feature.
//! Invariants: a host that has a level has every feature of it, including the operating system's support for the wide
//! registers; a level's name and features are part of the cache key, so neither changes its meaning once released.

mod table;

use std::fmt;
use std::str::FromStr;

use table::LevelInfo;

/// An instruction-set level.
///
/// On x86-64, the levels are ordered: a host that supports one supports all previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IsaLevel {
    /// Any x86-64 processor: SSE2 only.
    Portable,
    /// x86-64 with AVX2, fused multiply-add and 16-bit float conversion (2013 and later).
    Avx2Fma,
    /// x86-64 with the AVX-512 foundation, vector length, doubleword, byte and conflict parts.
    Avx512,
    /// The same with sums of four products of 8-bit integers (VNNI).
    Avx512Vnni,
    /// The same with sums of two products of bf16 (Cooper Lake, Zen 4 and later).
    Avx512Bf16,
    /// AArch64 with Advanced SIMD, which every such processor has.
    Neon,
    /// The same with sums of four products of 8-bit integers, unsigned by signed, and of two products of bf16 (Armv8.6:
    /// Neoverse V1 and N2, Apple M2 and later).
    NeonI8mmBf16,
}

impl IsaLevel {
    /// Every level.
    pub const ALL: [IsaLevel; 7] = [
        IsaLevel::Portable,
        IsaLevel::Avx2Fma,
        IsaLevel::Avx512,
        IsaLevel::Avx512Vnni,
        IsaLevel::Avx512Bf16,
        IsaLevel::Neon,
        IsaLevel::NeonI8mmBf16,
    ];

    const fn info(self) -> LevelInfo {
        match self {
            IsaLevel::Portable => table::PORTABLE,
            IsaLevel::Avx2Fma => table::AVX2_FMA,
            IsaLevel::Avx512 => table::AVX512,
            IsaLevel::Avx512Vnni => table::AVX512_VNNI,
            IsaLevel::Avx512Bf16 => table::AVX512_BF16,
            IsaLevel::Neon => table::NEON,
            IsaLevel::NeonI8mmBf16 => table::NEON_I8MM_BF16,
        }
    }

    /// The name, as on the command line and in cache keys.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The levels that this machine supports, lowest first.
    pub fn of_host() -> impl Iterator<Item = IsaLevel> {
        IsaLevel::ALL.into_iter().filter(|level| level.runs_here())
    }

    /// The highest level that this machine supports.
    ///
    /// `None` on an architecture without levels.
    pub fn host() -> Option<IsaLevel> {
        IsaLevel::of_host().last()
    }

    /// Whether this machine can run the level's code.
    #[cfg(target_arch = "x86_64")]
    pub fn runs_here(self) -> bool {
        // The standard library queries CPUID, and XGETBV for whether the system saves the registers.
        match self {
            IsaLevel::Portable => true,
            IsaLevel::Avx2Fma => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("movbe")
            }
            IsaLevel::Avx512 => {
                IsaLevel::Avx2Fma.runs_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
            }
            IsaLevel::Avx512Vnni => {
                IsaLevel::Avx512.runs_here() && is_x86_feature_detected!("avx512vnni")
            }
            IsaLevel::Avx512Bf16 => {
                IsaLevel::Avx512Vnni.runs_here() && is_x86_feature_detected!("avx512bf16")
            }
            IsaLevel::Neon | IsaLevel::NeonI8mmBf16 => false,
        }
    }

    /// Whether this machine can run the level's code.
    #[cfg(target_arch = "aarch64")]
    pub fn runs_here(self) -> bool {
        use std::arch::is_aarch64_feature_detected;
        match self {
            IsaLevel::Neon => true,
            IsaLevel::NeonI8mmBf16 => {
                is_aarch64_feature_detected!("i8mm") && is_aarch64_feature_detected!("bf16")
            }
            _ => false,
        }
    }

    /// Whether this machine can run the level's code.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn runs_here(self) -> bool {
        false
    }

    /// Whether its code is for AArch64.
    pub const fn is_aarch64(self) -> bool {
        matches!(self, IsaLevel::Neon | IsaLevel::NeonI8mmBf16)
    }

    /// The bytes of a vector register.
    pub const fn vector_bytes(self) -> u32 {
        self.info().vector_bytes
    }

    /// The number of vector registers.
    pub const fn n_vector_registers(self) -> u32 {
        self.info().n_vector_registers
    }

    /// Elements of a number of bits in a vector register.
    pub const fn lanes(self, bits: u32) -> u32 {
        let lanes = self.vector_bytes() * 8 / bits;
        if lanes == 0 { 1 } else { lanes }
    }

    /// Whether multiply-add is one instruction with one rounding.
    pub const fn has_fma(self) -> bool {
        self.info().has_fma
    }

    /// Whether whole vectors can be stored past the caches (non-temporal stores), ordered by a fence.
    pub const fn has_streaming_stores(self) -> bool {
        self.info().has_streaming_stores
    }

    /// Whether a masked store may take as long as a dozen other stores.
    pub const fn has_slow_masked_stores(self) -> bool {
        self.info().has_slow_masked_stores
    }

    /// Whether this machine executes two half-width operations in the time of one of the level's widest, so that half-width
    /// vectors lose nothing.
    pub fn halves_are_as_fast(self) -> bool {
        self.has_avx512() && has_half_wide_units()
    }

    /// Whether lane masks have their own registers, with one bit per lane.
    pub const fn has_mask_registers(self) -> bool {
        self.info().has_mask_registers
    }

    /// Whether it has the instructions of AVX-512's foundation, vector length and doubleword parts.
    pub const fn has_avx512(self) -> bool {
        self.info().has_avx512
    }

    /// Whether products of 16-bit integers are summed in pairs by one instruction.
    pub const fn multiplies_pairs(self) -> bool {
        self.info().multiplies_pairs
    }

    /// Whether products of unsigned by signed 8-bit integers are summed four at a time by one instruction, onto a sum in 32
    /// bits.
    pub const fn multiplies_fours(self) -> bool {
        self.info().multiplies_fours
    }

    /// Whether products of unsigned by signed 8-bit integers are summed two at a time by one instruction, saturating at 16
    /// bits.
    pub const fn multiplies_byte_pairs(self) -> bool {
        self.info().multiplies_byte_pairs
    }

    /// Whether products of bf16 are summed two at a time by one instruction, onto a sum in f32. The instruction treats
    /// subnormal numbers as zeros, in factors and sums.
    pub const fn multiplies_bf16_pairs(self) -> bool {
        self.info().multiplies_bf16_pairs
    }

    /// Whether 16-bit IEEE floats convert in one instruction.
    pub const fn converts_f16(self) -> bool {
        self.info().converts_f16
    }

    /// Whether rounding to an integral value is one instruction.
    pub const fn rounds(self) -> bool {
        self.info().rounds
    }

    /// The features in addition to the baseline of the architecture, in LLVM's spelling.
    pub const fn features(self) -> &'static str {
        self.info().features
    }
}

/// Whether this machine's units are half as wide as its widest registers: AMD's family 19h, which has AVX-512 since Zen 4.
/// Measured on one of these: three vectors of eight lanes are a quarter faster than two of sixteen with eight idle.
#[cfg(target_arch = "x86_64")]
fn has_half_wide_units() -> bool {
    use std::arch::x86_64::__cpuid;
    const AMD: [&[u8; 4]; 3] = [b"Auth", b"enti", b"cAMD"];
    const FAMILY: u32 = 0x19;
    let vendor = __cpuid(0);
    let is_amd =
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes) == AMD.map(|part| *part);
    let version = __cpuid(1).eax;
    let family = ((version >> 8) & 0xf) + ((version >> 20) & 0xff);
    is_amd && family == FAMILY
}

#[cfg(not(target_arch = "x86_64"))]
fn has_half_wide_units() -> bool {
    false
}

impl fmt::Display for IsaLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a level's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown instruction-set level `{name}`: expected one of {}", IsaLevel::ALL.map(IsaLevel::name).join(", "))]
pub struct UnknownIsaLevel {
    name: String,
}

impl FromStr for IsaLevel {
    type Err = UnknownIsaLevel;

    fn from_str(name: &str) -> Result<IsaLevel, UnknownIsaLevel> {
        IsaLevel::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| UnknownIsaLevel {
                name: name.escape_default().to_string(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_names_round_trip() {
        for level in IsaLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = "rocketlake\n".parse::<IsaLevel>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown instruction-set level `rocketlake\\n`: expected one of portable, avx2+fma, avx512, avx512+vnni, avx512+vnni+bf16, neon, neon+i8mm+bf16"
        );
    }

    #[test]
    fn the_host_supports_its_level_and_all_lower_ones() {
        let host = IsaLevel::host().expect("tests run where Kiln does");
        assert!(host.runs_here());
        assert_eq!(IsaLevel::Neon.runs_here(), host.is_aarch64());
        assert_eq!(IsaLevel::Portable.runs_here(), !host.is_aarch64());
    }

    #[test]
    fn lane_count_matches_register_width() {
        assert_eq!(IsaLevel::Portable.lanes(32), 4);
        assert_eq!(IsaLevel::Avx2Fma.lanes(64), 4);
        assert_eq!(IsaLevel::Avx512.lanes(8), 64);
        assert_eq!(IsaLevel::Neon.lanes(256), 1);
    }
}
