"""Traced arrays, which stand in for arrays while a function is recorded.

They have NumPy's operators and methods, and NumPy's functions accept them; each call adds ops to the graph. The
functions are in ``kiln.numpy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy

from . import _kiln
from ._promotion import is_number, weak_dtype

Shape = tuple[Any, ...]


class Array:
    """An array in a traced function: it has a dtype and a shape, but no values.

    Sizes in ``shape`` are integers if they are known, and ``kiln.Size`` if they differ from call to call.
    """

    __slots__ = ("_recording", "_value", "_weak")
    # Takes precedence over NumPy's own operators.
    __array_priority__ = 1000

    def __init__(self, recording: _kiln.Recording, value: _kiln.Value, weak: bool = False) -> None:
        self._recording = recording
        self._value = value
        # Whether it is a number that takes the dtype of the array it is combined with.
        self._weak = weak

    @property
    def shape(self) -> Shape:
        """Sizes, one per axis."""
        return self._value.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value.ndim

    @property
    def size(self) -> Any:
        """The number of elements."""
        product: Any = 1
        for size in self.shape:
            product = product * size
        return product

    @property
    def dtype(self) -> Any:
        """The element type as a NumPy dtype, or the string ``"bfloat16"``."""
        name = self._value.dtype
        return name if name == "bfloat16" else numpy.dtype(name)

    @property
    def T(self) -> Array:
        """The axes in reverse order."""
        return self.transpose()

    @property
    def at(self) -> _At:
        """Updated copies: ``x.at[index].set(value)``, and ``add``, ``multiply``, ``min``, ``max``."""
        return _At(self)

    # Operations that need values, which tracing does not have.

    def _refuse(self, what: str) -> NoReturn:
        raise _kiln.error(
            "traced",
            f"{what} needs the values of {self!r}, which do not exist while a function is traced; use `numpy.where`, "
            "`kiln.cond`, `kiln.while_loop` or `kiln.fori_loop`, or name the deciding argument in `static_argnames`",
        )

    def __bool__(self) -> bool:
        self._refuse("a branch or a conversion to bool")

    def __int__(self) -> int:
        self._refuse("`int()`")

    def __float__(self) -> float:
        self._refuse("`float()`")

    def __complex__(self) -> complex:
        self._refuse("`complex()`")

    def __index__(self) -> int:
        self._refuse("use as a Python index")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("conversion to a NumPy array")

    def item(self) -> Any:
        self._refuse("`item()`")

    def tolist(self) -> Any:
        self._refuse("`tolist()`")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise _kiln.error(
            "traced",
            "traced arrays cannot be written to; use `x = x.at[index].set(value)`, or `add`, `multiply`, `min`, `max` for `set`",
        )

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("a scalar array has no length")
        return int(self.shape[0].__index__())

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TypeError("a scalar array cannot be iterated over")
        if not isinstance(self.shape[0], int):
            raise _kiln.error(
                "traced",
                f"cannot iterate over {self.shape[0]} rows, a number that differs from call to call; compute with whole arrays, "
                "or fix the size with `dims`",
            )
        return (self[index] for index in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"Array({self._value!r})"

    # NumPy's functions.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from .numpy import _dispatch

        return _dispatch.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .numpy import _dispatch

        return _dispatch.function(function, args, kwargs)

    # Operators and methods, implemented by functions of `kiln.numpy`.

    def __getitem__(self, key: Any) -> Array:
        from ._indexing import take_index

        return take_index(self, key)

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        """Converts every element to another dtype; floats are truncated to integers, and saturate."""
        from ._promotion import dtype_name

        return Array(self._recording, self._recording.cast(self._value, dtype_name(dtype)))

    def _cast(self, name: str) -> Array:
        return Array(self._recording, self._recording.cast(self._value, name), self._weak)

    def _op(self, mnemonic: str, *others: Array, **attributes: Any) -> Array:
        operands = [self._value, *(other._value for other in others)]
        return Array(self._recording, self._recording.op(mnemonic, operands, **attributes)[0])

    def reshape(self, *sizes: Any) -> Array:
        """The same elements in row-major order in another shape; -1 stands for a size to be inferred."""
        from . import numpy as functions

        return functions.reshape(self, sizes[0] if len(sizes) == 1 else sizes)

    def transpose(self, *axes: Any) -> Array:
        """The axes in another order; in reverse by default."""
        from . import numpy as functions

        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return functions.transpose(self, axes[0])
        return functions.transpose(self, axes or None)

    def copy(self) -> Array:
        """The same array: traced arrays are immutable."""
        return self

    if TYPE_CHECKING:
        # Added to the class below.
        def __add__(self, other: Any) -> Array: ...
        def __radd__(self, other: Any) -> Array: ...
        def __sub__(self, other: Any) -> Array: ...
        def __rsub__(self, other: Any) -> Array: ...
        def __mul__(self, other: Any) -> Array: ...
        def __rmul__(self, other: Any) -> Array: ...
        def __truediv__(self, other: Any) -> Array: ...
        def __rtruediv__(self, other: Any) -> Array: ...
        def __floordiv__(self, other: Any) -> Array: ...
        def __rfloordiv__(self, other: Any) -> Array: ...
        def __mod__(self, other: Any) -> Array: ...
        def __rmod__(self, other: Any) -> Array: ...
        def __pow__(self, other: Any) -> Array: ...
        def __rpow__(self, other: Any) -> Array: ...
        def __matmul__(self, other: Any) -> Array: ...
        def __rmatmul__(self, other: Any) -> Array: ...
        def __and__(self, other: Any) -> Array: ...
        def __rand__(self, other: Any) -> Array: ...
        def __or__(self, other: Any) -> Array: ...
        def __ror__(self, other: Any) -> Array: ...
        def __xor__(self, other: Any) -> Array: ...
        def __rxor__(self, other: Any) -> Array: ...
        def __lshift__(self, other: Any) -> Array: ...
        def __rlshift__(self, other: Any) -> Array: ...
        def __rshift__(self, other: Any) -> Array: ...
        def __rrshift__(self, other: Any) -> Array: ...
        def __eq__(self, other: Any) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Array: ...  # type: ignore[override]
        def __lt__(self, other: Any) -> Array: ...
        def __le__(self, other: Any) -> Array: ...
        def __gt__(self, other: Any) -> Array: ...
        def __ge__(self, other: Any) -> Array: ...
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array: ...
        def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array: ...
        def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array: ...
        def max(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def min(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def any(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def all(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def var(self, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Array: ...
        def std(self, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Array: ...
        def argmax(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def argmin(self, axis: Any = None, keepdims: bool = False) -> Array: ...
        def cumsum(self, axis: Any = None, dtype: Any = None) -> Array: ...
        def cumprod(self, axis: Any = None, dtype: Any = None) -> Array: ...
        def argsort(self, axis: Any = -1) -> Array: ...
        def sort(self, axis: Any = -1) -> Array: ...
        def clip(self, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Array: ...
        def round(self, decimals: int = 0) -> Array: ...
        def ravel(self) -> Array: ...
        def flatten(self) -> Array: ...
        def squeeze(self, axis: Any = None) -> Array: ...
        def swapaxes(self, axis1: int, axis2: int) -> Array: ...
        def repeat(self, repeats: Any, axis: int | None = None) -> Array: ...
        def take(self, indices: Any, axis: int | None = None) -> Array: ...
        def dot(self, other: Any) -> Array: ...
        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array: ...
        def trace(self, offset: int = 0) -> Array: ...


class _At:
    """``x.at``."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> _Update:
        return _Update(self._array, key)


