//! Reports as JSON, and back.

use serde::Deserialize;

use super::{Report, VERSION};
use crate::error::TimingError;

/// The one field that all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Report {
    /// The report as JSON on several lines.
    ///
    /// # Errors
    /// When the JSON writer fails, which does not happen for this data.
    pub fn to_json(&self) -> Result<String, TimingError> {
        serde_json::to_string_pretty(self).map_err(|source| TimingError::Json {
            doing: "write the report",
            source,
        })
    }

    /// A report from its JSON.
    ///
    /// # Errors
    /// When it is not a report, or one of a different version.
    pub fn from_json(text: &str) -> Result<Self, TimingError> {
        let failed = |source| TimingError::Json {
            doing: "read the report",
            source,
        };
        let Versioned { version } = serde_json::from_str(text).map_err(failed)?;
        if version != VERSION {
            return Err(TimingError::ReportVersion {
                expected: VERSION,
                found: version,
            });
        }
        serde_json::from_str(text).map_err(failed)
    }
}
