//! The list of compiles: one entry each, with the time of each stage.

use super::ReportedCompile;
use super::seen::milliseconds;
use crate::diagnose::CompileRecord;

pub(super) fn of(records: &[CompileRecord]) -> Vec<ReportedCompile> {
    let reported = records.iter().map(|record| {
        let phases = record.phases.iter();
        let stages =
            phases.map(|(phase, time)| (format!("{phase:?}").to_lowercase(), milliseconds(*time)));
        let load = ("load".to_owned(), milliseconds(record.load));
        ReportedCompile {
            kernel: record.kernel.clone(),
            class: record.class.as_word().to_owned(),
            schedule: record.schedule.to_string(),
            facts: record.facts.clone(),
            reason: record.reason.to_string(),
            stages: stages.chain([load]).collect(),
            ms: milliseconds(record.total),
            code_bytes: record.code_bytes,
            error: record.error.clone(),
        }
    });
    reported.collect()
}
