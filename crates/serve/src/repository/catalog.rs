//! The state of each version of each model.

use crate::error::{ServeError, excerpt};
use crate::model::ServedModel;
use kiln_fork_lock::ForkLock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The maximum number of model names listed in a message.
const LISTED: usize = 10;

/// The state of a version of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    /// It serves requests.
    Ready,
    /// It is being loaded.
    Loading,
    /// It was not loaded, could not be loaded, or was unloaded.
    Unavailable,
}

impl fmt::Display for ModelState {
    /// The protocol's word for the state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "READY",
            Self::Loading => "LOADING",
            Self::Unavailable => "UNAVAILABLE",
        })
    }
}

/// A version of a model, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStatus {
    /// The model's name.
    pub model: String,
    /// The version; empty if none could be found.
    pub version: String,
    /// Its state.
    pub state: ModelState,
    /// Why it is in that state; empty if it is ready.
    pub reason: String,
}

/// The state of one version.
#[derive(Default)]
pub(super) struct Slot {
    /// The model that serves requests: during a reload, the one loaded before.
    served: Option<Arc<ServedModel>>,
    is_loading: bool,
    problem: Option<Arc<ServeError>>,
    is_unloaded: bool,
}

impl Slot {
    fn state(&self) -> (ModelState, String) {
        if self.served.is_some() {
            let reason = self
                .problem
                .as_ref()
                .map(|problem| format!("loading it again failed: {}", described(problem)));
            return (ModelState::Ready, reason.unwrap_or_default());
        }
        if self.is_loading {
            return (ModelState::Loading, "it is being loaded".to_owned());
        }
        let reason = match &self.problem {
            Some(problem) => described(problem),
            None if self.is_unloaded => "it was unloaded".to_owned(),
            None => "it was not loaded".to_owned(),
        };
        (ModelState::Unavailable, reason)
    }
}

fn described(problem: &ServeError) -> String {
    format!("[{}] {problem}", problem.code())
}

/// Models by name; versions by number, 0 for a model whose versions could not be found.
#[derive(Default)]
pub(crate) struct Catalog(ForkLock<State>);

#[derive(Default)]
struct State {
    models: BTreeMap<String, BTreeMap<u64, Slot>>,
    is_closed: bool,
}

impl Catalog {
    /// Marks the versions as being loaded; an empty list stands for the model as a whole.
    pub(super) fn begin(&self, name: &str, versions: &[u64]) {
        let mut state = self.0.lock();
        let slots = state.models.entry(name.to_owned()).or_default();
        slots.remove(&0);
        let versions = if versions.is_empty() { &[0] } else { versions };
        for &version in versions {
            let slot = slots.entry(version).or_default();
            (slot.is_loading, slot.problem, slot.is_unloaded) = (true, None, false);
        }
    }

    /// Marks a version, or the whole model, as failed to load.
    pub(super) fn failed(&self, name: &str, version: Option<u64>, problem: &Arc<ServeError>) {
        let mut state = self.0.lock();
        let slots = state.models.entry(name.to_owned()).or_default();
        slots.remove(&0);
        let slot = slots.entry(version.unwrap_or(0)).or_default();
        (slot.is_loading, slot.problem) = (false, Some(Arc::clone(problem)));
    }

    /// Makes a version serve requests.
    pub(super) fn ready(&self, name: &str, version: u64, served: Arc<ServedModel>) {
        let mut state = self.0.lock();
        let is_closed = state.is_closed;
        let slots = state.models.entry(name.to_owned()).or_default();
        let slot = slots.entry(version).or_default();
        let before = slot.served.replace(Arc::clone(&served));
        (slot.is_loading, slot.problem) = (false, None);
        drop(state);
        // Closing takes another lock.
        close_all(before);
        if is_closed {
            served.close();
        }
    }

    /// Makes versions other than these stop serving requests.
    pub(super) fn keep_only(&self, name: &str, versions: &[u64]) {
        let mut state = self.0.lock();
        let Some(slots) = state.models.get_mut(name) else {
            return;
        };
        let others = slots
            .iter_mut()
            .filter(|(version, _)| !versions.contains(version));
        let before: Vec<_> = others.filter_map(|(_, slot)| slot.served.take()).collect();
        slots.retain(|version, _| versions.contains(version));
        drop(state);
        close_all(before);
    }

