"""The table of conversions: one function per PyTorch operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Takes the conversion, the node, and the node's arguments with values in place of nodes; returns the node's results.
Handler = Callable[..., Any]

TABLE: dict[str, Handler] = {}


def converts(*names: str) -> Callable[[Handler], Handler]:
    """Adds a function to the table, for operators such as ``aten.mm.default``."""

    def add(handler: Handler) -> Handler:
        for name in names:
            TABLE[name] = handler
        return handler

    return add
