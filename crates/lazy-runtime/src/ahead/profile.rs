//! Which shapes came, how often, and what time they took: [`ShapeProfile`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The version of the form in which profiles are saved.
const FORMAT: u32 = 1;

/// A histogram of the shapes that calls brought, the ones that took most time first.
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

/// The shapes of one call's inputs, and what such calls took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledShapes {
    /// One per input, in the graph's order.
    pub shapes: Vec<Vec<usize>>,
    /// How many calls.
    pub calls: u64,
    /// Their time.
    pub nanoseconds: u64,
}

/// E0892: a text that is no profile.
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
    /// A profile of these shapes; equal ones become one.
    pub fn new(entries: impl IntoIterator<Item = ProfiledShapes>) -> Self {
        let mut profile = Self::default();
        entries.into_iter().for_each(|entry| profile.add(entry));
        profile.sort();
        profile
    }

    /// The shapes, the ones that took most time first.
    pub fn entries(&self) -> &[ProfiledShapes] {
        &self.entries
    }

    /// Both profiles in one.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        other.entries.into_iter().for_each(|entry| self.add(entry));
        self.sort();
        self
    }

    /// As text to be saved.
    pub fn to_json(&self) -> String {
        let saved = Saved {
            kiln_shape_profile: FORMAT,
            entries: self.entries.clone(),
        };
        // Numbers and lists of them always have a text.
        serde_json::to_string_pretty(&saved).unwrap_or_default()
    }

    /// Reads a text that was saved.
    ///
    /// # Errors
    /// A text that is no profile, or of another version.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
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

    fn add(&mut self, entry: ProfiledShapes) {
        let known = self
            .entries
            .iter_mut()
            .find(|known| known.shapes == entry.shapes);
        match known {
            Some(known) => {
                known.calls = known.calls.saturating_add(entry.calls);
                known.nanoseconds = known.nanoseconds.saturating_add(entry.nanoseconds);
            }
            None => self.entries.push(entry),
        }
    }

    fn sort(&mut self) {
        self.entries
            .sort_by(|a, b| (b.nanoseconds, &a.shapes).cmp(&(a.nanoseconds, &b.shapes)));
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
    fn what_took_most_time_is_first_and_equal_shapes_are_one() {
        let profile = ShapeProfile::new([entry(1, 9, 10), entry(2, 1, 40), entry(1, 1, 50)]);
        assert_eq!(profile.entries(), [entry(1, 10, 60), entry(2, 1, 40)]);
        let merged = profile.merged(ShapeProfile::new([entry(2, 2, 30)]));
        assert_eq!(merged.entries(), [entry(2, 3, 70), entry(1, 10, 60)]);
        assert_eq!(merged.entries()[0].time(), Duration::from_nanos(70));
        let text = merged.to_json();
        assert_eq!(ShapeProfile::from_json(&text).unwrap(), merged);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "{}", "[]", "{\"kiln_shape_profile\":2,\"entries\":[]}"] {
            let error = ShapeProfile::from_json(text).unwrap_err();
            assert_eq!(error.code(), "E0892");
            assert!(error.to_string().starts_with("expected a shape profile"));
        }
    }
}
