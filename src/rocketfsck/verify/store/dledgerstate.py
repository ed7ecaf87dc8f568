"""The small files of a node of DLedger's: how far its group agreed, and in which term it votes.

    checkpoint := endIndex=<n> committedIndex=<n>     currterm := currTerm=<n> [voteLeader=<node>]

Java properties, each with the `.bak` of what was there before, which no version reads: it is for people.
Written from time to time and when the node stops: what they say may be older than the log, never newer. A
node that has one of the two has the other, too. Reference 2.14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.filename import java_parse_long
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole
from rocketfsck.store.settings import parse_settings
from rocketfsck.verify.finding import Finding, Where

MAX_SIZE = 1 << 16
NUMBERS = {"checkpoint": ("endIndex", "committedIndex"), "currterm": ("currTerm",)}
"""The numbers in each of the files."""


@dataclass(frozen=True, slots=True)
class LastEntry:
    """The last entry of a node's log, and the highest term before it."""

    index: int
    term: int


def check_state(store: Store, directory: str, last: LastEntry | None) -> Iterator[Finding]:
    """The small files in one node's directory. Raises StoreError for one that cannot be read."""
    found: dict[str, StoreFile] = {}
    for other in store.others:
        if other.kind is OtherKind.DLEDGER and other.relative.rpartition("/")[0] == directory:
            found.update((file.name, file) for file in other.files)
    known = [name for name in found if name.removesuffix(".bak") in NUMBERS]
    for name in sorted(known):
        yield from _check_file(found[name], name, last)
    for name in NUMBERS:
        if known and name not in found and last is not None:
            beside = f", but {name}.bak exists" if f"{name}.bak" in found else ""
            where = Where(file=f"{directory}/{name}")
            yield Finding(RuleName.DLEDGER_STATE, where, {"name": name, "reason": f"is missing{beside}"})


def _check_file(file: StoreFile, name: str, last: LastEntry | None) -> Iterator[Finding]:
    try:
        values = parse_settings(read_whole(file.path, MAX_SIZE))
    except ValueError as error:
        yield _finding(file, name, f"cannot be parsed: {error}")
        return
    found: dict[str, int] = {}
    kind = name.removesuffix(".bak")
    for key in NUMBERS[kind]:
        text = values.get(key)
        number = None if text is None else java_parse_long(text)
        if number is not None:
            found[key] = number
        elif text is not None:
            yield _finding(file, name, f"has a {key} that is not a number: {text!a}")
    for key, number in found.items():
        if kind == "checkpoint" and last is not None and number > last.index:
            yield _finding(
                file, name, f"says that {key} is {number}, but the log ends with entry {last.index}"
            )
        elif name == "currterm" and last is not None and number < last.term:  # its .bak has an earlier term
            yield _finding(
                file, name, f"says that {key} is {number}, but the log has entries of term {last.term}"
            )


def _finding(file: StoreFile, name: str, reason: str) -> Finding:
    where = Where(file=file.relative, start=0, end=file.size)
    return Finding(RuleName.DLEDGER_STATE, where, {"name": name, "reason": reason})
