"""Which directories hold the commit log, and how that is known.

    given by the caller         taken as they are
    named in broker.conf        storePathCommitLog, readOnlyCommitLogStorePaths; `,` between several
    directories in the root     two or more whose files are one log, if nothing else can be meant
    <root>/commitlog            the default

A broker leaves no list of its paths (reference 1.3). Directories of other names are the log only where
records begin their files, each at the place that it names; where no place is there twice; and where the
directories take turns, or no place is missing and there is no `commitlog/`. A directory with such
records that does not pass is doubtful: it is named and not read, and the caller must say what is meant.

The commit log of a store that uses DLedger: its data files, behind the plain ones if there are any.

    log := plain file* , data file of DLedger's *       the first data file's name is the divided offset

A broker reads what is below that offset from `commitlog/`, and all else from DLedger's files. Both count in
one stream of physical offsets, with files of one length. Reference 2.14.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import RECORD_HEADER
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.store.areas import Lister, absolute_path, is_directory, list_directory
from rocketfsck.store.circumstances import Evidence, LogPlaces, Settings, setting_path
from rocketfsck.store.model import MappedFile, MappedFileQueue, Other, OtherKind, Store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import FileReader

_WHAT = "DLedger keeps the commit log"


def dledger_files(others: Sequence[Other]) -> tuple[MappedFile, ...]:
    """DLedger's data files; none where several directories have some, as then nothing says which is read."""
    found = [other.mapped_files.files for other in _data(others) if other.mapped_files is not None]
    return found[0] if len(found) == 1 else ()


def with_dledger(
    commitlog: MappedFileQueue, others: Sequence[Other], settings: Settings
) -> tuple[MappedFileQueue, tuple[Evidence, ...]]:
    """The commit log with DLedger's data files in it, and the note that says so.

    The log stays plain where the broker.conf turns DLedger off, where several nodes have data files in this
    store, and where plain files lie at or after the first data file: then nothing says which a broker reads.
    """
    files = tuple(file for file in dledger_files(others) if file.start_offset is not None)
    if not files or not settings.flag("enableDLegerCommitLog", True):
        return commitlog, ()
    divided = files[0].start_offset or 0
    if any((file.start_offset or 0) + file.size > divided for file in commitlog.files):
        why = "the files of commitlog/ overlap those of DLedger"
        return commitlog, (Evidence("the commit log is plain", why),)
    joined = (*commitlog.files, *(replace(file, in_entries=True) for file in files))
    place = files[0].relative.rpartition("/")[0]
    why = f"below {divided} the commit log is plain" if commitlog.files else place
    return replace(commitlog, files=joined), (Evidence(_WHAT, why),)


def without_entries(store: Store) -> Store:
    """The store with its plain commit log files alone, as a broker sees it that does not use DLedger."""
    plain = tuple(file for file in store.commitlog.files if not file.in_entries)
    return replace(store, commitlog=replace(store.commitlog, files=plain)) if store.has_entries else store


def _data(others: Sequence[Other]) -> list[Other]:
    return [other for other in others if other.kind is OtherKind.DLEDGER_DATA and other.files]


SETTINGS = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
OWN = "commitlog"
PROBED = 3
"""Files whose first record is read at either end of a directory."""

_HEAD = RECORD_HEADER.packer(last="physicalOffset")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A directory in the root: starts and lengths of its files, and whether records prove it a log's."""

    name: str
    location: str
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    proven: bool


def commitlog_places(
    lister: Lister,
    entries: Sequence[DirectoryEntry],
    settings: Settings,
    given: Sequence[Path],
    known: frozenset[str],
) -> LogPlaces:
    """The directories of the commit log of the store that `lister` lists; `entries` are those of its root.

    `known` are the names of directories that hold other things. Raises StoreError for a given path that is
    not a directory. Settings of another machine often name directories that are not here: then the store's
    own are read.
    """
    if given:
        for path in given:
            if not is_directory(path):
                raise StoreError("is not a directory", path=os.fspath(path))
        return LogPlaces(tuple(dict.fromkeys(map(absolute_path, given))))
    root = path_of(lister.root)
    found, notes = _named(root, settings)
    if found:
        notes.append(Evidence("the commitlog's directories", "broker.conf names the directories"))
        return LogPlaces(tuple(dict.fromkeys(found)), tuple(notes))
    if settings.path is not None and not notes:  # it is the default that this broker goes by
        return LogPlaces((root / OWN,))
    inferred, doubtful = _infer(list(_candidates(lister, entries, known)), entries)
    if inferred:
        why = "the files form one log, as their records show; no setting names the directories"
        notes.append(Evidence(f"the commitlog is in {', '.join(inferred)}", why))
        return LogPlaces(tuple(root / name for name in inferred), tuple(notes), inferred=True)
    if notes:
        notes.append(Evidence("the commitlog's directory", "commitlog/ in the store is read instead"))
    notes += [Evidence(f"{name} may belong to the commitlog", why) for name, why in doubtful]
    return LogPlaces((root / OWN,), tuple(notes), doubtful=doubtful)


