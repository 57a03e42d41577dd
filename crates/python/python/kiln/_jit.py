"""Functions over arrays that are traced into a graph and compiled on their first call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from . import _kiln, _tree
from ._array import Array, lift
from ._model import Model, Sizes, _array, _settings
from ._promotion import is_number, weak_dtype
from .numpy._context import tracing

#: The sizes of an argument's axes: a number, the name of a size, or None for an unnamed size.
Axes = Sequence[Any]


def jit(
    function: Callable[..., Any] | None = None,
    *,
    dims: Mapping[str, Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    sizes: Mapping[str, Sizes] | None = None,
    device: str | None = None,
    threads: int | None = None,
    target: str | None = None,
    cache: Any = None,
    policy: str | None = None,
    max_block: float | None = None,
    deterministic: bool = False,
    precision: str | Mapping[str, str] | None = None,
    memory_budget: str | int | None = None,
) -> Any:
    """Compiles a function over arrays, written in NumPy.

    On its first call the function runs once, with arrays that have no values, to record a graph of what it computes::

        @kiln.jit
        def layer(x, w, b):
            return np.maximum(x @ w + b, 0)

    Sizes stay symbolic: a new size needs neither tracing nor compilation; a new dtype or number of axes needs both.
    Arguments and results are arrays, numbers, and tuples, lists and dicts of them. Python numbers passed as arguments
    may differ from call to call.

    :param dims: what is known about the sizes of arguments: ``{"x": ["batch", 3, None]}`` names the first axis of ``x``
        and fixes the second. Axes of the same name have the same size. If an argument consists of several arrays, its
        entry is nested in the same way.
    :param static_argnums: positions of arguments that are passed on unchanged; the function is traced for each value.
    :param static_argnames: names of such arguments.
    :param sizes: what is known about named sizes, as for ``dims`` of :func:`kiln.load`.

    The other parameters are those of :func:`kiln.load`.
    """
    settings = _settings(
        device=device,
        threads=threads,
        target=target,
        dims=sizes,
        cache=cache,
        policy=policy,
        max_block=max_block,
        deterministic=deterministic,
        precision=precision,
        memory_budget=memory_budget,
    )

    def make(function: Callable[..., Any]) -> Jit:
        return Jit(function, dims, static_argnums, static_argnames, settings)

    return make if function is None else make(function)


class Jit:
    """A function that is traced and compiled when called; see :func:`jit`. Several threads may call it at once."""

    def __init__(
        self,
        function: Callable[..., Any],
        dims: Mapping[str, Any] | None = None,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        settings: dict[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._dims = dict(dims or {})
        numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self._parameters = _parameters(function)
        positional = [name for name, kind in self._parameters if kind != inspect.Parameter.KEYWORD_ONLY]
        self._static = frozenset(names) | {positional[number] for number in numbers if number < len(positional)}
        for name in (*self._dims, *names):
            if self._parameters and name not in dict(self._parameters):
                raise ValueError(f"expected a parameter of {self._name}, found {name!r}")
        self._settings = settings or _DEFAULTS
        self._traced: dict[Any, _Traced] = {}

    @property
    def n_traces(self) -> int:
        """How often the function was traced: once per combination of its arguments' dtypes and numbers of axes."""
        return len(self._traced)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = _Call(self, args, kwargs)
        if call.is_traced:
            # Called by another function that is being traced.
            return self._function(*args, **kwargs)
        return self._of(call).run(call)

    def model(self, *args: Any, **kwargs: Any) -> Model:
        """The model that runs for arguments like these, to inspect, compile or save."""
        return Model(self._of(_Call(self, args, kwargs)).native)

    def _of(self, call: _Call) -> _Traced:
        traced = self._traced.get(call.key)
        if traced is None:
            traced = _Traced(self, call)
            traced = self._traced.setdefault(call.key, traced)
        return traced

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # A method: the instance becomes the first argument.
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<kiln.jit {self._name}, traced {self.n_traces} times>"


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """The names and kinds of a function's parameters; empty if they are unknown or variable."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in kinds for parameter in signature.parameters.values()):
        return []
    return [(name, parameter.kind) for name, parameter in signature.parameters.items()]


_DEFAULTS = _settings()


class _Call:
    """The arguments of a call: tensors, and the key that the trace is looked up by."""

    __slots__ = ("args", "is_traced", "key", "kwargs", "leaves", "static", "tensors", "tree", "types")

    def __init__(self, jit: Jit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        names = [name for name, _ in jit._parameters]
        given: dict[str, Any] = {}
        self.static: dict[str, Any] = {}
        for position, value in enumerate(args):
            name = names[position] if position < len(names) else f"arg{position}"
            (self.static if name in jit._static else given)[name] = value
        for name, value in kwargs.items():
            (self.static if name in jit._static else given)[name] = value
        self.leaves: list[tuple[str, Any]] = []
        trees = []
        for name, value in given.items():
            leaves, tree = _tree.flatten(value, name)
            self.leaves += leaves
            trees.append((name, tree))
        self.tree = tuple(trees)
        self.is_traced = any(isinstance(leaf, Array) for _, leaf in self.leaves)
        self.tensors: list[_kiln.Tensor] = []
        self.types: list[tuple[str, int, bool]] = []
        if self.is_traced:
            self.key = None
            return
        for path, leaf in self.leaves:
            is_weak = is_number(leaf)
            tensor = _tensor(path, numpy.asarray(leaf, weak_dtype(leaf)) if is_weak else leaf)
            self.tensors.append(tensor)
            self.types.append((_dtype(path, tensor), tensor.ndim, is_weak))
        self.key = (self.tree, tuple(self.types), _hashable(self.static), len(args))


def _tensor(path: str, leaf: Any) -> _kiln.Tensor:
    if isinstance(leaf, _kiln.Tensor):
        return leaf
    if isinstance(leaf, (str, bytes)) or callable(leaf) or not _is_array(leaf):
        raise _kiln.error(
            "argument",
            f"expected `{path}` to be an array or a number, found a {type(leaf).__name__}; name it in `static_argnames` if it "
            "decides what is computed",
        )
    return _kiln.tensor(leaf)


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (numpy.ndarray, numpy.generic)) or hasattr(leaf, "__dlpack__"):
        return True
    try:
        memoryview(leaf)
    except TypeError:
        return False
    return True


def _dtype(path: str, tensor: _kiln.Tensor) -> str:
    if tensor.dtype is None:
        raise _kiln.error("argument", f"expected `{path}` to have a NumPy dtype")
    return tensor.dtype


def _hashable(static: dict[str, Any]) -> Any:
    items = tuple(sorted(static.items()))
    try:
        hash(items)
    except TypeError:
        raise _kiln.error(
            "argument", f"expected hashable values of {', '.join(static)}, since the function is traced once per value"
        ) from None
    return tuple((name, type(value), value) for name, value in items)


class _Traced:
    """A function's graph for one combination of argument types."""

    def __init__(self, jit: Jit, call: _Call) -> None:
        name = re.sub(r"\W", "_", jit._name)
        recording = _kiln.Recording(name)
        axes = _axes_of(jit._dims, call)
        used: set[str] = set()
        inputs = []
        for (path, _), (dtype, rank, is_weak), sizes in zip(call.leaves, call.types, axes):
            label = _unused(re.sub(r"\W+", "_", path).strip("_") or "x", used)
            value = recording.input(label, dtype, _named(path, sizes, rank))
            inputs.append(Array(recording, value, is_weak))
        args, kwargs = _arguments(jit, call, inputs)
        token = tracing.set(recording)
        try:
            result = jit._function(*args, **kwargs)
        finally:
            tracing.reset(token)
        leaves, self.tree = _tree.flatten(result)
        # Results that are not arrays are the same in every call.
        self.results: list[tuple[bool, Any]] = []
        outputs: list[tuple[str, _kiln.Value]] = []
        for _, leaf in leaves:
            is_array = isinstance(leaf, (Array, _kiln.Size, numpy.ndarray, numpy.generic))
            self.results.append((is_array, None if is_array else leaf))
            if is_array:
                outputs.append((f"y{len(outputs)}", lift(recording, leaf)._value))
        if not outputs:
            raise _kiln.error("traced", f"expected {name} to return at least one array, found none")
        self.native = recording.load(outputs, jit._settings)

    def run(self, call: _Call) -> Any:
        outputs = self.native._call(tuple(call.tensors), {}).values()
        arrays = iter(outputs)
        leaves = [_array(next(arrays)) if is_array else value for is_array, value in self.results]
        return _tree.unflatten(self.tree, leaves)


