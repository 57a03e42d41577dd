"""An HTML report about one call of a model, which a notebook displays."""

from __future__ import annotations

import html
import json
import os
from typing import Any


class Report:
    """One call of a model in detail: what each step cost compared with what the machine can do, where its memory is,
    what was compiled, which kernels were nearly fused, and what to try next."""

    def __init__(self, page: str, data: str, near_misses: str) -> None:
        #: The page, a self-contained HTML document.
        self.html = page
        #: Everything on the page, as dicts and lists.
        self.data: dict[str, Any] = json.loads(data)
        #: The pairs of steps that were not fused, ordered by the milliseconds that fusing them would save, as text.
        self.near_misses = near_misses

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, in the order they start: ``name``, ``nodes`` of the model, ``ms``, ``bytes`` and more."""
        return self.data["steps"]

    @property
    def advice(self) -> list[str]:
        """What to try next, the most promising first."""
        return [f"{advice['title']}: {advice['because']}" for advice in self.data["advice"]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        # In a frame, since its styles apply to a whole page.
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" title="Report" style="width: 100%; height: 45em; border: 0"></iframe>'

    def __repr__(self) -> str:
        head = f"Report({self.data['model']}: {len(self.steps)} steps, {self.data['call_ms']:.3f} ms a call)"
        return "\n  ".join([head, *self.advice])
