"""What a check is asked to do: level, rules, part of the store, time, where to go on.

    --subset n/t     the n-th of t parts; the parts 1/t … t/t together are the whole store
    --subset x%      tasks until x per cent of the bytes are covered
    --subset SIZE    tasks until SIZE bytes are covered, like 10GiB

The choice depends on the names of the files only, so that it is the same every time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rocketfsck.common.documents import printable
from rocketfsck.common.options import PLAIN_FILE, READ_FILE, Option, PathKind, beginning
from rocketfsck.common.wording import parse_size
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import DETAIL_LIMIT, LEVELS, Level, Rule

_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Subset:
    """Part of the tasks: part `number` of `total`, or `percent`, or `byte_count`; one of the three is set."""

    number: int = 0
    total: int = 0
    percent: float | None = None
    byte_count: int | None = None

    @classmethod
    def parse(cls, text: str) -> Subset:
        """`n/t`, `x%` or a size; raises UsageError for anything else, zero included."""
        part, percent = _PART.fullmatch(text), _PERCENT.fullmatch(text)
        if part and 1 <= int(part[1]) <= int(part[2]):
            return cls(number=int(part[1]), total=int(part[2]))
        if percent and 0 < float(percent[1]) <= 100:
            return cls(percent=float(percent[1]))
        with suppress(ValueError):
            if size := parse_size(text):
                return cls(byte_count=size)
        raise UsageError(
            f"a subset is n/t (1 <= n <= t), x% (0 < x <= 100) or a size, not {printable(text)!r}"
        )

    def __str__(self) -> str:
        if self.total:
            return f"{self.number}/{self.total}"
        return f"{self.byte_count} bytes" if self.percent is None else f"{self.percent:g}%"

    def choose(self, keys: Sequence[str], sizes: Sequence[int]) -> list[int]:
        """Indexes of the tasks in the subset, ascending. At least one task if there are any, n/t excepted."""
        order = sorted(range(len(keys)), key=lambda index: _rank(keys[index]))
        if self.total:
            return sorted(order[self.number - 1 :: self.total])
        wanted = self.byte_count if self.percent is None else sum(sizes) * self.percent / 100
        chosen: list[int] = []
        covered = 0
        for index in order:
            if chosen and wanted is not None and covered >= wanted:
                break
            chosen.append(index)
            covered += sizes[index]
        return sorted(chosen)


def _rank(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def rules_beginning(begun: str) -> list[str]:
    """Ids and slugs of rules that begin so; of a list with commas its last word."""
    from rocketfsck.verify.rules.catalog import RULES

    before, comma, word = begun.rpartition(",")
    names = [*RULES, *(rule.slug for rule in RULES.values())]
    return [f"{before}{comma}{name}" for name in beginning(names, word)]


LevelAsked = Annotated[
    Level,
    Option(
        "How thorough a check is. quick: names, sizes, headers, tails. cross: every frame, unit, chain and "
        "reference, no bodies. full: every checksum and property, too.",
        shows_default=True,
    ),
]


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check. `select`/`ignore`: rule ids, slugs or the start of an id ("CQ", "CL0").

    `max_duration` is in seconds: no task is started after it. `baseline` is a file of fingerprints whose
    findings are counted, not shown. `resume` is a file that keeps what finished; it is made if it is not
    there. `jobs`: tasks at once, 0 for all cores. `now_timestamp` (ms) replaces the clock. The check stops
    after the first `stop_after` findings above info (`verify.stopping`); None: never. `since` is the file of
    what earlier checks found, made if it is not there (`verify.since`); each part is read as a whole once in
    `scrub` seconds, None: never again.
    """

    level: LevelAsked = "full"
    select: Annotated[
        tuple[str, ...],
        Option(
            "Only these rules: ids, slugs, starts of ids.",
            metavar="RULES",
            complete=rules_beginning,
            splits=True,
        ),
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        Option("All but these rules.", metavar="RULES", complete=rules_beginning, splits=True),
    ] = ()
    baseline: Annotated[
        Path | None, Option("Count the findings in this file without showing them.", kind=READ_FILE)
    ] = None
    subset: Annotated[
        Subset | None,
        Option(
            "Only part of the files, the same part every time.", metavar="N/T|X%|SIZE", parse=Subset.parse
        ),
    ] = None
    max_duration: Annotated[float | None, Option("Start no new work after this time.", kind="duration")] = (
        None
    )
    resume: Annotated[
        Path | None, Option("Save finished work in this file, and continue from it.", kind=PLAIN_FILE)
    ] = None
    jobs: int = 0
    detail_limit: int = DETAIL_LIMIT
    now_timestamp: int | None = None
    stop_after: Annotated[
        int | None,
        Option("Stop after the first N findings above notes, always the same ones.", metavar="N", least=1),
    ] = None
    since: Annotated[
        Path | None,
        Option(
            "Read only what is new since the check that wrote this file, and write it again. "
            "Of several stores: a directory with a file for each. May be a URL.",
            metavar="STATE",
            kind=PathKind(written=True),
        ),
    ] = None
    scrub: Annotated[
        float | None,
        Option(
            "With --since: read every byte once in this time, like 7d, some of them at each check.",
            metavar="PERIOD",
            kind="duration",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"a level is one of {', '.join(LEVELS)}, not {printable(self.level)!r}")
        if self.max_duration is not None and not self.max_duration > 0:
            raise UsageError("a time limit is a number of seconds above 0")
        if self.stop_after is not None and self.stop_after < 1:
            raise UsageError("the number of findings to stop after is at least 1")
        if self.detail_limit < 1 or self.jobs < 0:
            raise UsageError("the number of findings a rule and file is at least 1, that of jobs at least 0")

        self._check_since()

    def _check_since(self) -> None:
        """A check that continues from an earlier one is whole, and leaves out nothing."""
        if self.since is None:
            if self.scrub is not None:
                raise UsageError("a scrub period is for a check since an earlier one")
            return
        parts = (self.resume, self.subset, self.max_duration, self.stop_after)
        if any(part is not None for part in parts):
            raise UsageError(
                "a check since an earlier one has no subset, time limit, number of findings or resume"
            )
        if self.level == "quick":
            raise UsageError("a check since an earlier one has a level that reads content, not quick")

    def selected_rules(self) -> frozenset[str]:
        """Ids of the rules asked for, whatever the level; raises UsageError for a name that fits none."""
        from rocketfsck.verify.rules.catalog import RULES

        chosen = _matching(self.select) if self.select else frozenset(RULES)
        return chosen - _matching(self.ignore)

    def wanted_rules(self) -> frozenset[str]:
        """Ids of the rules asked for that this level looks at."""
        from rocketfsck.verify.rules.catalog import RULES

        return frozenset(name for name in self.selected_rules() if RULES[name].applies_at(self.level))


def _matching(names: Iterable[str]) -> frozenset[str]:
    from rocketfsck.verify.rules.catalog import RULES

    found: set[str] = set()
    for name in names:
        matches = [rule.id for rule in RULES.values() if _matches(rule, name)]
        if not matches:
            raise UsageError(f"no rule is called {printable(name)!r} or has an id that starts like this")
        found.update(matches)
    return frozenset(found)


def _matches(rule: Rule, name: str) -> bool:
    return bool(name) and (rule.slug == name.lower() or rule.id.startswith(name.upper()))
