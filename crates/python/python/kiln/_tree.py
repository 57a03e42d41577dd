"""Nested tuples, lists and dicts of arrays, as lists of leaves and a structure that can be compared and hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: A structure: ``LEAF``, ``NONE``, or a kind, its keys and the structures of its items.
Tree = Any

LEAF = "leaf"
NONE = "none"


def flatten(value: Any, path: str = "") -> tuple[list[tuple[str, Any]], Tree]:
    """The leaves of a value, each with its path such as ``params.w[0]``, and its structure.

    Tuples (including named tuples), lists and dicts are flattened; None has no leaves; anything else is a leaf.
    """
    leaves: list[tuple[str, Any]] = []
    return leaves, _structure(value, path, leaves)


def _structure(value: Any, path: str, leaves: list[tuple[str, Any]]) -> Tree:
    if value is None:
        return NONE
    if isinstance(value, dict):
        keys = tuple(sorted(value, key=lambda key: (type(key).__name__, key)))
        items = tuple(_structure(value[key], _joined(path, key), leaves) for key in keys)
        return (dict, keys, items)
    if isinstance(value, (tuple, list)):
        kind = type(value)
        fields = getattr(kind, "_fields", None)
        names = fields if fields is not None else range(len(value))
        items = tuple(_structure(item, _joined(path, name), leaves) for name, item in zip(names, value))
        return (kind, None, items)
    leaves.append((path, value))
    return LEAF


def _joined(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"


def unflatten(tree: Tree, leaves: Iterable[Any]) -> Any:
    """The value with this structure and these leaves."""
    return _value(tree, iter(leaves))


def _value(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree == LEAF:
        return next(leaves)
    if tree == NONE:
        return None
    kind, keys, items = tree
    values = [_value(item, leaves) for item in items]
    if kind is dict:
        return dict(zip(keys, values))
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with a function applied to each leaf."""
    leaves, tree = flatten(value)
    return unflatten(tree, [function(leaf) for _, leaf in leaves])
