"""Loops and branches in traced functions, whose conditions are evaluated in each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _kiln, _tree
from ._array import Array, lift
from .numpy._context import current

#: More iterations than any loop has.
_ALWAYS = (1 << 62) - 1


def fori_loop(lower: Any, upper: Any, body: Callable[[Array, Any], Any], init: Any) -> Any:
    """Runs ``value = body(i, value)`` for ``i`` in ``range(lower, upper)``, starting from ``init``, as one loop.

    The value is an array, or a tuple, list or dict of arrays, whose dtypes and numbers of axes must not change.
    """
    state = _State(init, lower, upper)
    recording = state.recording
    first = lift(recording, lower)._cast("int64")

    def step(index: _kiln.Value, values: list[_kiln.Value]) -> Any:
        position = Array(recording, recording.op("add", [index, first._value])[0])
        return None, state.kept(body(position, state.value(values))), []

    trips = recording.op("sub", [lift(recording, upper)._cast("int64")._value, first._value])[0]
    trips = recording.op("max", [trips, recording.number("int64", 0)])[0]
    return state.value(recording.loop_(trips, None, state.values, step))


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """Runs ``while condition(value): value = body(value)``, starting from ``init``, as one loop."""
    state = _State(init)
    recording = state.recording

    def goes_on(value: Any) -> _kiln.Value:
        return lift(recording, condition(value))._cast("bool")._value

    def step(_: _kiln.Value, values: list[_kiln.Value]) -> Any:
        kept = state.kept(body(state.value(values)))
        return goes_on(state.value(kept)), kept, []

    trips = recording.number("int64", _ALWAYS)
    return state.value(recording.loop_(trips, goes_on(state.value(state.values)), state.values, step))


def scan(body: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: Any = None) -> tuple[Any, Any]:
    """Runs ``value, y = body(value, x)`` for each ``x`` along the first axis of ``xs``.

    Returns the last value and all ``y``, stacked.

    :param xs: an array, or a tuple, list or dict of arrays; or None, with a ``length``.
    """
    leaves, tree = _tree.flatten(xs)
    state = _State(init, *[leaf for _, leaf in leaves], length)
    recording = state.recording
    arrays = [lift(recording, leaf) for _, leaf in leaves]
    results: list[Any] = []

    def step(index: _kiln.Value, values: list[_kiln.Value]) -> Any:
        at = [Array(recording, recording.op("gather", [array._value, index], axis=0)[0]) for array in arrays]
        value, output = body(state.value(values), _tree.unflatten(tree, at))
        outputs, structure = _tree.flatten(output)
        results[:] = [structure]
        return None, state.kept(value), [lift(recording, leaf)._value for _, leaf in outputs]

    count = length if length is not None else arrays[0].shape[0]
    trips = lift(recording, count)._cast("int64")._value
    made = recording.loop_(trips, None, state.values, step)
    stacked = [Array(recording, value) for value in made[len(state.values) :]]
    return state.value(made[: len(state.values)]), _tree.unflatten(results[0], stacked)


def cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands)`` if the condition, a scalar boolean, is true, else ``otherwise(*operands)``.

    Only one of them is computed. Their results must have the same structure and dtypes.
    """
    recording = current(condition, *[leaf for _, leaf in _tree.flatten(operands)[0]])
    structures: list[Any] = []

    def results(function: Callable[..., Any]) -> list[_kiln.Value]:
        leaves, tree = _tree.flatten(function(*operands))
        structures.append(tree)
        return [lift(recording, leaf)._value for _, leaf in leaves]

    chosen = lift(recording, condition)._cast("bool")._value
    values = recording.branch(chosen, lambda: results(then), lambda: results(otherwise))
    if structures[0] != structures[-1]:
        raise _kiln.error("traced", "expected the branches of `cond` to return results of the same structure")
    return _tree.unflatten(structures[-1], [Array(recording, value) for value in values])


class _State:
    """The loop-carried values."""

    def __init__(self, init: Any, *others: Any) -> None:
        leaves, self.tree = _tree.flatten(init)
        self.recording = current(*[leaf for _, leaf in leaves], *others)
        self.values = [lift(self.recording, leaf)._value for _, leaf in leaves]

    def value(self, values: Sequence[_kiln.Value]) -> Any:
        """The values in the structure of the initial ones."""
        return _tree.unflatten(self.tree, [Array(self.recording, value) for value in values])

    def kept(self, value: Any) -> list[_kiln.Value]:
        """The values that an iteration passes on to the next."""
        leaves, tree = _tree.flatten(value)
        if tree != self.tree:
            raise _kiln.error("traced", "expected a loop's body to return a value of the structure it was given")
        kept = []
        for (_, leaf), first in zip(leaves, self.values):
            array = lift(self.recording, leaf)
            kept.append(array._cast(first.dtype)._value if array._weak else array._value)
        return kept
