//! Switches of compiled layers: a configuration with defaults, which can be changed at run time.

use super::rollback::RollbackOptions;
use crate::error::ServiceError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The roll-out is stored in hundredths of a percent.
const WHOLE: u32 = 10_000;

/// How compiled layers run. Every field has a default, so a document may state only what differs.
///
/// ```
/// use kiln_service::layer::LayerConfig;
///
/// let config = LayerConfig::from_json(r#"{"enabled": true, "rollout_percent": 10}"#)?;
/// assert!(config.fallback && config.rollout_percent == 10.0);
/// assert_eq!(LayerConfig::default().rollout_percent, 0.0);
/// # Ok::<(), kiln_service::ServiceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerConfig {
    /// Whether stored kernels run at all: false by default.
    pub enabled: bool,
    /// The percentage of executions for which they run, from 0 to 100: 0 by default.
    pub rollout_percent: f64,
    /// Whether the default transform runs if a kernel fails or is not loaded yet: true by default.
    pub fallback: bool,
    /// When a roll-out is rolled back automatically.
    pub rollback: RollbackOptions,
}

impl Default for LayerConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            rollout_percent: 0.0,
            fallback: true,
            rollback: RollbackOptions::default(),
        }
    }
}

impl LayerConfig {
    /// Reads a configuration.
    ///
    /// # Errors
    /// E1433 for an invalid configuration.
    pub fn from_json(text: &str) -> Result<Self, ServiceError> {
        let config: Self = serde_json::from_str(text).map_err(|error| ServiceError::Setting {
            name: "layers",
            expected: "a configuration as JSON".to_owned(),
            found: error.to_string(),
        })?;
        hundredths(config.rollout_percent)?;
        config.rollback.check()?;
        Ok(config)
    }
}

/// Switches that layers share, and that any thread may change while the layers run. Clones share the same switches.
#[derive(Clone)]
pub struct Switches(Arc<State>);

struct State {
    enabled: AtomicBool,
    rollout: AtomicU32,
    fallback: AtomicBool,
    rollback: RollbackOptions,
}

impl Default for Switches {
    fn default() -> Self {
        let config = LayerConfig::default();
        Self::of(&config, 0)
    }
}

impl Switches {
    /// Switches as configured.
    ///
    /// # Errors
    /// E1433 for a percentage that is not from 0 to 100, or invalid thresholds.
    pub fn new(config: &LayerConfig) -> Result<Self, ServiceError> {
        config.rollback.check()?;
        Ok(Self::of(config, hundredths(config.rollout_percent)?))
    }

    fn of(config: &LayerConfig, rollout: u32) -> Self {
        Self(Arc::new(State {
            enabled: config.enabled.into(),
            rollout: rollout.into(),
            fallback: config.fallback.into(),
            rollback: config.rollback,
        }))
    }

    /// The current configuration.
    pub fn config(&self) -> LayerConfig {
        LayerConfig {
            enabled: self.0.enabled.load(Ordering::SeqCst),
            rollout_percent: f64::from(self.0.rollout.load(Ordering::SeqCst)) / 100.0,
            fallback: self.fallback(),
            rollback: self.0.rollback,
        }
    }

    /// Turns stored kernels on or off.
    pub fn set_enabled(&self, enabled: bool) {
        self.0.enabled.store(enabled, Ordering::SeqCst);
    }

    /// Sets the percentage of executions for which stored kernels run. A key that runs them at some percentage also
    /// does so at every higher one.
    ///
    /// # Errors
    /// E1433 for a percentage that is not from 0 to 100.
    pub fn set_rollout_percent(&self, percent: f64) -> Result<(), ServiceError> {
        self.0.rollout.store(hundredths(percent)?, Ordering::SeqCst);
        Ok(())
    }

    /// Sets whether the default transform replaces kernels that fail.
    pub fn set_fallback(&self, fallback: bool) {
        self.0.fallback.store(fallback, Ordering::SeqCst);
    }

    pub(super) fn fallback(&self) -> bool {
        self.0.fallback.load(Ordering::SeqCst)
    }

    /// Rolls back a roll-out.
    pub(super) fn roll_back(&self) {
        self.0.rollout.store(0, Ordering::SeqCst);
    }

    /// Whether stored kernels run for the request of this key: a stable hash of it, the same in every process.
    pub fn chooses(&self, key: &str) -> bool {
        self.0.enabled.load(Ordering::SeqCst)
            && place_of(key) < self.0.rollout.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config().fmt(f)
    }
}

/// The position of a key in the roll-out, from 0 to 9,999.
fn place_of(key: &str) -> u32 {
    let hash = blake3::hash(key.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(first) % u64::from(WHOLE)) as u32
}

fn hundredths(percent: f64) -> Result<u32, ServiceError> {
    if (0.0..=100.0).contains(&percent) {
        return Ok((percent * 100.0).round() as u32);
    }
    Err(ServiceError::Setting {
        name: "rollout_percent",
        expected: "0 to 100".to_owned(),
        found: percent.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_grows_and_is_stable() {
        let switches = Switches::new(&LayerConfig {
            enabled: true,
            ..LayerConfig::default()
        })
        .unwrap();
        let keys: Vec<String> = (0..10_000).map(|n| format!("request {n}")).collect();
        let mut before: Vec<bool> = vec![false; keys.len()];
        for percent in [0.0, 1.0, 10.0, 50.0, 100.0] {
            switches.set_rollout_percent(percent).unwrap();
            let now: Vec<bool> = keys.iter().map(|key| switches.chooses(key)).collect();
            let share = now.iter().filter(|&&chosen| chosen).count() as f64 / 100.0;
            assert!((share - percent).abs() < 1.5, "{percent}: {share}");
            assert!(before.iter().zip(&now).all(|(before, now)| *now || !before));
            before = now;
        }
        // These values are frozen: a change would move requests between the two kinds of execution while a fleet is
        // upgraded.
        assert_eq!(place_of("request 7"), place_of("request 7"));
        switches.set_enabled(false);
        assert!(!switches.chooses("request 7"));
    }

    #[test]
    fn a_percentage_is_from_0_to_100() {
        for percent in [-0.1, 100.5, f64::NAN] {
            assert_eq!(
                Switches::default()
                    .set_rollout_percent(percent)
                    .unwrap_err()
                    .code(),
                "E1433"
            );
        }
        assert_eq!(
            LayerConfig::from_json("{\"rollout\": 1}")
                .unwrap_err()
                .code(),
            "E1433"
        );
    }
}
