"""The census of bits: each bit of one structure of each kind is flipped, and the whole store is checked.

The stores are those that the fuzzer damages: a few dozen messages each, as the writer makes them. Of the
structures with the most fields that are not zero the middle one is taken. The check is given the store alone:
version and geometry are found as they are for a user.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rocketfsck.common.budget import within
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES

from tests.hostile.fuzz.spots import Spot, find_spots
from tests.hostile.fuzz.subjects import NOW, write_subject
from tests.trust.documents import Census, Flips, commit

OPTIONS = CheckOptions(level="full", now_timestamp=NOW)


class Place(NamedTuple):
    """Structures of a layout in a store: in files below `below`, with the bytes `holding`."""

    store: str
    layout: str
    below: str = ""
    holding: bytes = b""


_INDEX = ("index_header", "index_slot", "index_entry")
PLACES = (
    *(Place("plain-4.4.0", name) for name in ("record", "blank", "consumequeue_unit", *_INDEX, "checkpoint")),
    *(Place("plain-5.3.3", name) for name in ("record", "blank", "consumequeue_unit", *_INDEX, "checkpoint")),
    Place("propcrc-5.3.3", "record"),
    Place("batch-5.3.3", "record", holding=b"\x05Batch"),
    Place("batch-5.3.3", "batch_consumequeue_unit"),
    Place("delay-5.1.4", "record", holding=b"SCHEDULE_TOPIC_XXXX"),
    Place("delay-5.1.4", "consumequeue_unit", below="consumequeue/SCHEDULE_TOPIC_XXXX/"),
    Place("trans-4.9.8", "record", holding=b"RMQ_SYS_TRANS_HALF_TOPIC"),
    Place("ext-4.9.8", "consumequeue_unit"),
    Place("ext-4.9.8", "consumequeue_ext_unit"),
)


def measure(_jobs: int = 1, _count: int | None = None, *, places: Sequence[Place] = PLACES) -> Census:
    """Flip and check, one bit after the other: some ten thousand checks of 40 ms each."""
    fields: list[Flips] = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, within(jobs=1, compiled=False):
        for name, here in groupby(places, key=lambda place: place.store):
            subject = write_subject(Path(folder), name)
            versions[name] = subject.version
            spots = find_spots(subject.path)
            sound = _seen(subject.path)
            assert not any(map(_counts, sound)), (name, sound)
            for place in here:
                for spot in chosen(spots, subject.path, place):
                    fields.append(_flips(name, spot, subject.path, sound))
                    print(f"census: {name} {spot.label}, {spot.size} bytes", file=sys.stderr, flush=True)
    count = sum(flips.bit_count for flips in fields)
    return Census(commit(), str(OPTIONS.level), count, versions, tuple(fields))


def chosen(spots: Iterable[Spot], root: Path, place: Place) -> list[Spot]:
    """The fields of the structure that is looked at, in their order. Parts of fields are left out."""
    found: dict[tuple[str, int], list[Spot]] = defaultdict(list)
    for spot in spots:
        if spot.layout == place.layout and spot.file.startswith(place.below) and "." not in spot.field:
            found[spot.file, spot.start].append(spot)
    filled: dict[tuple[str, int], int] = {}
    for key, parts in found.items():
        data = (root / parts[0].file).read_bytes()
        if place.holding in data[parts[0].start : parts[0].end]:
            filled[key] = sum(any(data[spot.pos : spot.pos + spot.size]) for spot in parts)
    best = [key for key, count in filled.items() if count == max(filled.values())]
    return found[best[len(best) // 2]]


def _flips(store: str, spot: Spot, root: Path, sound: frozenset[str]) -> Flips:
    """What a check of the store says to each bit of a field, flipped alone."""
    bits: dict[str, list[int]] = defaultdict(list)
    unseen: list[int] = []
    for bit in range(8 * spot.size):
        with (root / spot.file).open("r+b", buffering=0) as file:
            pos = spot.pos + spot.size - 1 - bit // 8
            file.seek(pos)
            old = file.read(1)[0]
            file.seek(pos)
            file.write(bytes([old ^ 1 << bit % 8]))
            seen = {rule for rule in _seen(root) - sound if _counts(rule)}
            file.seek(pos)
            file.write(bytes([old]))
        for rule in seen:
            bits[rule].append(bit)
        if not seen:
            unseen.append(bit)
    rules = {rule: ranges(bits[rule]) for rule in sorted(bits)}
    return Flips(store, spot.layout, spot.field, 8 * spot.size, len(unseen), ranges(unseen), rules)


def _seen(root: Path) -> frozenset[str]:
    return frozenset(finding.rule for finding in check_store(open_store(root), OPTIONS).findings)


def _counts(rule: str) -> bool:
    """Whether a finding of the rule is more than a note."""
    return RULES[rule].severity > Severity.INFO


def ranges(numbers: Iterable[int]) -> str:
    """Rising numbers as text: "0-7,12"."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in _runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        yield values[0], values[-1]
