//! Checks memory: out-of-bounds accesses and leaks, in a separate process.

use super::guard::{Ended, Request};
use super::{CheckFailure, KernelValidator, Outcome};
use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::internals::ir::Graph;
use kiln::{Model, SealKey};
use std::hash::{BuildHasher as _, RandomState};

impl KernelValidator {
    /// Runs a model's code with guard pages before and after every buffer, and counts allocations that are not freed.
    ///
    /// # Errors
    /// E1422 where no sizes can be drawn; E1424 when the program cannot run; E1420 when the bundle cannot be written.
    pub fn check_memory(&self, graph: &Graph, model: &Model) -> Result<Outcome, ServiceError> {
        let Some(program) = &self.guard else {
            let why = "no guard program is set; see `KernelValidator::with_guard_program`";
            return Ok(Outcome::NotApplicable(why.to_owned()));
        };
        let mut random = Random::new(self.seed ^ 0x6d);
        let mut cases = Vec::new();
        for _ in 0..self.shapes {
            cases.push(draw::drawn_shapes(graph, &mut random, self.largest_size)?);
        }
        let folder = tempfile::tempdir();
        let folder = folder.map_err(ServiceError::store("make", std::env::temp_dir()))?;
        let bundle = folder.path().join("checked.kiln-bundle");
        let secret = fresh_secret();
        let saved = model.save_bundle(&bundle, Some(&SealKey::of_secret(&secret)));
        saved.map_err(ServiceError::stage("check"))?;
        let request = Request {
            bundle,
            secret,
            cases,
            seed: self.seed,
        };
        let failed = |what: &str, place: String, amount: String| {
            Ok(Outcome::Failed(CheckFailure {
                what: what.to_owned(),
                place,
                amount,
            }))
        };
        match program.run(&request)? {
            Ended::Killed {
                shapes,
                side,
                signal,
            } => failed(
                "an access out of bounds",
                format!("inputs {shapes:?}, guard {}", side.to_lowercase()),
                format!("expected none, found one that ended the process with signal {signal}"),
            ),
            Ended::Done { leaked, grown } if leaked > 0 || grown > 0 => failed(
                "memory that is not freed",
                "the end of all calls".to_owned(),
                format!(
                    "expected none, found {leaked} pieces, and growth of {grown} from call to call"
                ),
            ),
            Ended::Done { .. } => Ok(Outcome::Passed(format!(
                "{} combinations of sizes, guards on both sides, nothing leaked",
                request.cases.len()
            ))),
        }
    }
}

/// A key of 32 bytes that differ from check to check; it need not be secret, since only this user can access the
/// bundle's folder.
fn fresh_secret() -> Vec<u8> {
    (0..4u64)
        .flat_map(|part| RandomState::new().hash_one(part).to_le_bytes())
        .collect()
}