    /// Makes all versions of the model stop serving requests.
    pub(super) fn unload(&self, name: &str) -> Result<(), ServeError> {
        let mut state = self.0.lock();
        let Some(slots) = state.models.get_mut(name) else {
            return Err(unknown(&state, name, None));
        };
        let mut before = Vec::new();
        for slot in slots.values_mut() {
            before.extend(slot.served.take());
            (slot.is_loading, slot.problem, slot.is_unloaded) = (false, None, true);
        }
        drop(state);
        close_all(before);
        Ok(())
    }

    /// Makes all models stop serving new requests.
    pub(super) fn close(&self) {
        self.0.lock().is_closed = true;
        close_all(self.served());
    }

    /// The version that serves requests for a model.
    pub(super) fn find(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Arc<ServedModel>, ServeError> {
        let state = self.0.lock();
        let Some(slots) = state.models.get(name) else {
            return Err(unknown(&state, name, None));
        };
        let number = version.map(str::parse::<u64>);
        let slot = match number {
            None => {
                let ready = slots.values().rev().find(|slot| slot.served.is_some());
                ready.or_else(|| slots.values().next_back())
            }
            Some(Ok(number)) => slots.get(&number),
            Some(Err(_)) => None,
        };
        let Some(slot) = slot else {
            return Err(unknown(&state, name, version));
        };
        match &slot.served {
            Some(served) => Ok(Arc::clone(served)),
            None => {
                let version = version.map(|version| format!("/{version}"));
                Err(ServeError::NotReady {
                    name: format!("{name}{}", version.unwrap_or_default()),
                    reason: slot.state().1,
                })
            }
        }
    }

    /// Every version that serves requests.
    pub(crate) fn served(&self) -> Vec<Arc<ServedModel>> {
        let state = self.0.lock();
        let slots = state.models.values().flat_map(BTreeMap::values);
        slots.filter_map(|slot| slot.served.clone()).collect()
    }

    /// The versions of a model that serve requests.
    pub(crate) fn ready_versions(&self, name: &str) -> Vec<String> {
        let state = self.0.lock();
        let slots = state.models.get(name).into_iter().flatten();
        let ready = slots.filter(|(_, slot)| slot.served.is_some());
        ready.map(|(version, _)| version.to_string()).collect()
    }

    /// The states of all known versions, and of those that were found in the folder in addition.
    pub(crate) fn statuses(&self, found: BTreeSet<(String, u64)>) -> Vec<VersionStatus> {
        let state = self.0.lock();
        let known = state.models.iter().flat_map(|(name, slots)| {
            slots
                .iter()
                .map(move |(version, slot)| ((name.clone(), *version), slot.state()))
        });
        let mut all: BTreeMap<(String, u64), (ModelState, String)> = found
            .into_iter()
            .map(|key| (key, Slot::default().state()))
            .collect();
        all.extend(known);
        let statuses = all
            .into_iter()
            .map(|((model, version), (state, reason))| VersionStatus {
                model,
                version: if version == 0 {
                    String::new()
                } else {
                    version.to_string()
                },
                state,
                reason,
            });
        statuses.collect()
    }
}

fn close_all(served: impl IntoIterator<Item = Arc<ServedModel>>) {
    for served in served {
        served.close();
    }
}

fn unknown(state: &State, name: &str, version: Option<&str>) -> ServeError {
    let mut known: Vec<&str> = state
        .models
        .keys()
        .take(LISTED)
        .map(String::as_str)
        .collect();
    if state.models.len() > LISTED {
        known.push("…");
    }
    ServeError::UnknownModel {
        name: excerpt(name),
        version: version.map_or_else(String::new, |version| {
            let version: String = version.chars().take(40).collect();
            format!(" of version {}", version.escape_debug())
        }),
        known: match known.is_empty() {
            true => "none".to_owned(),
            false => known.join(", "),
        },
    }
}
