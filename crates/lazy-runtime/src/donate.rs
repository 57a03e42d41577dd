//! Donated inputs: results may be computed in their memory.

use smallvec::SmallVec;

use crate::error::RuntimeError;

/// Pairs of an input and an output of a call: the input is given up, and the output may reuse its memory. If it does,
/// and the graph changes only a part of the input, the rest is not even copied.
///
/// The program decides whether it does: the output must be computed by steps that may work in place, from an input that is
/// dead afterwards, of the same size in bytes. The memory must be owned by the tensor alone, row-major, and not of `bool`.
/// Otherwise the output is computed in separate memory, with the same elements.
///
/// On a device with its own memory the output of a pair stays there, unless the program has its
/// [outputs in the host's memory](crate::OutputPlacement::Host); donated again by the next call, it is neither downloaded
/// nor uploaded nor copied.
///
/// Reusing this value for calls that donate the same inputs allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Donations {
    pairs: SmallVec<[Donated; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Donated {
    input: usize,
    output: usize,
    fate: DonationFate,
}

/// The fate of a donated input's tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DonationFate {
    /// Unchanged: the output was computed in separate memory, or nothing was computed.
    Kept,
    /// The output owns its memory; the tensor no longer exists.
    Taken,
    /// A call failed that wrote into its memory: the tensor exists, and its elements are undefined.
    Spoiled,
}

impl Donations {
    /// These pairs of an input and an output, by position.
    ///
    /// # Errors
    /// `E0898` when an input or an output occurs in two of them.
    pub fn new(pairs: impl IntoIterator<Item = (usize, usize)>) -> Result<Self, RuntimeError> {
        let mut donations = Self::default();
        for (input, output) in pairs {
            let mut before = donations.pairs.iter();
            if before.any(|other| other.input == input || other.output == output) {
                let problem = ", one of which is in another pair";
                return Err(RuntimeError::Donation {
                    input,
                    output,
                    problem,
                });
            }
            donations.pairs.push(Donated {
                input,
                output,
                fate: DonationFate::Kept,
            });
        }
        Ok(donations)
    }

    /// The pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pairs.iter().map(|pair| (pair.input, pair.output))
    }

    /// The fate of an input in the last call; kept if it was not donated.
    pub fn fate(&self, input: usize) -> DonationFate {
        let mut pairs = self.pairs.iter();
        let pair = pairs.find(|pair| pair.input == input);
        pair.map_or(DonationFate::Kept, |pair| pair.fate)
    }

    /// Whether this is one of the pairs.
    pub(crate) fn has(&self, input: usize, output: usize) -> bool {
        self.pairs().any(|pair| pair == (input, output))
    }

    /// Whether an output is in one of the pairs.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.pairs().any(|pair| pair.1 == output)
    }

    pub(crate) fn set_fate(&mut self, input: usize, fate: DonationFate) {
        let mut pairs = self.pairs.iter_mut();
        if let Some(pair) = pairs.find(|pair| pair.input == input) {
            pair.fate = fate;
        }
    }

    /// Clears the fates of the last call, before a call with this many inputs and outputs.
    ///
    /// # Errors
    /// `E0898` for a pair with an input or an output that does not exist.
    pub fn begin(&mut self, inputs: usize, outputs: usize) -> Result<(), RuntimeError> {
        for pair in &mut self.pairs {
            let (input, output) = (pair.input, pair.output);
            if input >= inputs || output >= outputs {
                let problem = ", one of which does not exist";
                return Err(RuntimeError::Donation {
                    input,
                    output,
                    problem,
                });
            }
            pair.fate = DonationFate::Kept;
        }
        Ok(())
    }
}
