//! The report of a pipeline: one line per pass and round, in order.

use std::fmt;

/// The report of [`optimize`](crate::optimize).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Every run of a pass, in order.
    pub runs: Vec<PassRun>,
    /// The number of rounds.
    pub rounds: usize,
    /// Whether the last round changed nothing, so that another one would not either.
    pub converged: bool,
}

/// One run of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassRun {
    /// The pass.
    pub pass: &'static str,
    /// The round, from 1.
    pub round: usize,
    /// The rewrites it made; 0 is unchanged.
    pub rewrites: usize,
    /// The ops of the graph after it, including those of nested regions.
    pub ops: usize,
}

impl Report {
    /// The rewrites of all passes.
    pub fn rewrites(&self) -> usize {
        self.runs.iter().map(|run| run.rewrites).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            let PassRun {
                pass,
                round,
                rewrites,
                ops,
            } = run;
            match rewrites {
                0 => writeln!(f, "round {round}: {pass}: unchanged")?,
                1 => writeln!(f, "round {round}: {pass}: 1 rewrite, {ops} ops")?,
                _ => writeln!(f, "round {round}: {pass}: {rewrites} rewrites, {ops} ops")?,
            }
        }
        match self.converged {
            true => writeln!(f, "converged after {} rounds", self.rounds),
            false => writeln!(
                f,
                "stopped after {} rounds and {} rewrites",
                self.rounds,
                self.rewrites()
            ),
        }
    }
}
