"""The sizes that shape a store's files: given in a broker.conf, else inferred from the files, else defaults.

No file records its queue's file size, nor an index file its numbers of slots and entries. What tells: the
length that most files have, the distance between the names of neighbours, and for the index what
`store.index_geometry` finds in the files. Reference 1.2, 3.1, 4.1 and appendix B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rocketfsck.common.wording import count_of
from rocketfsck.formats import consumequeue, indexfile, javatext, timer
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS, Geometry, Settings, Source
from rocketfsck.store.index_geometry import infer_index_geometry, share_text
from rocketfsck.store.model import IndexFile, MappedFile, OtherKind

_MAX_INT = (1 << 31) - 1
_MAX_STARTS = 4096
_ROUND: Mapping[str, tuple[int, ...]] = {
    "commitlog_file_size": (1024,),
    "timerlog_file_size": (1024, timer.TIMER_LOG_UNIT_SIZE),
}
"""Sizes that people set in whole KiB, or in whole units; the others are always multiples of a unit."""
_BLOCK_SIZE = 4096
"""A copy that broke off, or a disk that lost its end, leaves a file of whole blocks."""


PART_SIZES: Mapping[OtherKind, tuple[int, int]] = {
    OtherKind.TIMER_LOG: (GEOMETRY_DEFAULTS["timerlog_file_size"], 1),
    OtherKind.DLEDGER_DATA: (1 << 30, 1),
    OtherKind.DLEDGER_INDEX: (32 * 5 * 1024 * 1024, 32),
    OtherKind.COMPACTION_LOG: (100 << 20, 1),
    OtherKind.COMPACTION_CQ: (10 << 20, consumequeue.BATCH_UNIT_SIZE),
}
"""Default file size in bytes, and the unit that it is a multiple of."""


@dataclass(frozen=True, slots=True)
class SizeSetting:
    """The names that a size has had in broker.conf, and the unit that a broker rounds it up to."""

    names: tuple[str, ...]
    multiple: int = 1


SETTINGS: dict[str, SizeSetting] = {
    "commitlog_file_size": SizeSetting(("mappedFileSizeCommitLog", "mapedFileSizeCommitLog")),
    "consumequeue_file_size": SizeSetting(
        ("mappedFileSizeConsumeQueue", "mapedFileSizeConsumeQueue"), consumequeue.UNIT_SIZE
    ),
    "batch_file_size": SizeSetting(
        ("mapperFileSizeBatchConsumeQueue", "mappedFileSizeBatchConsumeQueue"), consumequeue.BATCH_UNIT_SIZE
    ),
    "ext_file_size": SizeSetting(("mappedFileSizeConsumeQueueExt", "mapedFileSizeConsumeQueueExt")),
    "slot_count": SizeSetting(("maxHashSlotNum",)),
    "entry_count": SizeSetting(("maxIndexNum",)),
    "timerlog_file_size": SizeSetting(("mappedFileSizeTimerLog",)),
}


@dataclass(slots=True)
class _Draft:
    values: dict[str, int] = field(default_factory=lambda: dict(GEOMETRY_DEFAULTS))
    sources: dict[str, Source] = field(default_factory=lambda: dict.fromkeys(GEOMETRY_DEFAULTS, "default"))
    notes: dict[str, str] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)

    def put(self, name: str, value: int, source: Source, note: str = "", *, proven: bool = False) -> None:
        self.values[name] = value
        self.sources[name] = source
        if proven:
            self.proven.add(name)
        self.note(name, note)

    def note(self, name: str, text: str) -> None:
        if text:
            before = self.notes.get(name)
            self.notes[name] = f"{before}; {text}" if before else text


def read_geometry(
    settings: Settings, streams: Mapping[str, Sequence[Sequence[MappedFile]]], indexes: Sequence[IndexFile]
) -> Geometry:
    """The geometry of a store: what `settings` give, else what the files tell, else the defaults.

    `streams` holds the files of every mapped file queue, each sorted by name, by the field of Geometry that
    is their size. A file that cannot be read tells nothing and raises nothing.
    """
    draft = _Draft()
    for name in SETTINGS:
        _read_setting(draft, settings, name)
    for name, files in streams.items():
        _infer_file_size(draft, name, files)
    _infer_index(draft, indexes)
    return Geometry(
        **draft.values,
        sources=draft.sources,
        notes=draft.notes,
        proven=frozenset(draft.proven),
        contradicted=frozenset(draft.contradicted),
    )


def file_size_of(files: Sequence[MappedFile], default: int, multiple: int = 1) -> int:
    """The file size in bytes of one mapped file queue as its files tell it, else `default`."""
    seen = _Seen.of([files])
    return _best_size(seen, multiple, default, round_to=()) or default


def rounded(name: str, text: str) -> str:
    """The size that a broker makes of the text of a setting; the text itself where it is not a size."""
    value, multiple = javatext.parse_int32(text.strip()) or 0, SETTINGS[name].multiple
    return str(-(-value // multiple) * multiple) if value > 0 else text.strip()


def _read_setting(draft: _Draft, settings: Settings, name: str) -> None:
    setting = SETTINGS[name]
    text = settings.get(*setting.names)
    if text is None:
        return
    value = javatext.parse_int32(text.strip()) or 0
    if value <= 0:
        draft.note(name, f"broker.conf says {text[:40]!r}, which is not a positive 32-bit integer")
        return
    size = -(-value // setting.multiple) * setting.multiple
    note = f"{value} in broker.conf, rounded up to a multiple of {setting.multiple}"
    draft.put(name, size, "given", "" if size == value else note)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the files of one kind show: their lengths, the distances between neighbours, where they start."""

    lengths: Counter[int]
    distances: Counter[int]
    starts: frozenset[int]

    @classmethod
    def of(cls, streams: Iterable[Sequence[MappedFile]]) -> _Seen:
        kept = tuple(streams)
        lengths = Counter(file.size for files in kept for file in files)
        distances: Counter[int] = Counter()
        starts: set[int] = set()
        for files in kept:
            places = [file.start_offset or 0 for file in files]
            distances.update(after - before for before, after in pairwise(places))
            if len(starts) < _MAX_STARTS:
                starts.update(places)
        lengths.pop(0, None)  # empty files say nothing; they are reported where files are judged
        return cls(lengths, distances, frozenset(starts))


