"""Gradients of functions over arrays, by transforming their graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import _kiln, _tree
from ._array import Array, lift
from ._jit import Jit
from .numpy._context import tracing


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Gradient:
    """The gradient of a function that returns a scalar: a function of the same arguments.

    When called with arrays, it is compiled like a function under :func:`kiln.jit`; inside a traced function it becomes
    part of that function. The gradient of a gradient works too.

    :param argnums: the positions of the arguments to differentiate with respect to. The gradient has the structure of
        its argument; several positions give a tuple of gradients.
    :param has_aux: whether the function returns a pair of the scalar and auxiliary values, which are returned with the
        gradient.
    """
    return Gradient(function, argnums, has_aux, with_value=False)


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Gradient:
    """Like :func:`grad`, but returns the function's value first: ``loss, slopes = kiln.value_and_grad(f)(w, x)``."""
    return Gradient(function, argnums, has_aux, with_value=True)


class Gradient:
    """The gradient of a function; see :func:`grad`."""

    def __init__(
        self, function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, with_value: bool
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._argnums = argnums
        self._has_aux = has_aux
        self._with_value = with_value

        @functools.wraps(function, updated=())
        def record(*args: Any, **kwargs: Any) -> Any:
            return self._record(*args, **kwargs)

        # The gradient of a compiled function uses that function's settings.
        if isinstance(function, Jit):
            self._jit = Jit(record, function._dims, (), tuple(function._static), function._settings)
        else:
            self._jit = Jit(record)

    @property
    def n_traces(self) -> int:
        """How often the gradient was traced."""
        return self._jit.n_traces

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, _ = _tree.flatten((args, kwargs))
        if any(isinstance(leaf, Array) for _, leaf in leaves):
            return self._record(*args, **kwargs)
        return self._jit(*args, **kwargs)

    def _record(self, *args: Any, **kwargs: Any) -> Any:
        recording = tracing.get()
        if recording is None:
            raise _kiln.error("traced", "expected arrays of the current trace, found those of one that has ended")
        numbers = (self._argnums,) if isinstance(self._argnums, int) else tuple(self._argnums)
        varied = list(args)
        watched: list[Array] = []
        trees = []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise ValueError(f"expected positions of arguments below {len(args)}, found {number}")
            leaves, tree = _tree.flatten(args[number])
            # Copies, so that anything else the function refers to counts as constant.
            copies = [_watched(recording, leaf) for _, leaf in leaves]
            watched += copies
            trees.append((tree, len(copies)))
            varied[number] = _tree.unflatten(tree, copies)
        result = self._function(*varied, **kwargs)
        value, aux = result if self._has_aux else (result, None)
        if not isinstance(value, Array):
            raise _kiln.error("traced", f"expected a function that returns a scalar array, found a {type(value).__name__}")
        slopes = recording.gradients(value._value, [array._value for array in watched])
        left = iter(Array(recording, slope) for slope in slopes)
        gradients = tuple(_tree.unflatten(tree, [next(left) for _ in range(count)]) for tree, count in trees)
        gradient = gradients[0] if isinstance(self._argnums, int) else gradients
        first = (value, aux) if self._has_aux else value
        if self._with_value:
            return first, gradient
        return (gradient, aux) if self._has_aux else gradient


def _watched(recording: _kiln.Recording, leaf: Any) -> Array:
    array = lift(recording, leaf)
    return Array(recording, recording.op("identity", [array._value])[0], array._weak)


def stop_gradient(x: Any) -> Any:
    """The same value, treated as a constant: its gradient is zero."""

    def stopped(leaf: Any) -> Any:
        return leaf._op("stop_gradient") if isinstance(leaf, Array) else leaf

    return _tree.map_leaves(stopped, x)
