"""Counts which of the graphs that PyTorch captured run on Kiln, and which on PyTorch."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


class Unsupported(Exception):
    """The reason that a graph cannot be compiled."""


@dataclass
class Graph:
    """A captured graph."""

    #: ``forward``, ``backward`` or ``inference``.
    role: str
    #: The number of operators.
    n_ops: int
    #: Why PyTorch runs the graph; None if Kiln does.
    reason: str | None = None
    #: The number of calls that Kiln ran.
    n_calls: int = 0
    #: The number of calls that PyTorch ran, by reason.
    fallbacks: Counter[str] = field(default_factory=Counter)

    def fall_back(self, reason: str) -> None:
        """Counts a call that PyTorch runs."""
        self.fallbacks[reason] += 1


_graphs: list[Graph] = []
_lock = threading.Lock()


def add(graph: Graph) -> None:
    """Adds a captured graph."""
    with _lock:
        _graphs.append(graph)


def reset() -> None:
    """Forgets the graphs captured so far."""
    with _lock:
        _graphs.clear()


def counters() -> dict[str, int]:
    """The numbers of graphs and calls run by Kiln and by PyTorch, and for each reason the graphs left to PyTorch."""
    with _lock:
        graphs = list(_graphs)
    counted = Counter(
        compiled_graphs=sum(graph.reason is None for graph in graphs),
        eager_graphs=sum(graph.reason is not None for graph in graphs),
        compiled_calls=sum(graph.n_calls for graph in graphs),
        eager_calls=sum(sum(graph.fallbacks.values()) for graph in graphs),
    )
    for graph in graphs:
        if graph.reason is not None:
            counted[graph.reason] += 1
    return dict(counted)


def explain() -> str:
    """One line per captured graph, saying what runs it and why, followed by PyTorch's graph breaks."""
    from torch._dynamo.utils import counters as dynamo

    with _lock:
        graphs = list(_graphs)
    lines = []
    for number, graph in enumerate(graphs):
        who = "Kiln" if graph.reason is None else f"PyTorch, since {graph.reason}"
        lines.append(f"graph {number}: {graph.role}, {graph.n_ops} operators, {graph.n_calls} calls: {who}")
        for reason, count in graph.fallbacks.items():
            if graph.reason is None:
                lines.append(f"  {count} calls by PyTorch, since {reason}")
    for reason, count in dynamo["graph_break"].items():
        lines.append(f"graph break, {count} times: {reason.splitlines()[0]}")
    return "\n".join(lines) or "no graph was captured"