class _Update:
    """``x.at[index]``: makes copies of ``x`` that are updated at the index."""

    def __init__(self, array: Array, key: Any) -> None:
        self._array = array
        self._key = key

    def _with(self, value: Any, combine: str) -> Array:
        from ._indexing import put_index

        return put_index(self._array, self._key, value, combine)

    def set(self, value: Any) -> Array:
        """A copy with the elements replaced."""
        return self._with(value, "set")

    def add(self, value: Any) -> Array:
        """A copy with a value added; added twice to an element that is indexed twice."""
        return self._with(value, "add")

    def multiply(self, value: Any) -> Array:
        """A copy with the elements multiplied."""
        return self._with(value, "mul")

    def min(self, value: Any) -> Array:
        """A copy with the minimum of each element and the value."""
        return self._with(value, "min")

    def max(self, value: Any) -> Array:
        """A copy with the maximum of each element and the value."""
        return self._with(value, "max")

    def get(self) -> Array:
        """The indexed elements."""
        return self._array[self._key]


def recording_of(values: Sequence[Any]) -> _kiln.Recording | None:
    """The recording that the arrays among the values belong to."""
    for value in values:
        if isinstance(value, Array):
            return value._recording
    return None


def lift(recording: _kiln.Recording, value: Any) -> Array:
    """A value as an array of a recording: constants are copied."""
    if isinstance(value, Array):
        return value
    if isinstance(value, _kiln.Size):
        data = recording.op("dims", [], sizes=[value])[0]
        return Array(recording, recording.reshape(data, []), weak=True)
    if is_number(value):
        return Array(recording, recording.number(weak_dtype(value), value), weak=True)
    if isinstance(value, (list, tuple)):
        if _holds_traced(value):
            from . import numpy as functions

            return functions.stack([lift(recording, item) for item in value])
        value = numpy.asarray(value)
    return Array(recording, recording.constant(value))


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_traced(item) for item in value)
    return isinstance(value, (Array, _kiln.Size))


def _operator(name: str, function: str) -> Callable[..., Any]:
    def forward(self: Array, other: Any) -> Any:
        from . import numpy as functions

        return getattr(functions, function)(self, other)

    forward.__name__ = forward.__qualname__ = f"__{name}__"
    return forward


def _reflected(name: str, function: str) -> Callable[..., Any]:
    def backward(self: Array, other: Any) -> Any:
        from . import numpy as functions

        return getattr(functions, function)(other, self)

    backward.__name__ = backward.__qualname__ = f"__r{name}__"
    return backward


def _method(function: str) -> Callable[..., Any]:
    def call(self: Array, *args: Any, **kwargs: Any) -> Any:
        from . import numpy as functions

        return getattr(functions, function)(self, *args, **kwargs)

    call.__name__ = call.__qualname__ = function
    call.__doc__ = f"As ``kiln.numpy.{function}``."
    return call


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "invert"}
_METHODS = (
    "sum prod mean max min any all var std argmax argmin cumsum cumprod argsort sort clip round ravel squeeze swapaxes "
    "repeat take dot diagonal trace"
).split()

for _name, _function in _BINARY.items():
    setattr(Array, f"__{_name}__", _operator(_name, _function))
    setattr(Array, f"__r{_name}__", _reflected(_name, _function))
for _name, _function in {**_COMPARISONS, **_UNARY}.items():
    if _name in _COMPARISONS:
        setattr(Array, f"__{_name}__", _operator(_name, _function))
    else:
        setattr(Array, f"__{_name}__", _method(_function))
for _name in _METHODS:
    setattr(Array, _name, _method(_name))
setattr(Array, "flatten", _method("ravel"))
