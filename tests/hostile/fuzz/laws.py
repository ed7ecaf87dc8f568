"""What must hold whatever was damaged: states of a store to compare, sound records, predicted starts."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketfsck.errors import RocketfsckError
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store

LAWS: Mapping[str, str] = {
    "crash": "no command ends in an unexpected exception",
    "status": "every command ends with one of its exit statuses",
    "output": "JSON is JSON, text has no control characters",
    "report": "the regions of a report tile every file; a report comes back from its JSON",
    "read-only": "a command that reads leaves names, bytes, modes and times as they were",
    "control": "a check of a sound store finds nothing",
    "unseen": "exit status 0 only where nothing was damaged that some rule checks",
    "refused": "what the plan promises can be done",
    "unchanged": "an apply that does not publish leaves the store, and nothing beside it",
    "lost": "what was valid is valid after an apply, or the plan names it",
    "check-again": "a check after an apply finds what the apply said is left",
    "plan-again": "planning after an apply gives an empty plan",
    "start": "the broker's start is not worse after an apply than before",
    "undo": "undo gives back every byte, name, mode and time",
    "outside": "nothing outside of the store and its repair area is changed",
    "hang": "every command ends within a minute",
    "memory": "no command needs more than 512 MiB",
}
_MAGICS = (MAGIC_V1.to_bytes(4, "big", signed=True), MAGIC_V2.to_bytes(4, "big", signed=True))
_DATA_LIMIT = 8 << 20
_NUMBER = re.compile(r"\d+")
_PLACE = re.compile(r"(/[^\s:'\"]+)")


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that was broken, by which command, and how. `detail` is for people; `mark` groups equal ones."""

    law: str
    command: str
    detail: str

    @property
    def mark(self) -> str:
        text = _PLACE.sub("/…", self.detail)
        return f"{self.law} | {self.command.split()[0]} | {_NUMBER.sub('#', text)[:160]}"


State = dict[str, tuple[Any, ...]]


