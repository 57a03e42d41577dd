"""The Python classes for models and sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union

from . import _kiln
from ._report import Report

Sizes = Union[int, tuple[int, int], str]


class Value(NamedTuple):
    """An input or output of a model."""

    #: Its name.
    name: str
    #: The name of its element type, as in ``"float32"``; None if the model leaves it open.
    dtype: str | None
    #: One size per axis: an integer, or the name of a symbol; None if the model leaves the rank open.
    shape: tuple[int | str, ...] | None


def _settings(
    *,
    device: str | None = None,
    threads: int | None = None,
    target: str | None = None,
    dims: Mapping[str, Sizes] | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    policy: str | None = None,
    max_block: float | None = None,
    deterministic: bool = False,
    passes: bool = True,
    gradients: str | tuple[str, Sequence[str]] | None = None,
    precision: str | Mapping[str, str] | None = None,
    memory_budget: str | int | None = None,
) -> dict[str, Any]:
    requested: tuple[str, list[str] | None] | None = None
    if isinstance(gradients, str):
        requested = (gradients, None)
    elif gradients is not None:
        requested = (gradients[0], list(gradients[1]))
    if precision is not None and not isinstance(precision, str):
        precision = ",".join(f"{name}={form}" if name != "*" else form for name, form in precision.items())
    return {
        "device": device,
        "threads": threads,
        "target": target,
        "dims": None if dims is None else dict(dims),
        "cache": cache,
        "policy": policy,
        "max_block": max_block,
        "deterministic": deterministic,
        "passes": passes,
        "gradients": requested,
        "precision": precision,
        "memory_budget": None if memory_budget is None else str(memory_budget),
    }


def load(
    model: str | os.PathLike[str] | bytes,
    *,
    device: str | None = None,
    threads: int | None = None,
    target: str | None = None,
    dims: Mapping[str, Sizes] | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
    policy: str | None = None,
    max_block: float | None = None,
    deterministic: bool = False,
    passes: bool = True,
    gradients: str | tuple[str, Sequence[str]] | None = None,
    precision: str | Mapping[str, str] | None = None,
    memory_budget: str | int | None = None,
) -> Model:
    """Loads a model: the path of an ``.onnx`` or ``.kiln`` file, the bytes of an ONNX model, or the text of a graph.

    :param device: the device to run on: ``"cpu"``, ``"cpu:avx2+fma"``, ``"interpreter"``; see :func:`devices`.
    :param threads: the maximum number of threads per call; one per core by default.
    :param target: the instruction-set level to compile for; this machine's highest by default.
    :param dims: what is known about symbols: ``{"batch": 1, "seq": (1, 512), "width": "16..4096%16~640"}``: a size, a
        minimum and maximum, or text that may add a divisor and a size to optimise for.
    :param cache: the folder for compiled code, or False for none; the user's cache folder by default.
    :param policy: when kernels are compiled: ``"first-use"``, ``"background"``, ``"after=10"`` or ``"ahead"``.
    :param max_block: the number of seconds that a call waits for compilers before it is interpreted.
    :param deterministic: whether the same inputs give the same bits in every run.
    :param passes: False leaves the graph as it was imported.
    :param gradients: an output whose gradients are returned as additional outputs ``d_NAME``; or a pair of that output
        and the names of the inputs to differentiate with respect to.
    :param precision: a narrower format for the operands of matrix products and convolutions: ``"bf16"``, ``"int8"``,
        ``"int4-weights/32"``; or one per name, where ``*`` matches any text: ``{"*": "int8", "lm_head*": "f32"}``.
    :param memory_budget: how much memory the intermediate values of a call may take before some are recomputed: bytes,
        ``"512MiB"``, or ``"50%"`` of what they would take otherwise.
    :raises kiln.Error: with a ``code``, if the model cannot be read or is not supported, or an option is invalid.
    """
    settings = _settings(
        device=device,
        threads=threads,
        target=target,
        dims=dims,
        cache=cache,
        policy=policy,
        max_block=max_block,
        deterministic=deterministic,
        passes=passes,
        gradients=gradients,
        precision=precision,
        memory_budget=memory_budget,
    )
    return Model(_kiln.load(model, settings))


def open_bundle(
    path: str | os.PathLike[str],
    key: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    threads: int | None = None,
    cache: str | os.PathLike[str] | bool | None = None,
) -> Model:
    """Opens a model that was compiled into a bundle by :meth:`Model.save_bundle` or ``kiln compile -o``.

    A bundle contains code that is executed: without the key file that sealed it, open only bundles that you trust as
    you would trust a program.
    """
    settings = _settings(device=device, threads=threads, cache=cache)
    return Model(_kiln.open_bundle(path, key, settings))


def _array(tensor: _kiln.Tensor) -> Any:
    """A NumPy array over a tensor; the tensor itself if NumPy is absent or lacks the dtype."""
    try:
        import numpy
    except ImportError:
        return tensor
    if tensor.dtype == "bfloat16":
        return tensor
    return numpy.asarray(tensor)


def _arrays(outputs: dict[str, _kiln.Tensor]) -> dict[str, Any]:
    return {name: _array(tensor) for name, tensor in outputs.items()}


def _one_or_all(outputs: dict[str, _kiln.Tensor]) -> Any:
    values = tuple(_array(tensor) for tensor in outputs.values())
    return values[0] if len(values) == 1 else values


def _split(inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return tuple(inputs), {}


class Model:
    """A loaded model. It is compiled on its first call; several threads may call it at the same time."""

    def __init__(self, native: _kiln.Model) -> None:
        self._native = native

    @property
    def inputs(self) -> list[Value]:
        """The inputs, in the model's order."""
        return [Value(*value) for value in self._native._inputs()]

    @property
    def outputs(self) -> list[Value]:
        """The outputs, in the model's order."""
        return [Value(*value) for value in self._native._outputs()]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata in the model file."""
        return self._native.metadata

    @property
    def device(self) -> str:
        """The device that the model runs on."""
        return self._native.device

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the model with arrays by position or by name.

        Returns the output, or a tuple of outputs if there are several.
        """
        return _one_or_all(self._native._call(args, named))

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        time_limit: float | None = None,
    ) -> dict[str, Any]:
        """Calls the model with arrays by name, or with a sequence of arrays in the model's order.

        Returns the outputs by name.

        :param time_limit: the number of seconds after which the call fails with :class:`LimitError`.
        """
        args, named = _split(inputs)
        return _arrays(self._native._call(args, named, time_limit))

    def report(self, inputs: Mapping[str, Any] | Sequence[Any], *, calls: int = 10) -> Report:
        """Measures a call, and returns a report, which a notebook displays.

        :param calls: the number of calls to measure; times are medians over them.
        :raises UnsupportedError: if the model is interpreted, since it has no steps to measure.
        """
        args, named = _split(inputs)
        return Report(*self._native._report(args, named, calls))

    def session(self, states: Mapping[str, tuple[str, Any]]) -> Session:
        """A session that keeps inputs between calls.

        :param states: for each input that is kept, the output that replaces it and its initial value:
            ``model.session({"cache": ("next_cache", empty)})``.
        """
        return Session(self._native._session(dict(states)))

    def text(self) -> str:
        """The graph in Kiln's text form, as it was loaded."""
        return self._native.text()

    def compile(self) -> int:
        """Compiles every kernel now, for all sizes; returns the number of kernels."""
        return self._native.compile()

    def precompile(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Compiles the kernels for calls with these shapes: ``model.precompile({"x": (1, 3, 224, 224)})``."""
        self._native.precompile({name: list(shape) for name, shape in shapes.items()})

    def save_bundle(
        self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
    ) -> int:
        """Writes the compiled model to one file that runs without a compiler; returns its size in bytes.

        :param key: a file of at least 32 secret bytes, with mode 600, that seals the bundle.
        """
        return self._native.save_bundle(path, key)

    def __repr__(self) -> str:
        return repr(self._native)


class Session:
    """A model that keeps some of its inputs between calls. Calls run one at a time."""

    def __init__(self, native: _kiln.Session) -> None:
        self._native = native

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the model with the inputs that are not kept; returns the other outputs, as a model does."""
        return _one_or_all(self._native._call(args, named))

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        time_limit: float | None = None,
    ) -> dict[str, Any]:
        """Like :meth:`Model.run`, with the inputs that are not kept."""
        args, named = _split(inputs)
        return _arrays(self._native._call(args, named, time_limit))

    def state(self, name: str) -> Any:
        """A copy of the value that the input of this name will have in the next call."""
        return _array(self._native.state(name))

    def set_state(self, name: str, array: Any) -> None:
        """Sets that value; the array is copied."""
        self._native.set_state(name, array)
