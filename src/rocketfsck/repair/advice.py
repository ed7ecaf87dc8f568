"""What to do before a repair or a start: advice of one sentence that follows from where the files are.

a setting that the files contradict    set it right: the store is not wrong
no commit log, or files missing        look for them, on a disk that is not mounted, say
files with another name, compressed    give them their names back
files of another store, older copies   put the right ones back
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import visible
from rocketfsck.errors import StoreError
from rocketfsck.store.model import Store, Stray, StrayReason
from rocketfsck.store.reading import read_at
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
COMPRESSED = (
    "uncompress {files} in its place first, and check again: the store seems to need what is in there"
)
SHORT_NAME = (
    "rename {files} first, so that the name has 20 digits, and check again: the store seems to need what is "
    "in there"
)
PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"\x04\x22\x4d\x18", b"PK\x03\x04")
"""What files of gzip, Zstandard, xz, bzip2, LZ4 and ZIP begin with."""
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
    and no other copy is needed."""

    text: str = ""
    is_mended_by_hand: bool = False


def advice_on(store: Store, account: MessageAccount | None, origins: Sequence[Finding]) -> Advice:
    """What to think of before anything is done; `origins` say where damaged files come from."""
    if "commitlog_file_size" in store.geometry.contradicted:
        ((size, _),) = Counter(file.size for file in store.commitlog.files).most_common(1)
        return Advice(WRONG_SETTING.format(size=size), is_mended_by_hand=True)
    if account is None:
        return Advice()
    for rule, text in _BY_ORIGIN.items():
        files = [finding.where.file for finding in origins if finding.rule == rule]
        if files:
            return Advice(text.format(files=_named(files)))
    is_gone = not store.commitlog.files and account.count("lost") > 0
    missing = any(tally.why == "missing file" for tally in account.tallies)
    if not (is_gone or missing or _lacks_last_file(store, account)):
        return Advice()
    strays = [item for item in store.strays if item.area == "commitlog" and item.reason is StrayReason.NAME]
    tests = ((UNFINISHED, _is_unfinished), (COMPRESSED, _is_packed), (SHORT_NAME, _is_number))
    for text, is_needed in tests:
        files = [visible(stray.relative) for stray in strays if is_needed(stray)]
        if files:
            return Advice(text.format(files=_named(files)), is_mended_by_hand=True)
    if is_gone:
        return Advice(MISSING_LOG, is_mended_by_hand=True)
    return Advice(MISSING_FILES if missing else MISSING_LAST)


def _named(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _is_number(stray: Stray) -> bool:
    """Whether the name is a number of fewer digits: people and tools shorten it."""
    return stray.path.name.isdecimal() and stray.path.name.isascii()


def _is_unfinished(stray: Stray) -> bool:
    return _UNFINISHED_NAME.fullmatch(stray.path.name) is not None


def _is_packed(stray: Stray) -> bool:
    """Whether it is a compressed file."""
    try:
        return read_at(stray.path, 0, min(stray.size, max(map(len, PACKED)))).startswith(PACKED)
    except StoreError:
        return False


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
