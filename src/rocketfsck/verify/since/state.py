"""The state file of `check --since`: what earlier checks read, when, and what they found of it.

The file is small, safe to lose and replaced as a whole. What it says counts for the same store, options and
version of rocketfsck only, and of each file only as far as the file proves to be what it was.
A state that is damaged or of something else is a reason to check everything.

Whether a file, or its first part, is what an earlier check read, without reading all of it again.

    sealed    nobody writes to the file any more: name, inode, size, mtime, and samples of its bytes
    growing   the part `start:end` was written before: name, inode, size, and samples of that part
    object    the version (ETag) that the listing names: a request for no file

Samples are the first and the last block of the part and, of a longer one, blocks evenly in between. A change
of old bytes between two samples that leaves the mtime alone is not seen here, but by the check that reads
all (`--scrub`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocketfsck._version import __version__
from rocketfsck.common.documents import LIMITS, printable
from rocketfsck.common.outputs import write_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.model import StoreFile
from rocketfsck.store.places.urls import Location, is_remote
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.verify.index.entryfeed import IndexExtent
from rocketfsck.verify.tasks.task import IndexKnown, QueueKnown

BLOCK_SIZE = 1 << 12
STEP_SIZE = 1 << 20
"""A part has another sample for each so many bytes."""
MOST_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class FileProof:
    """What the bytes `start:end` of a file are known by; `file` is its name below the store. Of an object,
    `sample_digest` is the ETag."""

    file: str
    inode: int
    size: int
    mtime_ns: int
    start: int
    end: int
    is_sealed: bool
    sample_digest: str


def prove_file(file: StoreFile, start: int, end: int, *, is_sealed: bool) -> FileProof:
    """The proof of a file whose bytes `start:end` were checked. Raises StoreError where it cannot be read."""
    if isinstance(file.location, Location):
        if not file.location.etag:
            raise StoreError("has no version (ETag) to go by", path=str(file.location))
        return FileProof(
            file.relative, 0, file.size, file.mtime_ns, start, end, is_sealed, file.location.etag
        )
    with named_errors(file.location, "cannot be read"):
        inode = os.stat(file.location).st_ino  # noqa: PTH116 - making a Path takes as long again
    digest = sample_digest(file.location, start, end)
    return FileProof(file.relative, inode, file.size, file.mtime_ns, start, end, is_sealed, digest)


def renewed(known: FileProof | None, file: StoreFile, start: int, end: int, *, is_sealed: bool) -> FileProof:
    """As `prove_file`; `known` is a proof that holds, if there is one.

    Where that proof covers the same part, its samples were just read.
    """
    if known is None or (known.start, known.end) != (start, end):
        return prove_file(file, start, end, is_sealed=is_sealed)
    return replace(known, size=file.size, mtime_ns=file.mtime_ns, is_sealed=is_sealed)


def holds(proof: FileProof, file: StoreFile) -> bool:
    """Whether the part of the file is still what the proof covers."""
    inside = 0 <= proof.start <= proof.end <= file.size
    if (file.relative, file.size) != (proof.file, proof.size) or not inside:
        return False
    if isinstance(file.location, Location):
        return bool(file.location.etag) and file.location.etag == proof.sample_digest
    if proof.is_sealed and file.mtime_ns != proof.mtime_ns:
        return False
    try:
        same = os.stat(file.location).st_ino == proof.inode  # noqa: PTH116 - as above
        return same and sample_digest(file.location, proof.start, proof.end) == proof.sample_digest
    except (OSError, StoreError):
        return False


def sample_digest(location: str, start: int, end: int) -> str:
    """Hex digest of blocks of the bytes `start:end` of a file. Raises StoreError."""
    digest = hashlib.blake2b(digest_size=16)
    span = max(end - start - BLOCK_SIZE, 0)
    count = min((end - start) // STEP_SIZE + 2, MOST_SAMPLES)
    with FileReader(location) as reader:
        for pos in sorted({start + span * number // (count - 1) for number in range(count)}):
            digest.update(reader.read(pos, min(BLOCK_SIZE, end - pos)))
    return digest.hexdigest()


KIND: Literal["rocketfsck.since"] = "rocketfsck.since"
_HEAD = f'{{"kind": "{KIND}"'.encode("ascii")


@dataclass(frozen=True, slots=True)
class LogState:
    """A commit log file: its result in the form of `jsonform`; `read_timestamp` is when all was read (ms)."""

    proof: FileProof
    read_timestamp: int
    result: Any


@dataclass(frozen=True, slots=True)
class KnownQueue:
    """A consume queue. Without `known` nothing can go on from it; the results of log files name it by place.

    `proofs` cover the files that hold the units known, in order; without `known` all files.
    """

    topic: str
    queue_id: int
    queue_kind: str
    read_timestamp: int
    known: QueueKnown | None = None
    proofs: tuple[FileProof, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index file. Without `known` nothing can go on from it; its entries are what they were.

    `extent` has the notes on its keys (`verify.since.proving`).
    """

    proof: FileProof
    read_timestamp: int
    known: IndexKnown | None = None
    extent: IndexExtent | None = None


