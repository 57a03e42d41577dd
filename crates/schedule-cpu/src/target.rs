//! CPU targets: one per instruction-set level.

use kiln_backend::{IsaLevel, Target};

use crate::error::ScheduleError;

/// The backend's name in targets.
pub const BACKEND: &str = "llvm";

/// The target of a level.
pub fn target_of(level: IsaLevel) -> Target {
    Target {
        backend: BACKEND.to_owned(),
        level: level.name().to_owned(),
    }
}

/// The target of this machine's highest level.
pub fn host_target() -> Target {
    target_of(IsaLevel::host().unwrap_or(IsaLevel::Portable))
}

/// The features of a target, as passed to the compiler and as part of keys; none for an unknown target.
pub fn features_of(target: &Target) -> Vec<String> {
    let features = level_of(target).map_or("", IsaLevel::features).split(',');
    features
        .filter(|feature| !feature.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The level of a target.
///
/// # Errors
/// E0507 if the target is of another backend, or its level does not exist.
pub fn level_of(target: &Target) -> Result<IsaLevel, ScheduleError> {
    let level = (target.backend == BACKEND)
        .then(|| target.level.parse().ok())
        .flatten();
    level.ok_or_else(|| ScheduleError::UnknownTarget {
        target: target.to_string().escape_default().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_levels_have_targets() {
        for level in IsaLevel::ALL {
            assert_eq!(level_of(&target_of(level)), Ok(level));
        }
        let mut other = target_of(IsaLevel::Portable);
        other.backend = "cuda".to_owned();
        assert_eq!(level_of(&other).unwrap_err().code(), "E0507");
        let mut other = target_of(IsaLevel::Portable);
        other.level = "sse9".to_owned();
        assert_eq!(level_of(&other).unwrap_err().code(), "E0507");
    }
}
