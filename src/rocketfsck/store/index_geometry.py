"""How many slots and entries the index files of a store have; the files do not record it.

A file's length is 40 + 4 S + 20 N, one equation for two unknowns. What else tells:

* the length is the default one: S = 5,000,000, N = 20,000,000;
* a full file (every one but the last) has indexCount = N;
* the last byte that is not zero belongs to entry indexCount - 1, and only one S of five puts an entry there;
* where indexCount is wrong: the largest slot value is the number of the last entry put, and only a few S make
  the entry that the file's last byte belongs to have that number.

Each pair that follows is tried on the data: entry 0 is zero, an entry's prevIndex is below its number, its
keyHash % S names a slot whose chain starts at it or later, and its predecessor has the same slot.
Reference 4.1, 4.2 and 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import indexfile
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import CHUNK_SIZE, FileReader

MAX_SCAN_SIZE = 1 << 29
"""At most so many bytes are read in search of a file's last byte that is not zero."""

_DEFAULTS = GEOMETRY_DEFAULTS["slot_count"], GEOMETRY_DEFAULTS["entry_count"]
_DEFAULT_SIZE = indexfile.index_file_size(*_DEFAULTS)
_SLOT = indexfile.SLOT.packer()
_ENTRY = indexfile.ENTRY.packer()
_SAMPLE = 128
_BLOCK_SIZE = 4096  # neighbours are read together: an entry or a slot alone costs as much
_MAX_TRIED_FILES = 4
_MAX_TRIED_SIZES = 3
_MIN_SCORE = 0.75


@dataclass(frozen=True, slots=True)
class IndexGuess:
    """Numbers of slots and entries per index file (None: nothing tells), and how they are known.

    `proven`: the entries prove them, or the length does where one of the two is known. `score` is the share
    of what was tried that fits, `file_count` the number of files of this length.
    """

    slot_count: int | None
    entry_count: int | None
    note: str
    proven: bool = False
    score: float = 1.0
    file_count: int = 0


def share_text(count: int, total: int) -> str:
    """How many of all files have something: "1 of 2 files has"."""
    return f"{count:,} of {count_of(total, 'file')} {'has' if count == 1 else 'have'}"


def infer_index_geometry(
    files: Sequence[IndexFile], *, slot_count: int | None = None, entry_count: int | None = None
) -> IndexGuess:
    """Numbers of slots and entries of index files in load order, with what a setting already gives.

    A file that cannot be read tells nothing and raises nothing.
    """
    lengths = Counter(file.size for file in files if _words(file.size) >= 6)
    if not lengths:
        return IndexGuess(None, None, "no index file has a possible length")
    sizes = sorted(lengths, key=lambda size: (lengths[size], size == _DEFAULT_SIZE, size), reverse=True)
    if slot_count is not None or entry_count is not None:
        return _complete(sizes[0], slot_count, entry_count)
    by_size = ([file for file in files if file.size == size] for size in sizes[:_MAX_TRIED_SIZES])
    guesses = [_of_size(alike, len(files)) for alike in by_size]
    proven = [guess for guess in guesses if guess.proven]
    # the most common length; of two as common the one that its entries fit better
    return max(proven, key=lambda guess: (guess.file_count, guess.score), default=guesses[0])


