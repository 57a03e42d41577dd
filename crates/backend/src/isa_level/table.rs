//! The properties of levels: one row per level.

/// A row of the table: the properties of a level.
pub(super) struct LevelInfo {
    pub(super) name: &'static str,
    /// The bytes of a vector register.
    pub(super) vector_bytes: u32,
    pub(super) n_vector_registers: u32,
    /// Multiply-add is one instruction with one rounding.
    pub(super) has_fma: bool,
    /// Whole vectors can be stored past the caches, ordered by a fence.
    pub(super) has_streaming_stores: bool,
    /// A masked store may take as long as a dozen other stores.
    pub(super) has_slow_masked_stores: bool,
    /// Lane masks have their own registers, with one bit per lane.
    pub(super) has_mask_registers: bool,
    /// Has the instructions of AVX-512's foundation, vector length and doubleword parts.
    pub(super) has_avx512: bool,
    /// Products of 16-bit integers are summed in pairs by one instruction.
    pub(super) multiplies_pairs: bool,
    /// Products of unsigned by signed 8-bit integers are summed four at a time, onto a sum in 32 bits.
    pub(super) multiplies_fours: bool,
    /// Products of unsigned by signed 8-bit integers are summed two at a time by one instruction, saturating at 16 bits.
    pub(super) multiplies_byte_pairs: bool,
    /// Products of bf16 are summed two at a time, onto a sum in f32.
    pub(super) multiplies_bf16_pairs: bool,
    /// 16-bit IEEE floats convert in one instruction.
    pub(super) converts_f16: bool,
    /// Rounding to an integral value is one instruction.
    pub(super) rounds: bool,
    /// The features in addition to the baseline of the architecture, in LLVM's spelling.
    pub(super) features: &'static str,
}

pub(super) const PORTABLE: LevelInfo = LevelInfo {
    name: "portable",
    vector_bytes: 16,
    n_vector_registers: 16,
    has_fma: false,
    has_streaming_stores: false,
    has_slow_masked_stores: false,
    has_mask_registers: false,
    has_avx512: false,
    multiplies_pairs: true,
    multiplies_fours: false,
    multiplies_byte_pairs: false,
    multiplies_bf16_pairs: false,
    converts_f16: false,
    rounds: false,
    features: "",
};

pub(super) const AVX2_FMA: LevelInfo = LevelInfo {
    name: "avx2+fma",
    vector_bytes: 32,
    n_vector_registers: 16,
    has_fma: true,
    has_streaming_stores: true,
    // Measured on AMD cores without AVX-512.
    has_slow_masked_stores: true,
    has_mask_registers: false,
    has_avx512: false,
    multiplies_pairs: true,
    multiplies_fours: false,
    multiplies_byte_pairs: true,
    multiplies_bf16_pairs: false,
    converts_f16: true,
    rounds: true,
    features: "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe",
};

pub(super) const AVX512: LevelInfo = LevelInfo {
    name: "avx512",
    vector_bytes: 64,
    n_vector_registers: 32,
    has_fma: true,
    has_streaming_stores: true,
    has_slow_masked_stores: false,
    has_mask_registers: true,
    has_avx512: true,
    multiplies_pairs: true,
    multiplies_fours: false,
    multiplies_byte_pairs: true,
    multiplies_bf16_pairs: false,
    converts_f16: true,
    rounds: true,
    features: "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,\
               +movbe,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd",
};

pub(super) const AVX512_VNNI: LevelInfo = LevelInfo {
    name: "avx512+vnni",
    multiplies_fours: true,
    features: "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,\
               +movbe,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd,+avx512vnni",
    ..AVX512
};

pub(super) const AVX512_BF16: LevelInfo = LevelInfo {
    name: "avx512+vnni+bf16",
    multiplies_bf16_pairs: true,
    features: "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,\
               +movbe,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd,+avx512vnni,+avx512bf16",
    ..AVX512_VNNI
};

pub(super) const NEON: LevelInfo = LevelInfo {
    name: "neon",
    vector_bytes: 16,
    n_vector_registers: 32,
    has_fma: true,
    has_streaming_stores: false,
    has_slow_masked_stores: false,
    has_mask_registers: false,
    has_avx512: false,
    multiplies_pairs: false,
    multiplies_fours: false,
    multiplies_byte_pairs: false,
    multiplies_bf16_pairs: false,
    converts_f16: true,
    rounds: true,
    features: "+neon",
};

pub(super) const NEON_I8MM_BF16: LevelInfo = LevelInfo {
    name: "neon+i8mm+bf16",
    multiplies_fours: true,
    multiplies_bf16_pairs: true,
    features: "+neon,+i8mm,+bf16",
    ..NEON
};
