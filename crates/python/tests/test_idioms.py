"""The book's page of NumPy lines: what it says of each line is what NumPy computes.

That Kiln computes the same is tested where the page's Rust lines run.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs/book/src/guide/numpy-idioms.md"

# A comment with the line, and the last text of the statement below it.
IDIOM = re.compile(r'^// ([^\n]+)\n(same!\((?:(?!^//).)*?"([^"]*)"\);)$', re.MULTILINE | re.DOTALL)

ARRAYS = {
    "m": np.array([[1, 2, 3], [4, 5, 6]], np.float32),
    "s": np.array([[4, 1], [2, 3]], np.float32),
    "v": np.array([3, -1, 2], np.float32),
    "n": np.array([2, 0, 1]),
    "b": np.array([True, False, True]),
}


def idioms() -> list[tuple[str, str]]:
    """The lines of NumPy, those of JAX left out, each with what the page says that it gives."""
    found = [(match[1], match[3]) for match in IDIOM.finditer(PAGE.read_text())]
    assert len(found) >= 100, f"found {len(found)} lines on {PAGE}"
    return [(line, text) for line, text in found if "jax." not in line and ".at[" not in line]


def parsed(text: str) -> np.ndarray:
    """The array that a text prints."""
    text = re.sub(r"([\w.\]]) +(?=[\[\w.-])", r"\1, ", text)
    return np.array(ast.literal_eval(text.replace("true", "True").replace("false", "False")))


@pytest.mark.parametrize(("line", "text"), idioms())
def test_the_page_says_what_numpy_computes(line: str, text: str) -> None:
    names = {name: array.copy() for name, array in ARRAYS.items()}
    with np.errstate(divide="ignore"):
        found = np.asarray(eval(line, {"np": np}, names))  # noqa: S307
    expected = parsed(text)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)
