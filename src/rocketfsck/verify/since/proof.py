"""Whether a file, or its first part, is what an earlier check read, without reading all of it again.

    sealed    nobody writes to the file any more: name, inode, size, mtime, and samples of its bytes
    growing   the part `start:end` was written before: name, inode, size, and samples of that part

Samples are the first and the last block of the part and, of a longer one, blocks evenly in between. A change
of old bytes between two samples that leaves the mtime alone is not seen here, but by the check that reads
all (`--scrub`).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace

from rocketfsck.errors import StoreError
from rocketfsck.store.model import StoreFile
from rocketfsck.store.reading import FileReader, named_errors

BLOCK_SIZE = 1 << 12
STEP_SIZE = 1 << 20
"""A part has another sample for each so many bytes."""
MOST_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class FileProof:
    """What the bytes `start:end` of a file are known by; `file` is its name below the store."""

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
