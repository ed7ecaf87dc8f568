"""What to run next about a finding, as argument vectors: `["rocketfsck", "dump", "--hex", …]`.

A vector needs no shell and no quoting; `shlex.join` makes a command line of it. The options that opened the
store come from the report (`StoreFacts.open_options`), so that a report read back suggests the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.common.rulenames import RuleName
from rocketfsck.store.places.locations import path_of
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.rules.catalog import RULES

Words = tuple[str, ...]

START_RULES = frozenset(
    {
        RuleName.ABORT_PRESENT,
        RuleName.INDEX_FILE_DOOMED,
        RuleName.RECOVERY_SCANS_ALL,
        RuleName.CHECKPOINT_ZERO,
        RuleName.SEGMENT_LENGTH,
        RuleName.FOREIGN_FILE,
        RuleName.COMMITLOG_MISSING,
    }
)
"""Rules that say what a start would do: for them the prediction is the place to look at."""

_LOG_OPTION = "--commitlog-path"
_VERSION_OPTION = "--broker-version"


@dataclass(frozen=True, slots=True)
class Reopening:
    """How a command opens the store again: its root, the options (pairs of name and value), and `version`,
    that of the broker whose start is worth a prediction."""

    root: str
    options: Words = ()
    version: str | None = None

    @property
    def file_options(self) -> Words:
        """The options that matter to a file on its own: not where the commit log is."""
        return self._without(_LOG_OPTION)

    def _without(self, name: str) -> Words:
        pairs = zip(self.options[::2], self.options[1::2], strict=True)
        return tuple(word for pair in pairs if pair[0] != name for word in pair)

    def store_words(self, *words: str) -> Words:
        """`rocketfsck WORDS… STORE`."""
        return ("rocketfsck", *words, *self.options, self.root)

    def file_words(self, file: Path, *words: str) -> Words:
        """`rocketfsck WORDS… FILE`."""
        return ("rocketfsck", *words, *self.file_options, str(file))

    def simulate_words(self) -> Words:
        """`rocketfsck simulate`: what a broker of the version does when it starts on the store."""
        pairs = dict(zip(self.options[::2], self.options[1::2], strict=True))
        version = pairs.get(_VERSION_OPTION) or self.version or ""
        rest = self._without(_VERSION_OPTION)
        return ("rocketfsck", "simulate", "--as-broker", version, *rest, self.root)


def look_at(finding: Finding, of: Reopening, exists: Callable[[Path], bool]) -> Words | None:
    """What shows the place that a finding names by bytes or by entry; None where it names no file.

    `exists` says whether a file is there: where the file itself is missing, what there is instead.
    """
    where = finding.where
    if finding.rule in START_RULES and of.version is not None:
        return of.simulate_words()
    if not where.file or not where.file.isprintable():
        return None
    place = path_of(of.root) / where.file
    if where.file.startswith("commitlog/") and where.physical_offset is not None:
        at = f"{where.physical_offset}:"
        return of.file_words(place, "dump", "--hex", "--physical-offset", at, "--limit", "1")
    if where.slot is not None:
        return of.file_words(place, "dump", "--slot", str(where.slot))
    if where.start is not None and where.end != where.start:
        span = f"{where.start}:{'' if where.end is None else where.end}"
        return of.file_words(place, "dump", "--hex", "--pos", span, "--limit", "20")
    if where.topic is not None and where.queue_id is not None:  # the file may be what is missing
        queue = ("--topic", where.topic, "--queue", str(where.queue_id))
        return of.store_words("dump", *queue, "--limit", "20")
    if not exists(place):
        return of.store_words("info")
    return of.file_words(place, "dump", "--limit", "20")


def suggestions(finding: Finding, of: Reopening) -> tuple[Words, ...]:
    """What to run about one finding: what shows it, what explains its rule, what plans its repair.

    Nothing is read for them. A repair is planned only where the rule has one.
    """
    shown = look_at(finding, of, _nothing)
    explained: Words = ("rocketfsck", "explain", finding.rule)
    found: Sequence[Words] = [explained] if shown is None else [shown, explained]
    if RULES[finding.rule].repair is not None and "://" not in of.root:
        return (*found, of.store_words("plan"))
    return tuple(found)


def _nothing(_: Path) -> bool:
    return False
