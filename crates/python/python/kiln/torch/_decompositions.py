"""The decompositions applied before conversion: to PyTorch's core operators, some of which are decomposed further."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn import functional

_aten = torch.ops.aten

#: Operators that are also decomposed: norms and others whose parts Kiln fuses.
_BROKEN_DOWN = (
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update_functional",
    "_batch_norm_no_update",
    "batch_norm_backward",
    "native_dropout",
    "addmv",
    "grid_sampler_2d",
)



def _encoder_layer(
    x: torch.Tensor,
    width: int,
    n_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm1_weight: torch.Tensor,
    norm1_bias: torch.Tensor,
    norm2_weight: torch.Tensor,
    norm2_bias: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """The fused operator that PyTorch uses for a transformer encoder layer in inference."""
    if mask is not None:
        return NotImplemented

    def attend(y: torch.Tensor) -> torch.Tensor:
        batch, length, _ = y.shape
        qkv = functional.linear(y, qkv_weight, qkv_bias).reshape(batch, length, 3, n_heads, width // n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(q, k, v)
        return functional.linear(attended.transpose(1, 2).reshape(batch, length, width), out_weight, out_bias)

    def transform(y: torch.Tensor) -> torch.Tensor:
        hidden = functional.linear(y, up_weight, up_bias)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, down_weight, down_bias)

    def norm1(y: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(y, (width,), norm1_weight, norm1_bias, epsilon)

    def norm2(y: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(y, (width,), norm2_weight, norm2_bias, epsilon)

    if norm_first:
        x = x + attend(norm1(x))
        return x + transform(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + transform(x))


#: Operators that are kept, since Kiln has a conversion for them.
_KEPT = (
    "_safe_softmax",
    "silu",
    "softplus",
    "mish",
    "hardswish",
    "hardsigmoid",
    "upsample_nearest2d_backward",
    "upsample_bilinear2d",
    "upsample_linear1d",
    "avg_pool2d_backward",
    "roll",
    "tril",
    "triu",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
)


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The decomposition rule of each operator."""
    rules = dict(core_aten_decompositions())
    names = [name for name in _BROKEN_DOWN if hasattr(_aten, name)]
    rules.update(get_decompositions([getattr(_aten, name) for name in names]))
    rules[_aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    kept = {getattr(_aten, name) for name in _KEPT}
    return {operator: rule for operator, rule in rules.items() if getattr(operator, "overloadpacket", None) not in kept}
