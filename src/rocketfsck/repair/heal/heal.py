"""A store healed from two replicas: each record is taken from the copy where it is valid.

Both logs are carved; what one side has damaged, the other gives. Where both are valid and differ there is no
telling which history is the right one: then it must be said whose, and from that place on only that side is
believed. The new store is written with the machinery of salvage. Fault catalogue, H2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.errors import UsageError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.repair.carve.carve import CarvedRecords, SourceFile
from rocketfsck.repair.carve.confidence import judge
from rocketfsck.repair.compare.compare import SIDES, describe_side, refuse_entries, require_logs
from rocketfsck.repair.salvage.choose import Fate, choose, find_overlapped, place_kept
from rocketfsck.repair.salvage.ledger import Salvage, SalvageOptions
from rocketfsck.repair.salvage.salvage import carve_all, finish_story
from rocketfsck.store.model import Store

Fates = NDArray[np.int8]


def heal_stores(
    a: Store,
    b: Store,
    options: SalvageOptions,
    *,
    prefer: str | None = None,
) -> Salvage:
    """What a store healed from both would hold; nothing is written yet.

    `prefer` is "A" or "B". Sizes, version and config are those of the preferred side, else of A. Raises
    UsageError where both sides are valid and differ and none is preferred, the records do not fit the files,
    or one has no commit log; StoreError for what cannot be read.
    """
    require_logs(a, b)
    refuse_entries(a, b)
    stores = (a, b)
    sources, sides = _sources(stores)
    found = carve_all(sources)
    confidence = judge(found, np.array([source.base_offset for source in sources], np.int64))
    side_of = np.array([*sides, 0])[found["source"]]
    ends = np.array([describe_side(store).end_offset for store in stores])
    fates = choose(found, confidence, options.level, in_place=False)
    fates[(fates == Fate.TAKEN) & (found["physical_offset"] >= ends[side_of])] = Fate.EARLIER_LIFE
    _settle(found, fates, side_of, prefer)
    # what is left overlapping is within one side: the surer record gets the place
    fates[find_overlapped(found, confidence, np.flatnonzero(fates == Fate.TAKEN))] = Fate.OVERLAPPED
    origin = stores[SIDES.index(prefer)] if prefer else a
    file_size = options.file_size or origin.geometry.commitlog_file_size
    placed = place_kept(found, np.flatnonzero(fates == Fate.TAKEN), file_size)
    if isinstance(placed, str):
        raise UsageError(f"the records of both copies do not fit into one log: {placed}")
    note = "the physical offsets of both"
    return finish_story(options, sources, [], found, confidence, fates, placed, note, origin)


def _sources(stores: Sequence[Store]) -> tuple[list[SourceFile], list[int]]:
    """The commit log files of both, and which store each belongs to."""
    sources, sides = [], []
    for side, store in enumerate(stores):
        for file in store.commitlog.files:
            if file.start_offset is not None:
                sources.append(SourceFile(file.path, file.size, file.start_offset))
                sides.append(side)
    return sources, sides


def _settle(found: CarvedRecords, fates: Fates, side_of: Longs, prefer: str | None) -> None:
    """Decide between the sides where both are valid and differ. Raises UsageError if `prefer` is needed."""
    rows = np.flatnonzero(fates == Fate.TAKEN)
    rows = rows[np.argsort(found["physical_offset"][rows], kind="stable")]
    conflicts = _conflicts(found, rows, side_of)
    if not len(conflicts):
        return
    first = int(found["physical_offset"][conflicts].min())
    if prefer is None:
        raise UsageError(
            f"both copies are valid and differ, first at {first} ({count_of(len(conflicts), 'record')}): "
            "choose the right history with --prefer A or --prefer B"
        )
    other = 1 - SIDES.index(prefer)
    behind = found["physical_offset"] + found["total_size"] > first
    fates[(fates == Fate.TAKEN) & (side_of == other) & behind] = Fate.OVERLAPPED
    # copies of what was dropped, if the preferred side has them, take their places
    own = np.flatnonzero((fates == Fate.COPY) & (side_of != other) & behind)
    taken = set(found["physical_offset"][(fates == Fate.TAKEN) & behind].tolist())
    fates[[row for row in own.tolist() if int(found["physical_offset"][row]) not in taken]] = Fate.TAKEN


def _conflicts(found: CarvedRecords, rows: Longs, side_of: Longs) -> Longs:
    """Of rows in the order of their offsets, those that overlap a different record of the other side."""
    start = found["physical_offset"][rows]
    end = start + found["total_size"][rows]
    side = side_of[rows]
    flags = np.zeros(len(rows), np.bool_)
    for number in range(2):
        own, other = np.flatnonzero(side == number), np.flatnonzero(side != number)
        # of the other side's records, which do not overlap each other much, the reach decides
        reach = np.maximum.accumulate(np.concatenate(([-1], end[other])))
        before = np.searchsorted(start[other], start[own], side="right")
        after = np.searchsorted(start[other], end[own], side="left")
        flags[own] = (reach[before] > start[own]) | (after > before)
    return rows[flags]
