//! Which shapes occurred, how often, and how long they took: [`ShapeProfile`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The version of the saved form of profiles.
const FORMAT: u32 = 1;

/// A histogram of the shapes of calls, those that took most time first.
///
/// ```
/// use kiln_lazy_runtime::ShapeProfile;
///
/// let text = ShapeProfile::default().to_json();
/// assert_eq!(ShapeProfile::from_json(&text)?, ShapeProfile::default());
/// # Ok::<(), kiln_lazy_runtime::ProfileError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeProfile {
    entries: Vec<ProfiledShapes>,
}

/// The shapes of one call's inputs, and the time of such calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledShapes {
    /// One per input, in the graph's order.
    pub shapes: Vec<Vec<usize>>,
    /// The number of calls.
    pub calls: u64,
    /// Their total time.
    pub nanoseconds: u64,
}

/// E0892: a text that is not a profile.
#[derive(Debug, thiserror::Error)]
#[error("expected a shape profile, found {problem}")]
pub struct ProfileError {
    problem: String,
}

impl ProfileError {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        "E0892"
    }
}

#[derive(Serialize, Deserialize)]
struct Saved {
    kiln_shape_profile: u32,
    entries: Vec<ProfiledShapes>,
}

impl ProfiledShapes {
    /// The time of these calls.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }
}

impl ShapeProfile {
    /// The maximum length in bytes of a text that is read: a few hundred thousand shapes.
    pub const TEXT_BYTES: usize = 16 << 20;

    /// A profile of these shapes, with equal ones merged.
    pub fn new(entries: impl IntoIterator<Item = ProfiledShapes>) -> Self {
        let mut entries: Vec<ProfiledShapes> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.shapes.cmp(&b.shapes));
        entries.dedup_by(|entry, known| {
            let is_known = entry.shapes == known.shapes;
            if is_known {
                known.calls = known.calls.saturating_add(entry.calls);
                known.nanoseconds = known.nanoseconds.saturating_add(entry.nanoseconds);
            }
            is_known
        });
        entries.sort_by(|a, b| (b.nanoseconds, &a.shapes).cmp(&(a.nanoseconds, &b.shapes)));
        Self { entries }
    }

    /// The shapes, those that took most time first.
    pub fn entries(&self) -> &[ProfiledShapes] {
        &self.entries
    }

    /// Merges both profiles.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self::new(self.entries.into_iter().chain(other.entries))
    }

    /// The profile as text.
    pub fn to_json(&self) -> String {
        let saved = Saved {
            kiln_shape_profile: FORMAT,
            entries: self.entries.clone(),
        };
        // Numbers and lists of numbers can always be written as text.
        serde_json::to_string_pretty(&saved).unwrap_or_default()
    }

    /// Reads a saved text.
    ///
    /// # Errors
    /// A text that is not a profile, has a different version, or more than [`TEXT_BYTES`](Self::TEXT_BYTES).
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        if text.len() > Self::TEXT_BYTES {
            let (given, limit) = (text.len(), Self::TEXT_BYTES);
            return Err(ProfileError {
                problem: format!("a text of {given} bytes, more than {limit}"),
            });
        }
        let saved: Saved = serde_json::from_str(text).map_err(|error| ProfileError {
            problem: error.to_string(),
        })?;
        if saved.kiln_shape_profile != FORMAT {
            return Err(ProfileError {
                problem: format!("one of version {}", saved.kiln_shape_profile),
            });
        }
        Ok(Self::new(saved.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: usize, calls: u64, nanoseconds: u64) -> ProfiledShapes {
        ProfiledShapes {
            shapes: vec![vec![size, 3], Vec::new()],
            calls,
            nanoseconds,
        }
    }

    #[test]
    fn profile_entries_are_merged_by_shape_and_sorted_by_time() {
        let profile = ShapeProfile::new([entry(1, 9, 10), entry(2, 1, 40), entry(1, 1, 50)]);
        assert_eq!(profile.entries(), [entry(1, 10, 60), entry(2, 1, 40)]);
        let merged = profile.merged(ShapeProfile::new([entry(2, 2, 30)]));
        assert_eq!(merged.entries(), [entry(2, 3, 70), entry(1, 10, 60)]);
        assert_eq!(merged.entries()[0].time(), Duration::from_nanos(70));
        let text = merged.to_json();
        assert_eq!(ShapeProfile::from_json(&text).unwrap(), merged);
    }

    #[test]
    fn a_profile_at_the_size_limit_is_read_in_linear_time_and_a_longer_one_is_refused() {
        let shapes =
            |size: usize| format!("{{\"shapes\":[[{size}]],\"calls\":1,\"nanoseconds\":0}}");
        let shapes: Vec<String> = (0..300_000).map(shapes).collect();
        let entries = shapes.join(",");
        let mut text = format!("{{\"kiln_shape_profile\":1,\"entries\":[{entries}]}}");
        text.push_str(&" ".repeat(ShapeProfile::TEXT_BYTES - text.len()));
        // Comparing each with all others would take hours.
        let profile = ShapeProfile::from_json(&text).unwrap();
        assert_eq!(profile.entries().len(), 300_000);
        text.push(' ');
        let error = ShapeProfile::from_json(&text).unwrap_err().to_string();
        assert!(
            error.ends_with("16777217 bytes, more than 16777216"),
            "{error}"
        );
    }

    #[test]
    fn texts_that_are_not_profiles_are_refused() {
        for text in ["", "{}", "[]", "{\"kiln_shape_profile\":2,\"entries\":[]}"] {
            let error = ShapeProfile::from_json(text).unwrap_err();
            assert_eq!(error.code(), "E0892");
            assert!(error.to_string().starts_with("expected a shape profile"));
        }
    }
}
