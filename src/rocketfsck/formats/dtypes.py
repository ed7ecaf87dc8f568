"""The NumPy dtypes of what is read and written by the array: big-endian, as on disk, made once.

Reference 1.8, 1.10, 2.1, 2.14, 3.1, 3.6, 3.7, 4.1.

Names for the types of NumPy arrays that columns, buffers and selections of rows are.

The names say what annotations mean; no code depends on them when it runs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dledger, indexfile, record, tiered, timer

Longs = NDArray[np.int64]
"""Java's long: offsets, positions, times in ms, numbers of rows."""

Words = NDArray[np.int32]
"""Java's int: hashes of keys, bounds of Arrow's texts."""

Bytes = NDArray[np.uint8]
"""A buffer, or a part of a file."""

Flags = NDArray[np.bool_]
"""One answer a row."""


Dtype = np.dtype[Any]

ENTRY_DTYPE: Final[Dtype] = indexfile.ENTRY.dtype()
SLOT_DTYPE: Final[Dtype] = indexfile.SLOT.dtype()["newestIndex"]

UNIT_DTYPE: Final[Dtype] = consumequeue.UNIT.dtype()
BATCH_UNIT_DTYPE: Final[Dtype] = consumequeue.BATCH_UNIT.dtype()
EXT_HEAD_DTYPE: Final[Dtype] = consumequeue.EXT_UNIT.dtype(last="bitMapSize")
"""An extension unit without its bitmap."""

RECORD_HEAD_DTYPE: Final[Dtype] = record.RECORD_HEADER.dtype(last="physicalOffset")
"""A record up to the field that says where it is."""

DLEDGER_INDEX_DTYPE: Final[Dtype] = dledger.DLEDGER_INDEX.dtype()
DLEDGER_HEAD_DTYPE: Final[Dtype] = np.dtype(
    [("entry", dledger.DLEDGER_ENTRY.dtype()), ("record", RECORD_HEAD_DTYPE)]
)
"""A DLedger entry's header, and the head of the record in its body."""

TIMER_SLOT_DTYPE: Final[Dtype] = timer.TIMER_WHEEL_SLOT.dtype()
TIMER_UNIT_DTYPE: Final[Dtype] = timer.TIMER_LOG_UNIT.dtype()

TIERED_SLOT_DTYPE: Final[Dtype] = tiered.TIERED_INDEX_SLOT.dtype()
TIERED_ITEM_DTYPE: Final[Dtype] = tiered.TIERED_INDEX_ITEM.dtype()
TIERED_COMPACTED_SLOT_DTYPE: Final[Dtype] = tiered.TIERED_COMPACTED_SLOT.dtype()
TIERED_COMPACTED_ITEM_DTYPE: Final[Dtype] = tiered.TIERED_COMPACTED_ITEM.dtype()


def unit_dtype(kind: str) -> Dtype:
    """The units of a consume queue of this kind ("file" or "batch")."""
    return UNIT_DTYPE if kind == "file" else BATCH_UNIT_DTYPE
