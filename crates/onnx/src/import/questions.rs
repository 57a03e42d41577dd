//! Properties on which the graph depends and which only a call can determine: the branch taken by an `If` whose
//! branches differ in more than sizes, the trip count of a loop that carries a sequence, and sizes that decide how many
//! operations or axes there are, such as the number of coordinates in each index of a `GatherND`.
//!
//! The caller answers by number ([`ImportOptions::answer`](super::ImportOptions::answer)). An unanswered question ends the
//! import with a [`Question`]: a graph that computes the answer. Numbers follow from the model and from the answers to
//! earlier questions, so the questions of a model are the inner nodes of a tree, whose leaves are its graphs.

use std::cell::Cell;
use std::collections::BTreeMap;

use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{ContractFact, FactOrigin, Predicate};

use super::context::NodeContext;
use crate::Error;

/// A question that a call has to answer before the rest of a model can be imported as a graph.
#[derive(Debug)]
#[non_exhaustive]
pub struct Question {
    /// Its number, for [`ImportOptions::answer`](super::ImportOptions::answer).
    pub number: usize,
    /// A graph with the model's inputs and one output, a `bool` or an `i64` without axes.
    pub graph: Graph,
    /// The error to report if no call can answer it.
    pub error: Error,
}

/// The state of one import.
#[derive(Debug, Default)]
pub(super) struct Questions {
    answers: BTreeMap<usize, i64>,
    /// The question known to be open, at which the import ends.
    wanted: Option<usize>,
    met: Cell<usize>,
    /// Whether the import failed because of a missing answer in a region, where no question can be asked.
    unanswered: Cell<bool>,
    /// The question whose answer would have helped.
    open: Cell<Option<usize>>,
    asked: Cell<Option<ValueId>>,
}

impl Questions {
    pub(super) fn new(answers: &BTreeMap<usize, i64>, wanted: Option<usize>) -> Self {
        Self {
            answers: answers.clone(),
            wanted,
            ..Self::default()
        }
    }

    /// The question whose answer would have helped the import that failed.
    pub(super) fn open(&self) -> Option<usize> {
        self.open.get()
    }

    /// The graph of the question with which the import ended.
    pub(super) fn asked(&self, builder: GraphBuilder) -> Option<Result<Graph, InferError>> {
        let value = self.asked.get()?;
        Some(builder.finish(&[("answer", value)]))
    }
}

/// A place in a model where a question may be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// `None` in a region.
    pub(super) number: Option<usize>,
    value: ValueId,
}

impl NodeContext<'_> {
    fn questions(&self) -> &Questions {
        &self.frame.made.questions
    }

    /// The place where a question about `value`, an unknown scalar, may be asked.
    pub(super) fn place(&self, value: ValueId) -> Place {
        let questions = self.questions();
        let number = (!self.is_nested()).then(|| questions.met.replace(questions.met.get() + 1));
        Place { number, value }
    }

    /// The answer, if there is one.
    ///
    /// # Errors
    /// If this is the question to be asked: the import ends.
    pub(super) fn answer(&self, place: Place) -> Result<Option<i64>, Error> {
        let Some(number) = place.number else {
            return Ok(None);
        };
        let questions = self.questions();
        if questions.wanted == Some(number) {
            questions.asked.set(Some(place.value));
            return Err(self.unsupported("a graph that depends on data"));
        }
        Ok(questions.answers.get(&number).copied())
    }

    /// Records that an answer would have prevented `error`; returns the error.
    pub(crate) fn left_open(&self, place: Place, error: Error) -> Error {
        let questions = self.questions();
        match place.number {
            Some(number) => questions.open.set(Some(number)),
            None => questions.unanswered.set(true),
        }
        error
    }

    /// A scalar that is known, or whose value the caller answered.
    ///
    /// # Errors
    /// `unknown` if it is neither.
    pub(crate) fn known_or_asked(&mut self, value: ValueId, unknown: Error) -> Result<i64, Error> {
        let value = self.build(|builder| builder.reshape(value, &[]))?;
        if let Some(&[known]) = self.constant_integers(value).as_deref() {
            return Ok(known);
        }
        let place = self.place(value);
        let answer = self.answer(place)?;
        answer.ok_or_else(|| self.left_open(place, unknown))
    }

    /// An operand with a known size along an axis, and that size: if the model leaves it open, it becomes a question to
    /// each call, and the graph is for calls with this size.
    ///
    /// # Errors
    /// That `expected` was expected, if the operand lacks the axis, or the size is neither known nor answered.
    pub(crate) fn with_known_size(
        &mut self,
        index: usize,
        axis: usize,
        expected: &str,
    ) -> Result<(ValueId, i64), Error> {
        let value = self.input(index)?;
        let mut dims = self.shape(value)?;
        let unknown = self.operand_error(index, expected, self.builder().describe(value));
        let Some(&dim) = dims.get(axis) else {
            return Err(unknown);
        };
        if let Some(size) = self.builder().dims().as_constant(dim) {
            return Ok((value, size));
        }
        let asked = self.build(|builder| builder.dims_tensor(&[dim]))?;
        let size = self.known_or_asked(asked, unknown)?;
        let known = self.size(size);
        let origin = format!("{}: a graph for calls with this size", self.node().path());
        let fact = ContractFact {
            predicate: Predicate::Equal(dim, known),
            origin: FactOrigin::Required(origin),
        };
        self.sizes(|table| table.assume(fact))?;
        dims[axis] = known;
        let value = self.build(|builder| builder.reshape(value, &dims))?;
        Ok((value, size))
    }

    /// Whether some import inside failed because of a missing answer.
    pub(super) fn is_unanswered_inside(&self) -> bool {
        self.questions().unanswered.get()
    }
}
