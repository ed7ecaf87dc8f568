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
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, visible
from rocketfsck.repair.mislaid import displaced_records, files_of_lost, is_packed, is_text, mislaid_files
from rocketfsck.store.model import Store, Stray, StrayReason
from rocketfsck.verify.account.model import MessageAccount
from rocketfsck.verify.finding import Finding

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