@dataclass(frozen=True, slots=True)
class SinceState:
    """All that the file says. `written_timestamp` is the start of the check that wrote it (ms).

    `due_byte_count`: so many bytes of what was read before are due to be read again; less than 0 where more
    was read than was due.
    """

    kind: Literal["rocketfsck.since"]
    schema_version: Literal[1]
    tool_version: str
    identity: str
    written_timestamp: int
    logs: Sequence[LogState] = ()
    queues: Sequence[KnownQueue] = ()
    indexes: Sequence[IndexState] = ()
    due_byte_count: int = 0
    digest: str = ""


def read_state(path: Path, identity: str) -> SinceState | str:
    """The state in a file; or why it does not help, "" where there is none yet.

    Raises UsageError for a file that is not a state at all and would be overwritten, StoreError for one that
    cannot be read.
    """
    try:
        data = _kept(path)
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error
    if isinstance(data, str):
        return data
    try:
        state = msgspec.convert(json.loads(data), SinceState)
    except (ValueError, RecursionError):
        return "the state file is damaged, or another version of rocketfsck wrote it"
    if state.tool_version != __version__:
        return f"rocketfsck {printable(state.tool_version)} wrote the state file"
    if state.identity != identity:
        return "the state file belongs to another store, or to a check with other options"
    if state.digest != _digest_of(state):
        return "the state file has changed since a check wrote it"
    return state


def _kept(path: Path) -> bytes | str:
    """The bytes of a state file; or why they do not help. Raises as `read_state`."""
    limit = LIMITS["since state"]
    if is_remote(path):
        from rocketfsck.store.places.remote import get_remote

        data = get_remote(os.fspath(path), limit + 1)
        if data is None:
            return ""
        _demand_state(path, data[: len(_HEAD)])
        return data if len(data) <= limit else f"the state has more than {limit:,} bytes"
    if not path.exists():
        return ""
    with FileReader(path) as reader:
        _demand_state(path, reader.read_upto(0, len(_HEAD)))
        if reader.size > limit:
            return f"the state file has {reader.size:,} bytes, more than {limit:,}"
        return reader.read(0, reader.size)


def _demand_state(path: Path, head: bytes) -> None:
    if head and head != _HEAD:
        raise UsageError(f"{printable(str(path))}: is not a state that check --since wrote")


def write_state(path: Path, state: SinceState) -> None:
    """Replace the file, or the object, whole or not at all. Raises StoreError."""
    text = _text(replace(state, digest=_digest_of(state))) + "\n"
    if is_remote(path):
        from rocketfsck.store.places.remote import put_remote

        put_remote(os.fspath(path), text.encode("ascii"))
    else:
        write_text(path, text)


def _digest_of(state: SinceState) -> str:
    return hashlib.sha256(_text(replace(state, digest="")).encode("ascii")).hexdigest()


def _text(state: SinceState) -> str:
    """As JSON in ASCII: names that are not UTF-8 have surrogates."""
    return json.dumps(msgspec.to_builtins(state))
