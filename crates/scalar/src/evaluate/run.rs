//! Running a prepared expression over blocks of elements.

use std::ops::Range;

use smallvec::SmallVec;

use super::compile::{BlockEvaluator, Source, Step, Target};
use crate::block::{Block, BlockMut, Buffer};
use crate::primitive::apply;
use crate::{ScalarError, ScalarValue};

/// Elements per pass over the steps: a buffer of f64 is 8 KiB, so several fit the first-level cache.
const CHUNK: usize = 1024;

impl BlockEvaluator {
    /// Computes the expression for each element of `out`.
    ///
    /// Each input has as many elements as `out`, or one, which is broadcast. After a fault `out` holds the results up to
    /// some element before it and is otherwise unspecified.
    pub fn run(&self, inputs: &[Block<'_>], out: BlockMut<'_>) -> Result<(), ScalarError> {
        self.run_while(inputs, out, &mut |_| true)
    }

    /// As [`run`](Self::run), but calls the callback before every few thousand elements, with their number; the
    /// callback returns whether to continue. If it returns false, the elements not yet computed are left unchanged.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_while(
        &self,
        inputs: &[Block<'_>],
        mut out: BlockMut<'_>,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), ScalarError> {
        let len = out.len();
        self.check(inputs, &out)?;
        let chunk = CHUNK.min(len);
        let single: Vec<Option<Buffer>> = inputs
            .iter()
            .map(|input| match (input.len(), input.first()) {
                (1, Some(value)) if len > 1 => Some(Buffer::filled(value, chunk)),
                _ => None,
            })
            .collect();
        let mut buffers: Vec<Buffer> = self
            .buffers
            .iter()
            .map(|&value| Buffer::filled(value, chunk))
            .collect();
        for start in (0..len).step_by(CHUNK) {
            let range = start..len.min(start + CHUNK);
            if !goes_on(range.len()) {
                return Ok(());
            }
            for step in &self.steps {
                let inputs = Inputs {
                    whole: inputs,
                    single: &single,
                    range: range.clone(),
                };
                run_step(step, &inputs, &mut buffers, &mut out)?;
            }
        }
        Ok(())
    }

    fn check(&self, inputs: &[Block<'_>], out: &BlockMut<'_>) -> Result<(), ScalarError> {
        if inputs.len() != self.inputs.len() {
            let (expected, found) = (self.inputs.len(), inputs.len());
            return Err(ScalarError::InputCount { expected, found });
        }
        for (position, (input, &expected)) in inputs.iter().zip(&self.inputs).enumerate() {
            if input.dtype() != expected {
                let (what, found) = (format!("input {position}"), input.dtype());
                return Err(ScalarError::BlockType {
                    what,
                    expected,
                    found,
                });
            }
            if input.len() != out.len() && input.len() != 1 {
                let (expected, found) = (out.len(), input.len());
                return Err(ScalarError::BlockLength {
                    input: position,
                    expected,
                    found,
                });
            }
        }
        if out.dtype() != self.result {
            let (expected, found) = (self.result, out.dtype());
            return Err(ScalarError::BlockType {
                what: "result".to_owned(),
                expected,
                found,
            });
        }
        Ok(())
    }
}

/// The inputs of one chunk.
struct Inputs<'a> {
    whole: &'a [Block<'a>],
    /// The inputs of one element, repeated.
    single: &'a [Option<Buffer>],
    range: Range<usize>,
}

impl<'a> Inputs<'a> {
    fn block(&self, input: usize) -> Option<Block<'a>> {
        match self.single.get(input)? {
            Some(repeated) => Some(repeated.block(self.range.len())),
            None => Some(self.whole.get(input)?.part(self.range.clone())),
        }
    }
}

fn run_step(
    step: &Step,
    inputs: &Inputs<'_>,
    buffers: &mut [Buffer],
    out: &mut BlockMut<'_>,
) -> Result<(), ScalarError> {
    let len = inputs.range.len();
    // A step never writes a buffer that it reads, so its target may be moved out meanwhile.
    let mut target = match step.target {
        Target::Result => None,
        Target::Buffer(index) => {
            let placeholder = Buffer::filled(ScalarValue::Bool(false), 0);
            buffers
                .get_mut(index)
                .map(|buffer| (index, std::mem::replace(buffer, placeholder)))
        }
    };
    let sources: SmallVec<[Block<'_>; 3]> = step
        .sources
        .iter()
        .filter_map(|&source| match source {
            Source::Input(input) => inputs.block(input),
            Source::Buffer(index) => Some(buffers.get(index)?.block(len)),
        })
        .collect();
    match &mut target {
        None => apply(step.op, &sources, out.part(inputs.range.clone()))?,
        Some((_, buffer)) => apply(step.op, &sources, buffer.block_mut(len))?,
    }
    drop(sources);
    if let Some((index, buffer)) = target
        && let Some(slot) = buffers.get_mut(index)
    {
        *slot = buffer;
    }
    Ok(())
}
