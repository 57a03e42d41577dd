"""Neural-network functions for traced arrays, in addition to NumPy's: ``import kiln.nn``."""

from __future__ import annotations

from typing import Any

from . import _kiln
from ._array import Array
from ._promotion import as_float, float_dtype, promote
from .numpy._context import as_array, axis_of, current


def apply(name: str, *operands: Any, **parameters: float) -> Array:
    """Applies a scalar function by name: ``kiln.nn.apply("mish", x)``, ``kiln.nn.apply("elu", x, alpha=0.5)``."""
    recording = current(*operands)
    values, weak = promote(recording, operands)
    given = {key: float(value) for key, value in parameters.items()}
    dtype = float_dtype(values[0].dtype)
    floats = [recording.cast(value, dtype) for value in values]
    return Array(recording, recording.op(name, floats, **given)[0], weak)


def relu(x: Any) -> Array:
    """max(x, 0)."""
    return apply("relu", x)


def gelu(x: Any, approximate: bool = False) -> Array:
    """x / 2 * (1 + erf(x / sqrt(2))), or its tanh approximation."""
    return apply("gelu_tanh" if approximate else "gelu", x)


def silu(x: Any) -> Array:
    """x * sigmoid(x)."""
    return apply("silu", x)


def sigmoid(x: Any) -> Array:
    """The logistic function."""
    return apply("sigmoid", x)


def softplus(x: Any) -> Array:
    """log(1 + exp(x))."""
    return apply("softplus", x)


def erf(x: Any) -> Array:
    """The error function."""
    return apply("erf", x)


def softmax(x: Any, axis: int = -1) -> Array:
    """exp(x) / sum(exp(x)) along an axis, computed without overflow."""
    array = as_float(as_array(x))
    return Array(array._recording, array._recording.softmax(array._value, axis_of(array, axis)))


def log_softmax(x: Any, axis: int = -1) -> Array:
    """The logarithm of `softmax`."""
    array = as_float(as_array(x))
    return Array(array._recording, array._recording.log_softmax(array._value, axis_of(array, axis)))


def conv(x: Any, w: Any, *, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    """``[N, C, spatial..], [O, C / groups, kernel..] -> [N, O, spatial..]``, with any number of spatial axes."""
    array, weight = as_array(x, w), as_array(w, x)
    n_axes = array.ndim - 2
    return array._op(
        "conv",
        weight,
        strides=[stride] * n_axes,
        dilations=[dilation] * n_axes,
        low=[padding] * n_axes,
        high=[padding] * n_axes,
        groups=groups,
    )


def max_pool(x: Any, size: int, *, stride: int | None = None, padding: int = 0) -> Array:
    """The maximum of each window of ``size`` elements per spatial axis: ``[N, C, spatial..] -> [N, C, spatial..]``."""
    return _pool(x, "max", size, stride, padding)


def mean_pool(x: Any, size: int, *, stride: int | None = None, padding: int = 0) -> Array:
    """The mean of each window, excluding padding: ``[N, C, spatial..] -> [N, C, spatial..]``."""
    return _pool(x, "mean", size, stride, padding)


def _pool(x: Any, function: str, size: int, stride: int | None, padding: int) -> Array:
    array = as_array(x)
    n_axes = array.ndim - 2
    if n_axes < 1:
        raise _kiln.error("traced", f"expected an array of shape [N, C, spatial..], found {array!r}")
    return array._op(
        "pool",
        function=function,
        size=[size] * n_axes,
        strides=[size if stride is None else stride] * n_axes,
        dilations=[1] * n_axes,
        low=[padding] * n_axes,
        high=[padding] * n_axes,
    )
