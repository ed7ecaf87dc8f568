"""Acts that take bytes from another copy of the store. They are planned by `repair.heal.plan` alone.

    heal-log      ranges of a commit log file that is there, or is made for them
    heal-cut      what A has behind the end of the copy whose history counts goes

What is overwritten is set aside first. Fault catalogue, H1 and H2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from rocketfsck.errors import StoreError
from rocketfsck.repair.log.edit import COPY_SIZE, keep_bytes
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.repair.plan.scene import ActScene, PlanScene
from rocketfsck.repair.plan.table import Repair
from rocketfsck.repair.repairs.answers import number, text
from rocketfsck.repair.repairs.commitlog import act_cut
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding

Span = tuple[int, int]


def spans_text(ranges: Iterable[Span]) -> str:
    """Ranges as an argument of an action."""
    return " ".join(f"{start}-{end}" for start, end in ranges)


def spans_of(action: Action, size: int) -> list[Span]:
    """The ranges of an action, as positions in its file; StoreError for what cannot be."""
    spans: list[Span] = []
    for part in text(action.arguments, "ranges").split():
        low, _, high = part.partition("-")
        if not (low.isascii() and low.isdigit() and high.isascii() and high.isdigit()):
            raise StoreError(f"has no range {part!a}", path=action.target)
        spans.append((int(low), int(high)))
    start = number(action.arguments, "start_offset")
    moved = [(low - start, high - start) for low, high in spans]
    bounds = [0, *(place for span in moved for place in span), size]
    if any(low >= high for low, high in moved) or bounds != sorted(bounds):
        raise StoreError("has no such ranges", path=action.target)
    return moved


def act_heal(scene: ActScene, action: Action) -> None:
    """Copy the ranges from the other store. What was there is set aside in one file."""
    tree, name = scene.tree, action.target
    size = number(action.arguments, "size")
    spans = spans_of(action, size)
    sizes = [high - low for low, high in spans]
    if not spans or sizes != [(extent.end or 0) - extent.start for extent in action.sources]:
        raise StoreError("has ranges of another length than what is taken for them", path=name)
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
        tree.set_mtime(name, number(action.arguments, "store_timestamp") * 1_000_000)


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


ROWS: tuple[Repair, ...] = (
    Repair(
        "heal-log",
        180,
        "take ranges of the log from another copy",
        _nothing,
        act_heal,
        writes_by=("commitlog_file_size",),
    ),
    Repair("heal-cut", 185, "cut the log where the other copy's ends", _nothing, act_cut),
)