def _named(root: Path, settings: Settings) -> tuple[list[Path], list[Evidence]]:
    """The directories that settings name and that are here; and what was found out about the others."""
    said = settings.values.get("storePathRootDir", "")
    found: list[Path] = []
    notes: list[Evidence] = []
    for key in SETTINGS:
        for path in _split_paths(settings.values.get(key, "")):
            here = in_root(path, said, root)
            if here is not None:
                found.append(here)
            elif not is_remote(root) and is_directory(path):
                found.append(path)
            else:
                notes.append(Evidence(f"{key} names {path}", "there is no such directory here"))
    return found, notes


def in_root(path: Path, said: str, root: Path) -> Path | None:
    """Where a path below storePathRootDir is in this store, which may be a copy; None: not there."""
    if not said:
        return None
    try:
        below = path.relative_to(setting_path(said.strip()))
    except ValueError:
        return None
    place = root / below
    return place if below.parts and ".." not in below.parts and is_directory(place) else None


def _split_paths(value: str) -> list[Path]:
    """The paths in a setting with the separator `,`; brokers before 4.9.2 took all of it as one path."""
    whole = setting_path(value)
    if value and is_directory(whole):
        return [whole]
    return [setting_path(part.strip()) for part in value.split(",") if part.strip()]


def _candidates(
    lister: Lister, entries: Sequence[DirectoryEntry], known: frozenset[str]
) -> Iterator[_Candidate]:
    """The directories in the root that hold mapped files, `commitlog` and those of unknown names."""
    directories = [entry for entry in entries if entry.kind is EntryKind.DIRECTORY]
    unknown = [entry for entry in directories if entry.name not in known and entry.name != OWN]
    own = [entry for entry in directories if entry.name == OWN]
    for entry in (*own, *unknown) if unknown else ():
        files = sorted(
            (offset, file.size, file.path)
            for file in _listed(lister, entry)
            if file.kind is EntryKind.FILE and (offset := filename_to_offset(file.name)) is not None
        )
        if files:
            starts, sizes, _ = zip(*files, strict=True)
            proofs = [_begins_with(path, start) for start, _, path in {*files[:PROBED], *files[-PROBED:]}]
            yield _Candidate(entry.name, entry.path, starts, sizes, True in proofs and False not in proofs)


def _listed(lister: Lister, entry: DirectoryEntry) -> list[DirectoryEntry]:
    try:
        return list_directory(entry.path) if lister.tree is None else lister.tree.entries(entry.path)
    except StoreError:
        return []


def _begins_with(path: str, start: int) -> bool | None:
    """Whether the record that a file begins with says that it is at `start`; None: no record begins it."""
    try:
        with FileReader(path) as reader:
            head = reader.read_upto(0, _HEAD.size)
    except StoreError:
        return None
    if len(head) < _HEAD.size:
        return None
    _, magic, _, _, _, _, physical_offset = _HEAD.unpack(head)
    return physical_offset == start if magic in (MAGIC_V1, MAGIC_V2) else None


def _infer(
    candidates: Sequence[_Candidate], entries: Sequence[DirectoryEntry]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The directories that are the log, none without certainty; and the doubtful ones, with reasons."""
    proven = [candidate for candidate in candidates if candidate.proven]
    others = [candidate for candidate in proven if candidate.name != OWN]
    if not others:
        return (), ()
    beside = any(entry.name == OWN for entry in entries)
    own = {start for candidate in proven if candidate.name == OWN for start in candidate.starts}
    starts = sorted(start for candidate in proven for start in candidate.starts)
    size = Counter(length for candidate in proven for length in candidate.sizes).most_common(1)[0][0]
    reason = ""
    if beside and not own:
        reason = "the directory holds a commit log, but commitlog/ exists and is empty"
    elif len(proven) < 2:
        reason = "the directory holds a commit log, but is the only one, and not named commitlog"
    elif len(set(starts)) < len(starts):
        reason = "the directory holds a commit log, but another directory has files for the same offsets"
    elif not size or any((start - starts[0]) % size for start in starts):
        reason = "the directory holds a commit log, but its offsets do not fit those of the other directories"
    elif not _take_turns(proven) and (beside or any(b - a != size for a, b in pairwise(starts))):
        reason = "the directory holds a commit log, but perhaps not the same one as the others"
    if not reason:
        return tuple(candidate.name for candidate in proven), ()
    copies = [other.name for other in others if own.issuperset(other.starts)]
    return (), tuple((other.name, reason) for other in others if other.name not in copies)


def _take_turns(candidates: Sequence[_Candidate]) -> bool:
    """Whether the range of each directory overlaps with that of another."""

    def overlap(one: _Candidate, other: _Candidate) -> bool:
        return other is not one and other.starts[0] < one.starts[-1] and one.starts[0] < other.starts[-1]

    return all(any(overlap(one, other) for other in candidates) for one in candidates)
