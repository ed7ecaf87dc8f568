"""Names for the types of NumPy arrays that columns, buffers and selections of rows are.

The names say what annotations mean; no code depends on them when it runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
"""Java's long: offsets, positions, times in ms, numbers of rows."""

Words = NDArray[np.int32]
"""Java's int: hashes of keys, bounds of Arrow's texts."""

Bytes = NDArray[np.uint8]
"""A buffer, or a part of a file."""

Flags = NDArray[np.bool_]
"""One answer a row."""