def _best_size(seen: _Seen, multiple: int, default: int, *, round_to: tuple[int, ...]) -> int | None:
    """The size that most lengths, distances and starts speak for; None if none looks like a setting.

    One length, or distance, that nothing else supports and that is a multiple of none of `round_to` is that
    of a cut or strange file rather than a setting.
    """
    scores = {
        size: (seen.lengths[size] + seen.distances[size]) * _aligned_share(seen.starts, size)
        for size in (*seen.lengths, *seen.distances)
        if 0 < size <= _MAX_INT and size % multiple == 0
    }

    def is_likely(size: int) -> bool:
        is_odd = bool(round_to) and all(size % unit for unit in round_to)
        return scores[size] > 1 or (scores[size] > 0 and not is_odd)

    likely = filter(is_likely, scores)
    return max(likely, key=lambda size: (scores[size], size == default, size), default=None)


def _infer_file_size(draft: _Draft, name: str, streams: Iterable[Sequence[MappedFile]]) -> None:
    seen = _Seen.of(streams)
    if not seen.lengths and not seen.distances:
        return
    best = _best_size(seen, SETTINGS[name].multiple, GEOMETRY_DEFAULTS[name], round_to=_ROUND.get(name, ()))
    proven = best is not None and _is_proven(seen, name, best)
    if draft.sources[name] == "given":
        _note_contradiction(draft, name, seen.lengths, draft.values[name])
        if proven and best != draft.values[name]:
            draft.contradicted.add(name)
        return
    if best is None:
        lengths = ", ".join(str(size) for size in sorted(seen.lengths)[:4]) or "none"
        draft.note(name, f"the sizes of the files ({lengths}) do not look like a setting")
        return
    note = f"{share_text(seen.lengths[best], seen.lengths.total())} {best:,} bytes"
    if seen.distances:
        total = count_of(seen.distances.total(), "distance")
        note += f"; {seen.distances[best]:,} of {total} between neighbors fit"
    draft.put(name, best, "inferred", note, proven=proven)


def _is_proven(seen: _Seen, name: str, size: int) -> bool:
    """Whether the files prove that a size is the setting: one file alone may have been cut.

    Two files, or two neighbours, of one size prove it, as long as no other size has as many; so does a name
    that counts in that size, the default, and the length of a queue's file that no broken copy leaves.
    """
    facts = seen.lengths + seen.distances
    if any(facts[other] >= facts[size] for other in facts if other != size):
        return False
    counted = any(seen.starts) and _aligned_share(seen.starts, size) == 1
    odd = name not in _ROUND and size % _BLOCK_SIZE != 0
    return facts[size] > 1 or counted or odd or size == GEOMETRY_DEFAULTS[name]


def _aligned_share(starts: frozenset[int], size: int) -> float:
    """How many of the files' starts are multiples of `size`, as they are when it is the file size."""
    return sum(start % size == 0 for start in starts) / len(starts) if starts else 1.0


def _note_contradiction(draft: _Draft, name: str, lengths: Counter[int], given: int) -> None:
    if lengths and given not in lengths:
        common, count = lengths.most_common(1)[0]
        draft.note(name, f"{share_text(count, lengths.total())} {common:,} bytes, not {given:,}")


def _infer_index(draft: _Draft, indexes: Sequence[IndexFile]) -> None:
    given = {name for name in ("slot_count", "entry_count") if draft.sources[name] == "given"}
    if len(given) == 2 or not any(file.size for file in indexes):
        if len(given) == 2:
            size = indexfile.index_file_size(draft.values["slot_count"], draft.values["entry_count"])
            lengths = Counter(file.size for file in indexes if file.size)
            if lengths and size not in lengths:
                if max(lengths.values()) > 1:
                    draft.contradicted |= given
                _note_contradiction(draft, "slot_count", lengths, size)
        return
    known = {name: draft.values[name] for name in given}
    guess = infer_index_geometry(indexes, **known)
    for name, value in (("slot_count", guess.slot_count), ("entry_count", guess.entry_count)):
        if name in given:
            continue
        if value is None:
            draft.note(name, guess.note)
        else:
            draft.put(name, value, "inferred", guess.note, proven=guess.proven)
