"""Every operator that has a conversion."""

from . import _elementwise, _movement, _products, _reductions, _windows
from ._table import TABLE

__all__ = ["TABLE", "_elementwise", "_movement", "_products", "_reductions", "_windows"]
