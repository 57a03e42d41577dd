"""Converts a graph captured by PyTorch to a Kiln model."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils.dlpack import to_dlpack

from .. import _kiln
from .._errors import TracingError
from ..numpy._context import tracing
from . import _sizes
from ._account import Unsupported

#: Operators whose results are not used.
_CHECKS = {
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}

#: Operators that draw random numbers: PyTorch draws them in each call, so that its seeds apply.
_DRAWS = {
    "aten.rand.default": torch.rand,
    "aten.rand_like.default": torch.rand,
    "aten.randn.default": torch.randn,
    "aten.randn_like.default": torch.randn,
}


@dataclass
class Plan:
    """How to call a converted graph."""

    native: _kiln.Model
    #: The positions of the arguments that are tensors of the model.
    arguments: list[int]
    #: The positions of integer arguments that are symbols, but not sizes of any tensor.
    sizes: list[int]
    #: Random tensors: the function that draws each, its sizes and dtype.
    draws: list[tuple[Callable[..., Any], list[Any], torch.dtype]]
    #: For each symbol, the position of an argument, and the axis, or None if the argument is an integer.
    symbols: dict[str, tuple[int, int | None]]
    #: What each output is: ``("tensor", index)``, ``("argument", position)``, ``("size", expression)`` or ``("value", value)``.
    outputs: list[tuple[str, Any]]


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a PyTorch dtype."""
    return str(dtype).removeprefix("torch.")


