"""The broker versions, their lineage and their dialects. Reference 0.3, 0.4, 1.2, 1.4.

Files never say which version wrote them, so a `Dialect` is either found from the bytes or given. A version is
a node of the lineage: 4.9.1 … 4.9.8 and 5.0.0-ALPHA … are two lines that part at 4.9.0, and 5.0.0-PREVIEW is
a third. The traits of a dialect, and what each version changes of them, are the table of `formats.versions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, total_ordering
from typing import Any, Literal

from rocketfsck.errors import UsageError
from rocketfsck.formats.versions import VERSIONS, BrokerTraits

ALL_VERSION_NAMES = tuple(VERSIONS)
NEWEST_NAME = ALL_VERSION_NAMES[-1]
"""The newest version that is described here."""
WRITTEN_NAME = "5.3.3"
"""The version that a store is written as where nobody names one."""

_TEXT = re.compile(r"(?:rocketmq-)?(?:all-)?v?(\d+)\.(\d+)\.(\d+)(?:-([A-Za-z]+))?", re.ASCII)
_STAGES = ("PREVIEW", "ALPHA", "SNAPSHOT", "")
_LAST_COMMON = (4, 9, 0)


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A broker version. `stage` is PREVIEW, ALPHA, SNAPSHOT or "" for a release.

    The order is a total one for display and sorting; `descends_from` is what the lineage says.
    """

    major: int
    minor: int
    patch: int
    stage: str = ""

    @property
    def number(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    @property
    def line(self) -> Literal["common", "4.9", "preview", "5"]:
        """The line of development: common up to 4.9.0, then one of three."""
        if self.number <= _LAST_COMMON:
            return "common"
        if self.major == 4:
            return "4.9"
        return "preview" if self.stage == "PREVIEW" else "5"

    def descends_from(self, ancestor: Version) -> bool:
        """Whether `ancestor` is this version or one that it was developed from."""
        return ancestor.line in ("common", self.line) and ancestor <= self

    def _key(self) -> tuple[tuple[int, int, int], int]:
        return self.number, _STAGES.index(self.stage)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._key() < other._key()

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.stage}" if self.stage else "")


@cache
def parse_version(text: str) -> Version:
    """The version that a text such as `4.9.8`, `5.0.0-ALPHA` or `rocketmq-all-4.4.0` names.

    UsageError if it names none.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a broker version such as 4.9.8 or 5.0.0-ALPHA; "
            f"the newest known is {NEWEST_NAME}"
        )
    major, minor, patch = (int(number[:6]) for number in match.group(1, 2, 3))
    stage = (match.group(4) or "").upper()
    if stage == "INCUBATING":
        stage = ""
    if stage not in _STAGES or major < 4:
        raise UsageError(f"{text!r} is not a known broker version: 4.0.0 or later")
    if major > int(NEWEST_NAME.split(".")[0]) or (major == 4 and minor > _LAST_COMMON[1]):
        raise UsageError(
            f"{text!r} is not a known broker version: 4.0.0 to 4.9.x or 5.x.y, the newest {NEWEST_NAME}"
        )
    return Version(major, minor, patch, stage)


ALL_VERSIONS: tuple[Version, ...] = tuple(map(parse_version, ALL_VERSION_NAMES))
"""Every version whose behaviour the reference states, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(BrokerTraits):
    """All traits of one broker version."""

    version: Version


@cache
def lineage_of(version: Version) -> tuple[Version, ...]:
    """The versions of ALL_VERSIONS that it was developed from, in order, and itself."""
    return tuple(known for known in ALL_VERSIONS if version.descends_from(known))


@cache
def dialect_of(version: Version) -> Dialect:
    """The traits of a version; one that the reference does not know has those of its nearest ancestor."""
    first = Dialect(version=version)
    traits: dict[str, Any] = {}
    for known in lineage_of(version):
        for trait, value in VERSIONS[str(known)].items():
            held = traits.get(trait, getattr(first, trait))
            traits[trait] = (*held, *value) if isinstance(value, tuple) else value
    return replace(first, **traits)


def is_newer(version: Version) -> bool:
    """Whether a version is newer than all that are described here."""
    return version.number > ALL_VERSIONS[-1].number


def dialect_for(version_text: str) -> Dialect:
    """The traits of the version that this text names; UsageError if it names none."""
    return dialect_of(parse_version(version_text))


def nearest_examined(version: Version) -> Version:
    """The version that the reference describes and that stands for `version`: itself, or an ancestor."""
    return lineage_of(version)[-1]


def has_trait(dialect: Dialect, trait: str, value: Any) -> bool:
    """Whether a trait has this value; a tuple, whether it has this member."""
    held = getattr(dialect, trait)
    return value in held if isinstance(held, tuple) else bool(held == value)


def versions_with(**traits: Any) -> tuple[Version, ...]:
    """Those of ALL_VERSIONS whose dialect `has_trait` with all these values, e.g. `v2_allowed=True`."""
    return tuple(
        version
        for version in ALL_VERSIONS
        if all(has_trait(dialect_of(version), name, value) for name, value in traits.items())
    )


def runs_of(versions: Iterable[Version], among: Sequence[Version] = ALL_VERSIONS) -> list[list[Version]]:
    """Versions as runs of neighbours among others; one that is not `among` them has no neighbours."""
    runs: list[list[Version]] = []
    last = -1
    for version in sorted(versions):
        place = among.index(version) if version in among else -1
        if runs and 0 < place == last + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
        last = place
    return runs


def run_text(run: Sequence[Version]) -> str:
    """A run of versions: `4.5.1 to 4.9.1`, `4.9.3`."""
    return str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}"


@cache
def when(trait: str, value: Any = True, word: str = "in") -> str:
    """Which versions `has_trait`, in words: `from 4.9.3 and 5.0.0-ALPHA on`, `up to 4.7.0`.

    Of several spans, the first that is open at neither end has the `word` in front: `up to 4.9.0, in
    5.0.0-PREVIEW and from 5.2.0 on`.
    """
    having = versions_with(**{trait: value})
    heirs = [version for version in ALL_VERSIONS if not set(lineage_of(version)).isdisjoint(having)]
    if len(heirs) == len(having) > 0:
        starts = [version for version in having if set(lineage_of(version)).intersection(having) == {version}]
        return f"from {' and '.join(map(str, starts))} on"
    texts = []
    for run in runs_of(having):
        if run[0] == ALL_VERSIONS[0]:
            texts.append(f"up to {run[-1]}")
        elif run[-1] == ALL_VERSIONS[-1]:
            texts.append(f"from {run[0]} on")
        else:
            texts.append(f"{word} {run_text(run)}".lstrip())
            word = ""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:]))) or "never"
