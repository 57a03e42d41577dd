"""Runs scripts written for onnxruntime unchanged: ``import kiln.onnxruntime as onnxruntime``.

It has the part of the interface that inference scripts use: sessions, their inputs and outputs, ``run``, options,
providers. An option that Kiln does not need is accepted if ignoring it changes no result; anything else is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _kiln
from ._model import Model, Value, load

__version__ = _kiln.__version__

_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "float16",
    "bfloat16": "bfloat16",
}

_PROVIDERS = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}


class GraphOptimizationLevel:
    """How much a graph is rewritten before it runs; every level but the first enables all rewrites."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode:
    """Accepted without effect: the operators of a call are fused, and share its threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """The session options that Kiln uses; others may be set, and have no effect."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.log_severity_level = 2
        self.enable_mem_pattern = True
        self.enable_cpu_mem_arena = True
        self.enable_profiling = False
        self._dims: dict[str, int] = {}

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes the value of a symbol in the model's shapes."""
        self._dims[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Accepted, without effect."""


class NodeArg:
    """An input or output."""

    def __init__(self, value: Value) -> None:
        #: Its name.
        self.name = value.name
        #: Sizes and names of symbols.
        self.shape = list(value.shape) if value.shape is not None else []
        #: As in ``tensor(float)``.
        self.type = f"tensor({_TYPES.get(value.dtype or '', value.dtype or 'undefined')})"

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class ModelMetadata:
    """The metadata in the model file."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self.custom_metadata_map = dict(metadata)


class InferenceSession:
    """A model with onnxruntime's interface."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **_: Any,
    ) -> None:
        options = sess_options if sess_options is not None else SessionOptions()
        self._providers = _usable(providers)
        self._model: Model = load(
            path_or_bytes,
            device=_PROVIDERS[self._providers[0]],
            threads=options.intra_op_num_threads or None,
            dims=options._dims,
            passes=options.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL,
        )

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return [NodeArg(value) for value in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return [NodeArg(value) for value in self._model.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata in the model file."""
        return ModelMetadata(self._model.metadata)

    def get_providers(self) -> list[str]:
        """The devices in use, under onnxruntime's names."""
        return list(self._providers)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """The outputs with these names, or all of them, in order."""
        outputs = {name: _own(array) for name, array in self._model.run(input_feed).items()}
        if not output_names:
            return list(outputs.values())
        unknown = [name for name in output_names if name not in outputs]
        if unknown:
            raise ValueError(f"the model has no output {unknown[0]!r}; it has {', '.join(outputs)}")
        return [outputs[name] for name in output_names]


def _own(array: Any) -> Any:
    """A writable array, since onnxruntime's results are writable."""
    is_shared = not getattr(getattr(array, "flags", None), "writeable", True)
    return array.copy() if is_shared else array


def get_available_providers() -> list[str]:
    """The devices that this build has, under onnxruntime's names."""
    devices = {device.split(":")[0] for device in _kiln.devices()}
    return [name for name, device in reversed(_PROVIDERS.items()) if device in devices]


def get_device() -> str:
    """``"GPU"`` where a GPU can be used, otherwise ``"CPU"``."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def _usable(providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None) -> list[str]:
    """The requested providers that this build has, in order of preference."""
    available = get_available_providers()
    if not providers:
        return ["CPUExecutionProvider"]
    names = [name if isinstance(name, str) else name[0] for name in providers]
    usable = [name for name in names if name in available]
    if not usable:
        raise ValueError(f"expected one of the providers {', '.join(available)}, found {', '.join(names)}")
    return usable
