"""Faults that a disk makes anywhere: flipped bits, lost sectors and pages, torn writes, swapped pages.

The place is seeded (or given with `file` and `at`); what it must cause is derived from what was there.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.writer.damage import derive
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import (
    ANY_CHECKPOINT,
    ANY_INDEX,
    ANY_LOG,
    ANY_QUEUE,
    CONFIG_LOST,
    DamageError,
    rules,
)

SECTOR_SIZE = 512
PAGE_SIZE = 4096
AREAS = ("commitlog", "consumequeue", "index", "checkpoint", "config")
_OPTIONS = {
    "area": f"one of {', '.join(AREAS)}",
    "file": "a file, relative to the store",
    "at": "a byte position in it",
}
_TAIL_CHANCE = 8

_OF_CONFIG = rules(
    RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK, RuleName.CONFIG_TRAILING_BYTES,
    RuleName.CONFIG_BACKUP_DAMAGED,
)  # fmt: skip
_OF_CHECKPOINT = rules(RuleName.CHECKPOINT_TAIL, RuleName.CHECKPOINT_NEGATIVE)
_CAUSES = tuple(sorted(rules(ANY_LOG, ANY_QUEUE, ANY_INDEX, _OF_CHECKPOINT, _OF_CONFIG)))
_ANY = "a file"


def _files(job: Job) -> dict[str, list[str]]:
    """Files that hold something, by area."""
    store = job.store
    found = {
        "commitlog": [file.relative for file in store.commitlog.files],
        "consumequeue": [file.relative for queue in store.queues for file in queue.files],
        "index": [file.relative for file in store.indexes],
        "checkpoint": [store.checkpoint.relative] if store.checkpoint is not None else [],
        "config": [file.relative for file in store.configs],
    }
    return {area: [name for name in names if job.editor.size(name)] for area, names in found.items()}


def _place(job: Job, size: int, align: int) -> tuple[str, str, int]:
    """Area, file and position where `size` bytes are to be hit."""
    files = _files(job)
    name = job.options.get("file")
    if name is not None:
        area = next((area for area, names in files.items() if name in names), None)
        if area is None:
            raise DamageError(f"the store has no data file {name}")
    else:
        area = job.options.get("area") or job.choose([area for area in AREAS if files[area]], "file")
        if area not in AREAS:
            raise DamageError(f"area={area}: one of {', '.join(AREAS)}")
        name = job.choose(files[area], f"file in {area}")
    length = job.editor.size(name)
    at = job.options.get("at")
    pos = job.number("at", 0, 0) if at is not None else _seeded(job, name, length)
    pos -= pos % align
    if pos >= length:
        raise DamageError(f"{name} has {length:,} bytes and no byte {pos}")
    job.need(job.is_free(name, pos, min(pos + size, length)), "free place there")
    return area, name, pos


def _seeded(job: Job, name: str, length: int) -> int:
    """A position: mostly among the bytes in use, seldom anywhere."""
    used = job.editor.used_size(name)
    limit = length if not used or job.rng.randrange(_TAIL_CHANCE) == 0 else used
    return job.rng.randrange(limit)


def _derive(job: Job, area: str, name: str, hits: Sequence[derive.Hit]) -> None:
    """Say what the hits must cause; the scenes were read before the first write."""
    if not any(hit.runs() for hit in hits):
        job.unseen = "the damage would leave the bytes as they are"
    elif area == "commitlog":
        job.also(ANY_LOG)
        file = next(file for file in job.store.commitlog.files if file.relative == name)
        job.unseen = derive.derive_log(job, job.log(file), hits)
    elif area == "consumequeue":
        job.also(ANY_QUEUE)
        names = ((queue, file.relative) for queue in job.store.queues for file in queue.files)
        queue = next(queue for queue, file in names if file == name)
        job.unseen = derive.derive_queue(job, job.queue(queue), name, hits)
    elif area == "index":
        job.also(ANY_INDEX)
        index = next(file for file in job.store.indexes if file.relative == name)
        job.unseen = derive.derive_index(job, job.index(index), hits)
    elif area == "checkpoint":
        job.also(ANY_CHECKPOINT)
        job.unseen = derive.derive_checkpoint(job, hits)
    else:
        job.also(_OF_CONFIG, CONFIG_LOST, RuleName.TIMER_CHECK_RANGE)
        job.unseen = derive.derive_config(job, name)


def _read_scenes(job: Job, area: str) -> None:
    """Everything that the derivation looks at is read while the store is as it was."""
    for file in job.store.commitlog.files:
        if file.start_offset is not None:
            job.log(file)
    for queue in job.store.queues:
        job.queue(queue)
    if area == "index":
        for index in job.store.indexes:
            job.index(index)


def _hit(job: Job, area: str, name: str, changes: Sequence[tuple[int, bytes]]) -> None:
    """Write and derive."""
    _read_scenes(job, area)
    hits = [derive.Hit(pos, job.editor.read(name, pos, pos + len(data)), data) for pos, data in changes]
    for hit in hits:
        job.editor.write(name, hit.start, hit.after)
    _derive(job, area, name, hits)


@damage(None, _CAUSES, _ANY, options={**_OPTIONS, "bit": "which bit, from 0"})
def bit_flip(job: Job) -> None:
    """One bit somewhere is flipped."""
    area, name, pos = _place(job, 1, 1)
    byte = job.editor.read(name, pos, pos + 1)[0]
    bit = job.number("bit", job.rng.randrange(8), 0, 7)
    job.note = f"bit {bit} of byte {pos} of {name}"
    _hit(job, area, name, [(pos, bytes([byte ^ 1 << bit]))])


def _zero(job: Job, size: int) -> None:
    area, name, pos = _place(job, size, size)
    count = min(size, job.editor.size(name) - pos)
    job.note = f"{count:,} bytes of {name} from byte {pos} on are zeros"
    _hit(job, area, name, [(pos, bytes(count))])


@damage(None, _CAUSES, _ANY, options=_OPTIONS)
def zero_sector(job: Job) -> None:
    """A sector of 512 bytes reads as zeros."""
    _zero(job, SECTOR_SIZE)


@damage(None, _CAUSES, _ANY, options=_OPTIONS)
def zero_page(job: Job) -> None:
    """A page of 4,096 bytes reads as zeros."""
    _zero(job, PAGE_SIZE)


@damage(None, _CAUSES, _ANY, options=_OPTIONS)
def torn_write(job: Job) -> None:
    """Only the first sectors of a page were written."""
    area, name, pos = _place(job, PAGE_SIZE, PAGE_SIZE)
    kept = SECTOR_SIZE * (1 + job.rng.randrange(PAGE_SIZE // SECTOR_SIZE - 1))
    count = min(PAGE_SIZE, job.editor.size(name) - pos) - kept
    job.need(count > 0, "page of several sectors there")
    job.note = f"only the first {kept:,} bytes of the page at byte {pos} of {name} were written"
    _hit(job, area, name, [(pos + kept, bytes(count))])


@damage(None, _CAUSES, _ANY, options=_OPTIONS)
def swapped_pages(job: Job) -> None:
    """Two pages of a file are swapped."""
    area, name, pos = _place(job, PAGE_SIZE, PAGE_SIZE)
    pages = job.editor.size(name) // PAGE_SIZE
    starts = (start for start in range(0, pages * PAGE_SIZE, PAGE_SIZE) if start != pos)
    others = [start for start in starts if job.is_free(name, start, start + PAGE_SIZE)]
    job.need(pos // PAGE_SIZE < pages, "second page in that file")
    other = job.choose(others, "second page in that file")
    first, second = (job.editor.read(name, at, at + PAGE_SIZE) for at in (pos, other))
    job.note = f"the pages at bytes {pos} and {other} of {name} are swapped"
    _hit(job, area, name, [(pos, second), (other, first)])
