"""Acts that take bytes from another copy of the store. Only `repair.heal.plan` plans them.

    heal-log      ranges of a commit log file that is there, or is made for them
    heal-cut      what A has after the end of the copy whose history counts goes

What is overwritten is set aside first. Fault catalogue, H1 and H2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from rocketfsck.errors import StoreError
from rocketfsck.repair.log.edit import COPY_SIZE, keep_bytes
from rocketfsck.repair.plan.arguments import CopiedRanges, LogCut
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.commitlog import act_cut
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding

Span = tuple[int, int]


def spans_of(action: Action, arguments: CopiedRanges) -> list[Span]:
    """The ranges of an action, as positions in its file; StoreError for what cannot be."""
    start = arguments.start_offset
    moved = [(span.start_offset - start, span.end_offset - start) for span in arguments.ranges]
    bounds = [0, *(place for span in moved for place in span), arguments.size]
    if any(low >= high for low, high in moved) or bounds != sorted(bounds):
        raise StoreError("does not have these ranges", path=action.target)
    return moved


def act_heal(scene: ActScene, action: Action, arguments: CopiedRanges) -> None:
    """Copy the ranges from the other store. What was there is set aside in one file."""
    tree, name, size = scene.tree, action.target, arguments.size
    spans = spans_of(action, arguments)
    sizes = [high - low for low, high in spans]
    if not spans or sizes != [(extent.end or 0) - extent.start for extent in action.sources]:
        raise StoreError("has ranges whose length differs from their replacements", path=name)
    made = not tree.exists(name)
    if made:
        tree.create(name, size)
    else:
        keep_bytes(tree, name, *spans)
        if tree.size(name) < size:
            tree.resize(name, size)
    for (start, _), extent in zip(spans, action.sources, strict=True):
        _take(scene, name, start, extent)
    if made:
        tree.set_mtime(name, arguments.store_timestamp * 1_000_000)


def _take(scene: ActScene, name: str, pos: int, source: Extent) -> None:
    """Copy the bytes of a file elsewhere, which must still be those of the plan."""
    digest = hashlib.sha256()
    with FileReader(source.file) as reader:
        end = source.end or 0
        for start in range(source.start, end, COPY_SIZE):
            data = reader.read(start, min(COPY_SIZE, end - start))
            digest.update(data)
            scene.tree.write(name, pos + start - source.start, data)
    if digest.hexdigest() != source.sha256:
        raise StoreError("changed while it was read", path=source.file, offset=source.start)


def _nothing(_scene: PlanScene, _findings: Sequence[Finding]) -> Iterable[Action]:
    return ()


ROWS: tuple[Row, ...] = (
    Repair(
        "heal-log",
        180,
        "copy ranges of the log from another copy of the store",
        _nothing,
        act_heal,
        CopiedRanges,
        writes_by=("commitlog_file_size",),
    ),
    Repair("heal-cut", 185, "cut the log where that of the other copy ends", _nothing, act_cut, LogCut),
)
