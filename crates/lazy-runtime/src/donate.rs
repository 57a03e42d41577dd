//! Donated inputs: results may be computed in their memory.

use smallvec::SmallVec;

use crate::error::RuntimeError;

/// Pairs of an input and an output of a call: the input is given up, and the output may take its memory. Where it does, and
/// the graph changes a part of the input alone, the rest is not even copied.
///
/// The program decides whether it does: the output must be computed by steps that may work in place, from an input that is
/// dead afterwards, of the same size in bytes. The memory must be the tensor's own, row-major, and not of `bool`. Otherwise
/// the output is computed beside the input, with the same elements.
///
/// On a device with a memory of its own the output of a pair stays there, unless the program has its [outputs in the host's
/// memory](crate::OutputPlacement::Host); given up by the next call, it is neither downloaded nor uploaded nor copied.
///
/// To be used again for calls that give up the same inputs: that allocates nothing.
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

/// What became of the tensor of a donated input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DonationFate {
    /// It is as it was: the output was computed beside it, or nothing was computed.
    Kept,
    /// The output has its memory; the tensor is gone.
    Taken,
    /// A call failed that wrote into its memory: the tensor is there, and its elements are not defined.
    Spoiled,
}

impl Donations {
    /// These pairs of an input and an output, by position.
    ///
    /// # Errors
    /// `E0898` when an input or an output is in two of them.
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

    /// What became of an input in the last call; kept where it was not donated.
    pub fn fate(&self, input: usize) -> DonationFate {
        let mut pairs = self.pairs.iter();
        let pair = pairs.find(|pair| pair.input == input);
        pair.map_or(DonationFate::Kept, |pair| pair.fate)
    }

    /// Whether this pair is among them.
    pub(crate) fn has(&self, input: usize, output: usize) -> bool {
        self.pairs().any(|pair| pair == (input, output))
    }

    /// Whether an output is of a pair.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.pairs().any(|pair| pair.1 == output)
    }

    pub(crate) fn set_fate(&mut self, input: usize, fate: DonationFate) {
        let mut pairs = self.pairs.iter_mut();
        if let Some(pair) = pairs.find(|pair| pair.input == input) {
            pair.fate = fate;
        }
    }

    /// Forgets the last call, before one with this many inputs and outputs.
    ///
    /// # Errors
    /// `E0898` for a pair of an input and an output that are not there.
    pub fn begin(&mut self, inputs: usize, outputs: usize) -> Result<(), RuntimeError> {
        for pair in &mut self.pairs {
            let (input, output) = (pair.input, pair.output);
            if input >= inputs || output >= outputs {
                let problem = ", one of which is not there";
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
