"""What to do before a repair or a start: advice of one sentence that follows from where the files are.

a setting that the files contradict    set it right: the store is not wrong
no commit log, or files missing        look for them, on a disk that is not mounted, say
files with another name, compressed    give them their names back
files at another place                 put them back, or name the place
files in pieces                        join them
something else under their names       put the right ones back
records at other places of a file      salvage them
files of another store, older copies   put the right ones back
config/ missing                        copy it back

What of the commit log lies where no broker looks for it, and files there that are something else.

    name of 20 digits, a record or a BLANK first    a commit log file, wherever it is
    signature of gzip, Zstandard …                  a compressed file
    letters and line ends only                      a text: an error page, a pointer, another program's log

Looked for where messages are lost, in what the listing of the store cannot place. Reference 1.1, 2.8.

A sound record of a lost message that is in a file of the log, but not at its own physical offset, is
displaced: a tool put bytes in front of it or left some out, or pages of the file changed places.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, visible
from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, magic, record, smallfiles
from rocketfsck.repair.carve.carve import carved_rows
from rocketfsck.scan.columns import Fault, new_batch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.areas import list_directory
from rocketfsck.store.model import MappedFile, Store, Stray, StrayReason
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding, MessageAccount

PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"\x04\x22\x4d\x18", b"PK\x03\x04")
"""What files of gzip, Zstandard, xz, bzip2, LZ4 and ZIP begin with."""
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}
_TEXT_SIZE = 32
_LOOKED_AT = 64
"""Directories, names in one, and files that are looked at."""
_CARVED_SIZE = 4 << 30
"""Bytes of damaged commit log files that are searched for displaced records."""
_NONE = np.empty(0, np.int64)


def mislaid_files(store: Store) -> tuple[list[str], list[str]]:
    """Commit log files at other places that the log lacks, and directories that have some: paths below the
    root. What cannot be read is passed over."""
    known = {file.start_offset for file in store.commitlog.files}
    found = [file.relative for file in store.indexes if _is_missing_log(file.path, known)]
    directories = []
    for stray in store.strays[:_LOOKED_AT]:
        if stray.reason in (StrayReason.NAME, StrayReason.UNKNOWN) and _is_missing_log(stray.path, known):
            found.append(stray.relative)
        elif stray.reason in (StrayReason.DIRECTORY, StrayReason.UNKNOWN) and not stray.size:
            directories.append(stray)
    return found, [f"{item.relative}/" for item in directories if any(_missing_logs(item.path, known))]


def _missing_logs(directory: Path, known: set[int | None]) -> Iterator[bool]:
    try:
        entries = list_directory(directory)
    except StoreError:
        return
    named = (entry.path for entry in entries if smallfiles.filename_to_offset(entry.name) is not None)
    for path in islice(named, _LOOKED_AT):
        yield _is_missing_log(path_of(path), known)


def _is_missing_log(path: Path, known: set[int | None]) -> bool:
    offset = smallfiles.filename_to_offset(path.name)
    if offset is None or offset in known:
        return False
    head = _head(path, magic.BLANK_HEADER_SIZE)
    return len(head) == magic.BLANK_HEADER_SIZE and record.read_frame(head)[1] in (
        magic.MAGIC_V1,
        magic.MAGIC_V2,
        magic.MAGIC_BLANK,
    )


def files_of_lost(store: Store, account: MessageAccount) -> list[MappedFile]:
    """The commit log files in which lost messages were, in order."""
    places = sorted(
        run.first_physical_offset for run in account.lost if run.first_physical_offset is not None
    )
    found = []
    for file in store.commitlog.files:
        start = file.start_offset or 0
        first = bisect_left(places, start)
        if first < len(places) and places[first] < start + store.geometry.commitlog_file_size:
            found.append(file)
    return found[:_LOOKED_AT]


def displaced_records(store: Store, account: MessageAccount) -> tuple[int, list[str]]:
    """How many lost messages have their record in a file of the log, but not at its own physical offset, and
    in which files. What cannot be read is passed over."""
    count, names, size_left = 0, [], _CARVED_SIZE
    starts, ends = _places_of_lost(account)
    for file in files_of_lost(store, account):
        size_left -= file.size
        if size_left < 0:
            break
        own = displaced_in(file)
        lost = own[own <= ends[np.searchsorted(starts, own, side="right")]]
        if len(lost):
            count += len(lost)
            names.append(file.relative)
    return count, names


def displaced_in(file: MappedFile) -> dtypes.Longs:
    """The physical offsets of sound records that are in a file, but not there; without those of which the
    file has another at the right place. Of a file that cannot be read there are none."""
    away, at_place = [_NONE], [_NONE]
    try:
        with FileReader(file.location) as reader:
            for rows, _ in carved_rows(reader, new_batch(), QueueTable()):
                own = rows["physical_offset"]
                is_right = own == rows["pos"] + (file.start_offset or 0)
                is_sound = (rows["faults"] & int(Fault.BODY_CRC)) == 0
                away.append(own[is_sound & ~is_right])
                at_place.append(own[is_sound & is_right])
    except StoreError:
        return _NONE
    displaced: dtypes.Longs = np.setdiff1d(np.concatenate(away), np.concatenate(at_place))
    return displaced


def _places_of_lost(account: MessageAccount) -> tuple[dtypes.Longs, dtypes.Longs]:
    """Where ranges of lost messages begin, rising; and the last place of the ranges before the first, before
    the second, and so on."""
    bounds = sorted(
        (run.first_physical_offset, run.last_physical_offset)
        for run in account.lost
        if run.first_physical_offset is not None and run.last_physical_offset is not None
    )
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    return starts, np.concatenate(([-1], np.maximum.accumulate(ends)))


def is_packed(path: Path) -> bool:
    """Whether it is a compressed file."""
    return _head(path, max(map(len, PACKED))).startswith(PACKED)


def is_text(path: Path) -> bool:
    """Whether it begins like a text: a record begins with its size, and no size begins with a letter."""
    head = _head(path, _TEXT_SIZE)
    return len(head) == _TEXT_SIZE and _TEXT.issuperset(head)


def _head(path: Path, size: int) -> bytes:
    try:
        with FileReader(path) as reader:
            return reader.read_upto(0, size)
    except StoreError:
        return b""


WRONG_SETTING = (
    "set mappedFileSizeCommitLog={size} first, and check again: the commit log files show that this is their "
    "size, and a repair would change the files to fit a wrong setting"
)
MISSING_LOG = (
    "find the commit log first (is its disk not mounted, or storePathCommitLog another?), and check again: a "
    "broker that starts without the log may delete the queues"
)
MISSING_FILES = (
    "look for the missing commit log files first (is a disk not mounted?): once a repair has filled the gap, "
    "they cannot be put back"
)
UNFINISHED = "copy the file again of which {files} is an unfinished copy, and check again"
_UNFINISHED_NAME = re.compile(r"\.\d{20}\.\w{6}|\d{20}\.(?:part|partial|filepart|tmp)")
"""What rsync, and other programs that copy, call a file that is not whole yet."""
_DIGITS = re.compile(r"\d{1,20}")
COMPRESSED = (
    "uncompress {files} in its place first, and check again: the store seems to need what is in there"
)
SHORT_NAME = (
    "rename {files} first, so that the name has 20 digits, and check again: the store seems to need what is "
    "in there"
)
MISLAID = (
    "move {files} to the directory of the commit log first, and check again: the store seems to need what is "
    "in there"
)
MISLAID_DIRECTORY = MISLAID.replace("move {files}", "move the files of {files}")
OTHER_LOG = (
    "say with --commitlog-path where the commit log is (in {files}?), or move its files to commitlog/, and "
    "check again"
)
SPLIT = "join {files} first, and check again: these are the parts of one commit log file"
_PART_NAME = re.compile(r"\d{20}\.?(?:part)?[-_]?(?:[a-z]{2}|\d{1,3})")
"""What split, and programs like it, call the pieces of a file."""
TEXT = "put the right {files} back first, and check again: what has its name is a text"
EMPTY_LOG = (
    "look for the commit log first, and check again: none of its messages is in the files that are here (is "
    "a copy not finished, or a disk not mounted?)"
)
DISPLACED = (
    "salvage the store first: {files} has {messages} at wrong places, and a repair overwrites what is there"
)
MISSING_FIRST = (
    "look for the first commit log files first (is a disk not mounted?): a running broker deletes what "
    "queues and index still have of them"
)
MISSING_LAST = (
    "look for the last commit log files first (is a disk not mounted?): once a broker has written in their "
    "place, they cannot be put back"
)
OLDER_LOG = (
    "look for the newer copy of the commit log first: once a broker has written at these offsets, it cannot "
    "be put back"
)
OLDER_FILES = (
    "look for the newer copy of {files} first: once a repair has filled the gap, it cannot be put back"
)
FOREIGN_FILES = (
    "put the right {files} back first: a repair cannot make the messages of a file that is not there"
)
FOREIGN_LOG = "put the right commit log back first: queues and index know other messages than this log has"
FOREIGN_QUEUES = (
    "find out first whether the log or the queues are this broker's: a repair builds all queues from this log"
)
MISSING_CONFIG = (
    "copy config/ back first: a repair can make the topics again, with default settings, but no consumer "
    "offsets and no groups"
)
FOREIGN_TOPICS = "put the right config/topics.json back first: most topics of this store are not in it"

_BY_ORIGIN: Mapping[str, str] = {
    RuleName.LOG_FILE_FOREIGN: FOREIGN_FILES,
    RuleName.LOG_FOREIGN: FOREIGN_LOG,
    RuleName.QUEUES_FOREIGN: FOREIGN_QUEUES,
    RuleName.LOG_FILE_OLDER: OLDER_FILES,
    RuleName.LOG_OLDER: OLDER_LOG,
}
"""What to do before a repair, by what is known of where files come from."""


class Advice(NamedTuple):
    """What to do before anything else, "" for nothing. `is_mended_by_hand`: then a check says what is left,
    and no other copy is needed. `is_salvage`: to salvage is what to do."""

    text: str = ""
    is_mended_by_hand: bool = False
    is_salvage: bool = False


def advice_on(
    store: Store, account: MessageAccount | None, origins: Sequence[Finding], rules: Collection[str] = ()
) -> Advice:
    """What to think of before anything is done; `origins` say where damaged files come from, `rules` are
    those that were broken."""
    if "commitlog_file_size" in store.geometry.contradicted:
        ((size, _),) = Counter(file.size for file in store.commitlog.files).most_common(1)
        return Advice(WRONG_SETTING.format(size=size), is_mended_by_hand=True)
    if account is None:
        return Advice()
    for rule, text in _BY_ORIGIN.items():
        files = [finding.where.file for finding in origins if finding.rule == rule]
        if files:
            return Advice(text.format(files=_named(files)))
    count, files = displaced_records(store, account)
    if count:
        text = DISPLACED.format(files=_named(files), messages=count_of(count, "lost message"))
        return Advice(text, is_salvage=True)
    is_gone = not store.commitlog.files and account.count("lost") > 0
    missing = any(tally.why == "missing file" for tally in account.tallies)
    lacks_last = _lacks_last_file(store, account)
    strays = [item for item in store.strays if item.area == "commitlog" and item.reason is StrayReason.NAME]
    if not (is_gone or missing or lacks_last):
        strays = [item for item in strays if _is_before(store, item)]
    for text, files in _by_hand(store, account, strays, misses_files=is_gone or missing or lacks_last):
        if files:
            return Advice(text.format(files=_named(files)), is_mended_by_hand=True)
    if is_gone:
        return Advice(MISSING_LOG, is_mended_by_hand=True)
    if account.count("lost") and not account.fates.in_log_count:
        return Advice(EMPTY_LOG, is_mended_by_hand=True)
    if RuleName.LOG_BEGINNING_GONE in rules and RuleName.SEGMENT_GAP not in rules:
        return Advice(MISSING_FIRST)
    if missing:
        return Advice(MISSING_FILES)
    if lacks_last:
        return Advice(MISSING_LAST)
    if RuleName.TOPICS_FOREIGN in rules:
        return Advice(FOREIGN_TOPICS, is_mended_by_hand=True)
    lacks_config = RuleName.TOPICS_GONE in rules and not store.configs
    return Advice(MISSING_CONFIG, is_mended_by_hand=True) if lacks_config else Advice()


def _by_hand(
    store: Store, account: MessageAccount, strays: Sequence[Stray], *, misses_files: bool
) -> Iterator[tuple[str, list[str]]]:
    """What can be done by hand, and with which files: in their place, next to it, elsewhere."""
    in_place = files_of_lost(store, account)
    yield TEXT, [file.relative for file in in_place if is_text(file.path)]
    yield COMPRESSED, [file.relative for file in in_place if is_packed(file.path)]
    parts = [stray.relative for stray in strays if _PART_NAME.fullmatch(stray.path.name)]
    yield SPLIT, parts if len(parts) > 1 else []
    yield UNFINISHED, [stray.relative for stray in strays if _is_unfinished(stray)]
    yield COMPRESSED, [stray.relative for stray in strays if is_packed(stray.path)]
    yield SHORT_NAME, [stray.relative for stray in strays if _is_number(stray)]
    if misses_files:
        files, directories = mislaid_files(store)
        yield MISLAID, files
        doubtful = {f"{name}/" for name, _ in store.log_places.doubtful}
        yield OTHER_LOG, [] if store.commitlog.files else [name for name in directories if name in doubtful]
        yield MISLAID_DIRECTORY, directories


def _named(files: Sequence[str]) -> str:
    first = visible(files[0])
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _is_before(store: Store, stray: Stray) -> bool:
    """Whether it is the file, under another name, that ends where the log begins."""
    digits = _DIGITS.search(stray.path.name)
    first = store.commitlog.files[0].start_offset if store.commitlog.files else None
    if digits is None or not first:
        return False
    return int(digits[0]) + store.geometry.commitlog_file_size == first


def _is_number(stray: Stray) -> bool:
    """Whether the name is a number of fewer digits: people and tools shorten it."""
    return stray.path.name.isdecimal() and stray.path.name.isascii()


def _is_unfinished(stray: Stray) -> bool:
    return _UNFINISHED_NAME.fullmatch(stray.path.name) is not None


def _lacks_last_file(store: Store, account: MessageAccount) -> bool:
    """Whether units lead into the commit log file after the last one.

    What a power cut takes is in files that are there, since brokers make a file before they write to it. A
    single message may be a damaged unit.
    """
    size = store.geometry.commitlog_file_size
    end = max(((file.start_offset or 0) + size for file in store.commitlog.files), default=0)
    behind = range(end, end + size)
    return (
        end > 0
        and sum(
            run.message_count
            for run in account.lost
            if run.why == "beyond the log" and run.first_physical_offset in behind
        )
        > 1
    )