def outer_state(root: Path, without: Sequence[str] = ()) -> State:
    """What shows that anything was touched: kinds, modes, sizes, times of content and of inode."""
    found: State = {}
    for path, status in _walk(root, without):
        size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        found[path] = (status.st_mode, size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def full_state(root: Path) -> State:
    """What an undo must give back: kinds, modes, owners, sizes, times, contents, targets of links."""
    found: State = {}
    for path, status in _walk(root):
        place, mode = f"{root}/{path}" if path else str(root), status.st_mode
        content: Any = None
        if stat.S_ISLNK(mode):
            content = os.readlink(place)  # noqa: PTH115
        elif stat.S_ISREG(mode):
            content = hashlib.sha256(_data_of(place)).hexdigest()
        size = 0 if stat.S_ISDIR(mode) else status.st_size
        found[path] = (mode, status.st_uid, status.st_gid, size, status.st_mtime_ns, content)
    return found


def _walk(root: Path, without: Sequence[str] = ()) -> Iterator[tuple[str, os.stat_result]]:
    yield "", os.lstat(root)
    pending = [""]
    while pending:
        above = pending.pop()
        with os.scandir(f"{root}/{above}") as entries:
            for entry in entries:
                path = f"{above}/{entry.name}" if above else entry.name
                if path.startswith(tuple(without)) and without:
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
                yield path, status


def _data_of(path: str | Path) -> bytes:
    """The bytes of a file without its holes, each piece with its place."""
    pieces: list[bytes] = []
    pos = 0
    with open(path, "rb") as file:  # noqa: PTH123
        size = os.fstat(file.fileno()).st_size
        while pos < min(size, 1 << 42) and sum(len(piece) for piece in pieces) < _DATA_LIMIT:
            try:
                start = os.lseek(file.fileno(), pos, os.SEEK_DATA)
            except OSError:
                break
            pos = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            data = os.pread(file.fileno(), min(pos - start, _DATA_LIMIT), start)
            # tmpfs and disks round holes differently: zeros at the end of a piece are no data
            pieces.append(struct.pack(">q", start) + data.rstrip(b"\0"))
    return b"".join(pieces)


def differences(old: State, new: State) -> str:
    """The first few names at which two states differ, and how."""
    names = sorted({*old, *new}, key=lambda name: (name.count("/"), name))
    shown = []
    for name in names:
        if old.get(name) != new.get(name):
            what = "gone" if name not in new else "new" if name not in old else "changed"
            if what == "changed":
                fields = [
                    str(n)
                    for n, pair in enumerate(zip(old[name], new[name], strict=True))
                    if pair[0] != pair[1]
                ]
                what += f" in {','.join(fields)}"
            shown.append(f"{name or '.'} {what}")
    return "; ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


@dataclass(frozen=True, slots=True)
class SoundRecord:
    """A record whose frame and checksum are right: where it is, and where it says that it is."""

    place: int
    physical_offset: int
    size: int


def sound_records(root: Path) -> dict[bytes, SoundRecord]:
    """Every sound record of the files that a broker loads, by its bytes; found by their magic codes."""
    found: dict[bytes, SoundRecord] = {}
    folder = root / "commitlog"
    if not folder.is_dir():
        return found
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names may be no text
        path = folder / name
        if re.fullmatch(r"[0-9]{20}", name) and path.is_file():
            with path.open("rb") as file:
                data = file.read(_DATA_LIMIT)
            for pos, raw in _records_in(data):
                claimed = int.from_bytes(raw[28:36], "big", signed=True)
                name_of_it = hashlib.sha256(raw[:28] + raw[36:]).digest()  # wherever it says that it is
                found.setdefault(name_of_it, SoundRecord(int(name) + pos, claimed, len(raw)))
    return found


def _records_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    for magic in _MAGICS:
        at = data.find(magic)
        while at >= 0:
            pos = at - 4
            at = data.find(magic, at + 1)
            if pos < 0:
                continue
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            if MIN_RECORD_SIZE <= size <= len(data) - pos and _is_sound(data[pos : pos + size]):
                yield pos, data[pos : pos + size]


def _is_sound(raw: bytes) -> bool:
    """Whether lengths add up and the body has its checksum (written without the tool's own decoder)."""
    flags = int.from_bytes(raw[36:40], "big")
    at = 84 + 12 * bool(flags & 0x10) + 12 * bool(flags & 0x20)
    length = int.from_bytes(raw[at : at + 4], "big", signed=True)
    if length < 0 or at + 4 + length > len(raw):
        return False
    body, at = raw[at + 4 : at + 4 + length], at + 4 + length
    width = 2 if raw[4:8] == _MAGICS[1] else 1
    topic = int.from_bytes(raw[at : at + width], "big", signed=True)
    at += width + topic
    if topic < 0 or at + 2 > len(raw):
        return False
    properties = int.from_bytes(raw[at : at + 2], "big", signed=True)
    crc = int.from_bytes(raw[8:12], "big")
    if properties < 0 or at + 2 + properties != len(raw) or crc != (zlib.crc32(body) & 0x7FFFFFFF):
        return False
    if properties and raw.endswith(bytes(2)):  # no client writes zeros there, a disk does
        return False
    # ten digits behind everything else, the last one first (reference 2.7)
    if not raw[-20:].startswith(b"__CRC32#\x01"):
        return True
    stated = re.fullmatch(rb"__CRC32#\x01([0-9]{10})\x02", raw[-20:])
    return stated is not None and int(stated[1][::-1]) == zlib.crc32(raw[:-20]) & 0x7FFFFFFF


def lost_records(
    before: Mapping[bytes, SoundRecord], after: Mapping[bytes, SoundRecord], plan: Mapping[str, Any]
) -> list[SoundRecord]:
    """Records that were sound, are not there any more, and are in no loss that the plan names."""
    losses = [
        (loss["start_offset"], loss["end_offset"])
        for action in plan["actions"]
        for loss in action["losses"]
        if loss["what"] in ("record", "byte")
        and loss["start_offset"] is not None
        and loss["end_offset"] is not None
    ]
    return [
        record
        for key, record in before.items()
        if key not in after
        and not any(
            start < offset + record.size and offset < end
            for start, end in losses
            for offset in (record.place, record.physical_offset)
        )
    ]


def new_record_count(before: Mapping[bytes, SoundRecord], after: Mapping[bytes, SoundRecord]) -> int:
    """How many records a broker takes that it did not take before: they are where they say they are."""
    taken, found = (
        {key for key, record in records.items() if record.place == record.physical_offset}
        for records in (before, after)
    )
    return len(found - taken)


_OF_MESSAGES = frozenset({"reissued", "unreachable"})
"""What a start does to single messages that are in the log."""
_OF_RECORDS = frozenset({"cut", "reissued", "unreachable", "unindexed"})
"""What a start can do to records that a repair put there."""


@dataclass(frozen=True, slots=True)
class Harm:
    """What a start would do, as numbers of which none may grow. `cut` records are cut off or not seen."""

    refused: int
    destroyed: int
    cut: int
    reissued: int
    shifted: int
    unreachable: int
    unindexed: int

    def worse_than(self, other: Harm, new_count: int = 0) -> str:
        """Which numbers are larger than another's, as text. A start that is refused does nothing else.

        A message that is not cut off any more may be in no queue, and its queue offset free; one that no
        queue had may be at a wrong place in it. `new_count` records were not there before.
        """
        if other.refused:
            return ""
        kept = max(other.cut - self.cut, 0)
        more = dict.fromkeys(_OF_MESSAGES, kept) | {"shifted": max(other.unreachable - self.unreachable, 0)}
        for name in _OF_RECORDS:
            more[name] = more.get(name, 0) + new_count
        names = Harm.__slots__
        pairs = ((name, getattr(other, name), getattr(self, name)) for name in names)
        return ", ".join(
            f"{name} {old} -> {new}" for name, old, new in pairs if new > old + more.get(name, 0)
        )


def predicted_harm(root: Path, version: str, conf: Path | None) -> Harm | None:
    """What the start of a broker would cost; None where that cannot be predicted."""
    try:
        store = open_store(root, version=version, broker_conf=conf)
        start = simulate_start(store, version)
    except RocketfsckError:
        return None
    # no producer has a topic that is no text: damage made it, and no further message gets its offsets
    queues = [queue for queue in start.queues if "\ufffd" not in queue.topic]
    return Harm(
        int(not start.loads),
        int(start.queues_destroyed),
        start.losses.cut_record_count + start.losses.astray_count,
        sum(queue.reissued_count for queue in queues),
        sum(queue.shifted_count for queue in queues),
        start.losses.by_queue_count or 0,
        start.losses.by_key_count or 0,
    )