def _of_size(files: Sequence[IndexFile], total: int) -> IndexGuess:
    """What files of one length tell, which are some of `total`."""
    size = files[0].size
    words = _words(size)
    if size == _DEFAULT_SIZE:
        note = f"{share_text(len(files), total)} the default length"
        return IndexGuess(*_DEFAULTS, note, proven=True, file_count=len(files))
    counted = [(file, count) for file in files if (count := _index_count(file)) > 1]
    found = _by_header(files, counted, words)
    if found is None and counted:  # a broker counts an entry after it has put the entry
        found = _by_header(files, [*counted[:-1], (counted[-1][0], counted[-1][1] + 1)], words)
    if found is None:
        found = _by_slots(files, words)
    if found is not None:
        slots, entries, score, how = found
        fits = f"{int(score * 100)} % of the chain heads and links tried fit these numbers"
        note = f"the file has {size:,} bytes; {fits}{how}"
        return IndexGuess(slots, entries, note, proven=True, score=score, file_count=len(files))
    if not counted:
        entries = min(max(1, round(words * 4 / 21)), (words - 1) // 5)
        note = f"the file has {size:,} bytes and no readable entries: the numbers follow the default ratio"
        return IndexGuess(words - 5 * entries, entries, note)
    note = f"the file has {size:,} bytes, but no numbers for that length fit the entries"
    return IndexGuess(None, None, note)


_Fit = tuple[int, int, float, str]
"""Slots, entries, the share of what was tried that fits, and what else is to be said."""


def _by_header(
    files: Sequence[IndexFile], counted: Sequence[tuple[IndexFile, int]], words: int
) -> _Fit | None:
    """The numbers that fit best if the headers' indexCounts are right; None if nothing fits well."""
    tried = (*counted[: _MAX_TRIED_FILES - 1], *counted[_MAX_TRIED_FILES - 1 :][-1:])
    best, best_rank = (0, 0), (-1.0, -1.0)
    for slots, entries in _candidates(words, files, counted) if counted else ():
        scores = [_score(file, count, slots, entries) for file, count in tried]
        # the median first: one damaged file must not change how all the others are read
        rank = sorted(scores)[len(scores) // 2], sum(scores) / len(scores)
        if rank > best_rank:
            best, best_rank = (slots, entries), rank
    return None if best_rank[0] < _MIN_SCORE else (*best, best_rank[0], "")


def _by_slots(files: Sequence[IndexFile], words: int) -> _Fit | None:
    """The numbers that fit best whatever the headers say, from the newest file that has entries."""
    for file in reversed(files):
        end = _used_end(file) - 1
        if end < indexfile.INDEX_HEADER_SIZE + indexfile.SLOT_SIZE:
            continue
        best: _Fit | None = None
        for slots, last in _slots_and_last(file, end):
            entries, rest = divmod(words - slots, indexfile.ENTRY_SIZE // indexfile.SLOT_SIZE)
            score = 0.0 if rest or entries < 1 else _score(file, last + 1, slots, entries)
            if score >= _MIN_SCORE and (best is None or score > best[2]):
                best = slots, entries, score, f"; by its slots, {file.name} has {count_of(last, 'entry')}"
        return best
    return None


def _slots_and_last(file: IndexFile, end: int) -> Iterator[tuple[int, int]]:
    """Every S whose largest slot value is the number of the entry that the byte at `end` belongs to.

    The largest value only rises with S and that number only falls, so that one pass finds all of them.
    """
    import numpy as np

    largest = 0
    try:
        with FileReader(file.location) as reader:
            for pos in range(indexfile.INDEX_HEADER_SIZE, min(end, MAX_SCAN_SIZE), CHUNK_SIZE):
                size = min(CHUNK_SIZE, end - pos) // indexfile.SLOT_SIZE * indexfile.SLOT_SIZE
                values = np.frombuffer(reader.read(pos, size), ">i4").astype(np.int64)
                if not len(values):
                    return
                seen = np.maximum(np.maximum.accumulate(values), largest)
                before = (pos - indexfile.INDEX_HEADER_SIZE) // indexfile.SLOT_SIZE
                slots = before + np.arange(1, len(values) + 1)
                behind = end - indexfile.INDEX_HEADER_SIZE - indexfile.SLOT_SIZE * slots
                last = behind // indexfile.ENTRY_SIZE
                for at in np.flatnonzero((seen == last) & (last > 0)).tolist():
                    yield int(slots[at]), int(last[at])
                largest = int(seen[-1])
                if largest > int(last[-1]):
                    return
    except StoreError:
        return


def _words(size: int) -> int:
    """S + 5 N of a file of that length; negative if no file can have it."""
    can_be = size < 1 << 31 and size % 4 == 0
    return (size - indexfile.INDEX_HEADER_SIZE) // indexfile.SLOT_SIZE if can_be else -1


def _complete(size: int, slots: int | None, entries: int | None) -> IndexGuess:
    words = _words(size)
    if slots is not None:
        other, rest = divmod(words - slots, 5)
        fits, known = rest == 0 and other >= 1, count_of(slots, "slot")
        entries = other if fits else None
    else:
        assert entries is not None
        other = words - 5 * entries
        fits, known = other >= 1, count_of(entries, "entry")
        slots = other if fits else None
    note = f"the file has {size:,} bytes" if fits else f"{size:,} bytes do not fit {known}"
    return IndexGuess(slots, entries, note, proven=fits)


def _index_count(file: IndexFile) -> int:
    try:
        with FileReader(file.location) as reader:
            return indexfile.decode_header(reader.read(0, indexfile.INDEX_HEADER_SIZE)).index_count
    except StoreError:
        return 0


def _candidates(
    words: int, files: Sequence[IndexFile], counted: Sequence[tuple[IndexFile, int]]
) -> Iterator[tuple[int, int]]:
    """Pairs (S, N) of the right sum: full files first, the most common count before others."""
    full = Counter(count for file, count in counted if file is not files[-1])
    likely = [entries for entries, _ in full.most_common(8)]
    for file, count in (counted[-1], counted[0]):
        end = _used_end(file)
        # Entry count - 1 starts at most 19 bytes before `end` and is 20-byte aligned from the file's end.
        likely += [count + (file.size - end) // indexfile.ENTRY_SIZE] if end > 0 else []
    for entries in dict.fromkeys(likely):
        if words - 5 * entries >= 1:
            yield words - 5 * entries, entries


def _used_end(file: IndexFile) -> int:
    """Where a file's zeros at its end begin; 0 if it is all zeros, cannot be read, or they are too many."""
    try:
        with FileReader(file.location) as reader:
            return reader.used_end(limit=MAX_SCAN_SIZE)
    except StoreError:
        return 0


def _score(file: IndexFile, count: int, slots: int, entries: int) -> float:
    """The share of the chain properties tried on a file that hold if it has so many slots and entries."""
    if count > entries:
        return 0.0
    tried = held = 0
    numbers = sorted({*range(1, min(count, _SAMPLE)), *range(max(1, count - _SAMPLE), count)})
    try:
        with FileReader(file.location) as reader:

            @cache
            def block(number: int) -> bytes:
                return reader.read_upto(number * _BLOCK_SIZE, _BLOCK_SIZE + indexfile.ENTRY_SIZE)

            def read(pos: int, size: int) -> bytes:
                number, start = divmod(pos, _BLOCK_SIZE)
                data = block(number)[start : start + size]
                return data if len(data) == size else reader.read(pos, size)

            def entry(number: int) -> tuple[int, int, int, int]:
                data = read(indexfile.entry_pos(number, slots), indexfile.ENTRY_SIZE)
                key_hash, offset, seconds, before, *_ = _ENTRY.unpack(data)
                return key_hash, offset, seconds, before

            tried, held = 8, 8 * (entry(0) == (0, 0, 0, 0))
            for number in numbers:
                key_hash, offset, seconds, before = entry(number)
                slot = indexfile.slot_of(key_hash, slots)
                (head,) = _SLOT.unpack(read(indexfile.slot_pos(slot), indexfile.SLOT_SIZE))
                was_put = (key_hash, offset, seconds, before) != (0, 0, 0, 0)
                sound = was_put and key_hash >= 0 and seconds >= 0 and 0 <= before < number
                tried += 4
                held += sound + 2 * (sound and number <= head < count)
                held += sound and (before == 0 or indexfile.slot_of(entry(before)[0], slots) == slot)
    except StoreError:
        return 0.0
    return held / tried