@dataclass
class Conversion:
    """A graph being converted, node by node."""

    module: GraphModule
    recording: _kiln.Recording
    #: What each node was converted to: a value, a number, a size, or a tuple of these.
    values: dict[Node, Any] = field(default_factory=dict)
    arguments: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    draws: list[tuple[Callable[..., Any], list[Any], torch.dtype]] = field(default_factory=list)
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def plan(self, settings: dict[str, Any]) -> Plan:
        """Converts every node, and loads the model."""
        nodes = list(self.module.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        self._find_symbols(placeholders)
        self._add_inputs(placeholders)
        # Random tensors are inputs, and inputs come first.
        for node in nodes:
            if node.op == "call_function" and str(node.target) in _DRAWS:
                self._draw(node)
        token = tracing.set(self.recording)
        try:
            for node in nodes:
                if node.op == "get_attr":
                    self.values[node] = self._attribute(node)
                elif node.op == "call_function" and node not in self.values:
                    self.values[node] = self._called(node)
                elif node.op not in ("placeholder", "call_function", "output"):
                    raise Unsupported(f"the graph has a node of kind {node.op}")
        finally:
            tracing.reset(token)
        return self._finished(nodes[-1], placeholders, settings)

    # Inputs.

    def _find_symbols(self, placeholders: list[Node]) -> None:
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                _expect_plain(node, value)
                for axis, size in enumerate(value.shape):
                    expr = _sizes.expression(size)
                    if expr.is_Symbol:
                        self.symbols.setdefault(expr.name, (position, axis))
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and _sizes.expression(value).is_Symbol:
                self.symbols.setdefault(_sizes.expression(value).name, (position, None))

    def _add_inputs(self, placeholders: list[Node]) -> None:
        givers = {position for position, axis in self.symbols.values() if axis is not None}
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and (node.users or position in givers):
                sizes = [self._input_size(size) for size in value.shape]
                self.values[node] = self.recording.input(f"arg{position}", dtype_name(value.dtype), sizes)
                self.arguments.append(position)
            elif isinstance(value, (torch.SymInt, int)):
                self.values[node] = value
            elif value is not None and node.users and not isinstance(value, torch.Tensor):
                raise Unsupported(f"an argument is a {type(value).__name__}")
        for name, (position, axis) in self.symbols.items():
            if axis is None:
                self.recording.input(f"size{position}", "uint8", [name])
                self.sizes.append(position)

    def _input_size(self, size: Any) -> Any:
        expr = _sizes.expression(size)
        if expr.is_Symbol:
            return expr.name
        missing = sorted(symbol.name for symbol in expr.free_symbols if symbol.name not in self.symbols)
        if missing:
            unknown = ", ".join(missing)
            raise Unsupported(f"the size {expr} of an argument depends on {unknown}, which no argument has")
        return _sizes.convert(self.recording, size)

    def _draw(self, node: Node) -> None:
        value = node.meta["val"]
        sizes = [self._input_size(size) for size in value.shape]
        name = f"random{len(self.draws)}"
        self.values[node] = self.recording.input(name, dtype_name(value.dtype), sizes)
        shape = [_sizes.expression(size) for size in value.shape]
        self.draws.append((_DRAWS[str(node.target)], shape, value.dtype))

    def _attribute(self, node: Node) -> Any:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            raise Unsupported(f"a constant is a {type(value).__name__}")
        return self.recording.constant(to_dlpack(value.detach()))

    # Nodes.

    def _called(self, node: Node) -> Any:
        from ._operators import TABLE

        name = str(node.target)
        value = node.meta.get("val")
        if not node.users:
            return None
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return value
        if isinstance(value, torch.SymFloat):
            return _sizes.convert_float(self.recording, value.node.expr)
        if isinstance(value, torch.SymBool):
            # Only checks read it.
            return None
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if name in _CHECKS:
            return None
        handler = TABLE.get(name)
        if handler is None:
            raise Unsupported(f"Kiln has no {name}")
        args = [self.argument(argument) for argument in node.args]
        kwargs = {key: self.argument(argument) for key, argument in node.kwargs.items()}
        try:
            result = handler(self, node, *args, **kwargs)
        except TypeError as error:
            # The handler does not accept one of the arguments.
            raise Unsupported(f"Kiln has no {name} with these arguments: {error}") from error
        _expect_agreement(name, value, result)
        return result

    def argument(self, given: Any) -> Any:
        """An argument of a node, with values in place of nodes and sizes in place of PyTorch's."""
        if isinstance(given, Node):
            given = self.values[given]
        if isinstance(given, (list, tuple)):
            return [self.argument(item) for item in given]
        if isinstance(given, torch.SymInt):
            return _sizes.convert(self.recording, given)
        return given

    def shape(self, node: Node, index: int | None = None) -> list[Any]:
        """The sizes of a node's result, or of one of its results."""
        value = node.meta["val"]
        value = value if index is None else value[index]
        return [_sizes.convert(self.recording, size) for size in value.shape]

    def dtype(self, node: Node, index: int | None = None) -> str:
        """The dtype of a node's result, or of one of its results."""
        value = node.meta["val"]
        return dtype_name((value if index is None else value[index]).dtype)

    def number(self, number: Any, dtype: str) -> _kiln.Value:
        """A number converted to a dtype as PyTorch does."""
        if isinstance(number, _kiln.Size):
            data = self.recording.op("dims", [], sizes=[number])[0]
            return self.recording.cast(self.recording.reshape(data, []), dtype)
        try:
            return self.recording.number(dtype, number)
        except TracingError:
            converted = torch.tensor(number).to(getattr(torch, dtype))
            return self.recording.constant(to_dlpack(converted))

    def value(self, given: Any, dtype: str) -> _kiln.Value:
        """A value or a number, as a value of a dtype."""
        if isinstance(given, _kiln.Value):
            return self.recording.cast(given, dtype)
        return self.number(given, dtype)

    def op(self, mnemonic: str, *operands: _kiln.Value, **attributes: Any) -> _kiln.Value:
        """The first result of an op."""
        return self.recording.op(mnemonic, operands, **attributes)[0]

    # Outputs.

    def _finished(self, output: Node, placeholders: list[Node], settings: dict[str, Any]) -> Plan:
        results = output.args[0]
        if not isinstance(results, (list, tuple)):
            raise Unsupported("the graph does not return a list of outputs")
        outputs: list[tuple[str, Any]] = []
        named: list[tuple[str, _kiln.Value]] = []
        for result in results:
            if not isinstance(result, Node):
                outputs.append(("value", result))
            elif result.op == "placeholder":
                outputs.append(("argument", placeholders.index(result)))
            elif isinstance(self.values[result], torch.SymInt):
                outputs.append(("size", _sizes.expression(self.values[result])))
            elif isinstance(self.values[result], _kiln.Value):
                outputs.append(("tensor", len(named)))
                named.append((f"y{len(named)}", self.values[result]))
            else:
                outputs.append(("value", self.values[result]))
        if not named:
            raise Unsupported("the graph computes no tensor")
        native = self.recording.load(named, settings)
        return Plan(native, self.arguments, self.sizes, self.draws, self.symbols, outputs)


def _expect_plain(node: Node, value: torch.Tensor) -> None:
    if value.device.type != "cpu":
        raise Unsupported(f"an argument is on the device {value.device.type}")
    if value.layout != torch.strided or value.is_quantized or value.dtype.is_complex:
        raise Unsupported(f"an argument is a tensor of {value.layout}, {value.dtype}")


def _expect_agreement(name: str, expected: Any, result: Any) -> None:
    """Checks the dtype, the number of axes and the known sizes; if one differs, the conversion is wrong."""
    if isinstance(expected, (tuple, list)):
        for one, made in zip(expected, result):
            _expect_agreement(name, one, made)
        return
    if not isinstance(expected, torch.Tensor) or not isinstance(result, _kiln.Value):
        return
    sizes = result.shape
    known = zip(sizes, expected.shape)
    agree = len(sizes) == expected.ndim and all(
        a == b for a, b in known if isinstance(a, int) and isinstance(b, int)
    )
    if not agree or result.dtype != dtype_name(expected.dtype):
        raise Unsupported(f"{name} was converted to {result!r}, expected {expected.dtype} {tuple(expected.shape)}")
