//! Which instruction-set levels this machine has: code from a cache may come from another one.
//!
//! The names and features are those of the compiler's levels; a name that is not known here is not
//! run.

/// The levels whose code this machine runs, lowest first.
pub fn levels() -> Vec<&'static str> {
    let levels = ["portable", "avx2+fma", "avx512", "neon"];
    levels
        .into_iter()
        .filter(|level| runs_here(level))
        .collect()
}

/// Whether this machine runs code of a level.
#[cfg(target_arch = "x86_64")]
pub fn runs_here(level: &str) -> bool {
    match level {
        "portable" => true,
        "avx2+fma" => {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("movbe")
        }
        "avx512" => {
            runs_here("avx2+fma")
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
        }
        _ => false,
    }
}

/// Whether this machine runs code of a level.
#[cfg(not(target_arch = "x86_64"))]
pub fn runs_here(level: &str) -> bool {
    level == "neon" && cfg!(target_arch = "aarch64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_this_machine() {
        assert_eq!(runs_here("portable"), cfg!(target_arch = "x86_64"));
        assert_eq!(runs_here("neon"), cfg!(target_arch = "aarch64"));
        assert!(!runs_here("avx512") || runs_here("avx2+fma"));
        assert!(!runs_here("sm_90"));
        assert_eq!(
            levels().len(),
            levels().iter().filter(|level| runs_here(level)).count()
        );
    }
}
