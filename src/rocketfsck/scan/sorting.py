"""Sets of numbers as sorted arrays.

NumPy's own `unique` and `isin` import numpy.ma when they are first called, in whatever thread that is: a
tenth of what a small check takes, and an import that parses source code, which CPython 3.11 does not do
safely in two threads at once ("AST constructor recursion depth mismatch").
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.integer[Any])


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The different values of a one-dimensional array, ascending."""
    ordered = np.sort(values)
    kept = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def among(values: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are in `ordered`, an ascending array."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    place = np.searchsorted(ordered, values)
    place[place == len(ordered)] = 0
    found: NDArray[np.bool_] = ordered[place] == values
    return found