def _unused(label: str, used: set[str]) -> str:
    label = label if label[0].isalpha() else f"x{label}"
    candidate, number = label, 1
    while candidate in used:
        number += 1
        candidate = f"{label}_{number}"
    used.add(candidate)
    return candidate


def _arguments(jit: Jit, call: _Call, inputs: list[Array]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call, with traced arrays in place of tensors."""
    left = iter(inputs)
    values = dict(call.static)
    for name, tree in call.tree:
        values[name] = _tree.unflatten(tree, left)
    names = [name for name, _ in jit._parameters]
    positional = [names[at] if at < len(names) else f"arg{at}" for at in range(len(call.args))]
    return [values[name] for name in positional], {name: values[name] for name in call.kwargs}


def _axes_of(dims: Mapping[str, Any], call: _Call) -> list[Axes | None]:
    """What is known about the axes of each leaf."""
    axes: list[Axes | None] = []
    for name, tree in call.tree:
        axes += _spread(name, dims.get(name), tree)
    return axes


def _spread(path: str, given: Any, tree: Any) -> list[Axes | None]:
    if tree == _tree.LEAF:
        return [given]
    if tree == _tree.NONE:
        return []
    _, keys, items = tree
    if given is None:
        return [axes for item in items for axes in _spread(path, None, item)]
    parts = [given.get(key) for key in keys] if keys is not None else list(given)
    if len(parts) != len(items):
        message = f"expected `dims` of `{path}` to be nested like the argument, with {len(items)} items"
        raise _kiln.error("argument", message)
    return [axes for part, item in zip(parts, items) for axes in _spread(path, part, item)]


def _named(path: str, sizes: Axes | None, rank: int) -> list[Any]:
    if sizes is None:
        return [None] * rank
    if len(sizes) != rank:
        raise _kiln.error("argument", f"expected {rank} entries in `dims` of `{path}`, one for each axis, found {len(sizes)}")
    return list(sizes)
