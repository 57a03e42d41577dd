"""The backend function that PyTorch calls with captured graphs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.dlpack import to_dlpack

from .. import _kiln
from .._errors import Error
from .._model import _settings
from . import _account, _sizes
from ._account import Unsupported
from ._decompositions import decompositions
from ._graph import Conversion, Plan

_OPTIONS = tuple(inspect.signature(_settings).parameters)


def backend(
    module: GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The function that ``torch.compile(model, backend="kiln")`` calls with each graph that it captures.

    :param options: keyword arguments of :func:`kiln.load`.
    :param mode: accepted and ignored.
    """
    unknown = sorted(set(options or {}).difference(_OPTIONS))
    if unknown:
        raise ValueError(f"expected options of {', '.join(_OPTIONS)}, found {', '.join(unknown)}")
    settings = _settings(**(options or {}))
    compiler = aot_autograd(
        fw_compiler=functools.partial(_compile, "forward", settings),
        bw_compiler=functools.partial(_compile, "backward", settings),
        inference_compiler=functools.partial(_compile, "inference", settings),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    # Decomposes attention into matrix products and a softmax, which Kiln fuses.
    with sdpa_kernel(SDPBackend.MATH):
        return compiler(module, example_inputs)


def _compile(role: str, settings: dict[str, Any], module: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    """A function of a graph's arguments, with PyTorch's calling convention: it takes a list, and empties it."""
    n_ops = sum(node.op == "call_function" for node in module.graph.nodes)
    account = _account.Graph(role, n_ops)
    plan = None
    try:
        # Outside the fake-tensor mode, since constants have values, unlike the tensors of the graph.
        with _disable_current_modes():
            plan = Conversion(module, _kiln.Recording(role)).plan(settings)
    except (Unsupported, Error) as error:
        account.reason = str(error)
    except Exception as error:
        # A defect in the conversion should not end the program, since PyTorch can run the graph.
        account.reason = f"Kiln's conversion has a defect: {type(error).__name__}: {error}"
    _account.add(account)
    return _boxed(_Compiled(module, plan, account))


def _boxed(compiled: _Compiled) -> Callable[[list[Any]], list[Any]]:
    def run(args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        return compiled(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _Compiled:
    """A graph that Kiln runs, falling back to PyTorch."""

    def __init__(self, module: GraphModule, plan: Plan | None, account: _account.Graph) -> None:
        self._module = module
        self._plan = plan
        self._account = account

    def __call__(self, args: list[Any]) -> list[Any]:
        plan = self._plan
        if plan is None:
            return self._eager(args, self._account.reason or "")
        try:
            results = self._called(plan, args)
        except (Unsupported, Error) as error:
            # The graph has no side effects, so it can be run again.
            return self._eager(args, str(error))
        self._account.n_calls += 1
        return results

    def _eager(self, args: list[Any], reason: str) -> list[Any]:
        self._account.fall_back(reason)
        return list(self._module(*args))

    def _called(self, plan: Plan, args: list[Any]) -> list[Any]:
        values: dict[str, int] = {}
        if plan.draws or any(kind == "size" for kind, _ in plan.outputs):
            for name, (position, axis) in plan.symbols.items():
                values[name] = args[position] if axis is None else args[position].shape[axis]
        tensors = [to_dlpack(args[position].detach()) for position in plan.arguments]
        tensors += [to_dlpack(_sized(args[position])) for position in plan.sizes]
        for draw, shape, dtype in plan.draws:
            sizes = [_sizes.evaluate(size, values) for size in shape]
            tensors.append(to_dlpack(draw(sizes, dtype=dtype)))
        made = list(plan.native._call(tuple(tensors), {}).values())
        results = []
        for kind, what in plan.outputs:
            if kind == "tensor":
                results.append(torch._C._from_dlpack(made[what].__dlpack__()))
            elif kind == "argument":
                results.append(args[what])
            elif kind == "size":
                results.append(_sizes.evaluate(what, values))
            else:
                results.append(what)
        return results


def _sized(size: int) -> torch.Tensor:
    """A tensor with a given number of elements that occupies one byte."""
    if size < 0:
        raise Unsupported("an argument is a negative integer")
    return torch.zeros(1, dtype=torch.uint8).expand(size)
