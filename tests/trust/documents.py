"""The figures that are kept: a dataclass for each part, and its document in docs/trust."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketfsck.common.documents import from_document, json_text, parse_text, to_document

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "trust"


@dataclass(frozen=True, slots=True)
class Flips:
    """What flips of the bits of one field showed, one at a time: bit 0 is the lowest of its last byte.

    `rules` has the bits that each rule sees, as ranges: "0-7,12". `unseen` are those that no rule sees.
    """

    store: str
    layout: str
    field: str
    bit_count: int
    unseen_count: int
    unseen: str
    rules: dict[str, str]


@dataclass(frozen=True, slots=True)
class Census:
    """Every bit of one structure of each kind, flipped, and the store checked. `stores`: name to version."""

    commit: str
    level: str
    check_count: int
    stores: dict[str, str]
    fields: tuple[Flips, ...]


@dataclass(frozen=True, slots=True)
class Fuzz:
    """A run of the fuzzer. `commands`: how often each was run; `broken` and `known`: findings by law and
    by reason."""

    commit: str
    first_seed: int
    mutant_count: int
    commands: dict[str, int]
    cpu_milliseconds: int
    peak_mebibytes: int
    broken: dict[str, int]
    known: dict[str, int]


@dataclass(frozen=True, slots=True)
class KillTest:
    """A test in which a process dies, or a file operation fails, at so many points in all its cases."""

    name: str
    point_count: int
    case_count: int
    passed_count: int


@dataclass(frozen=True, slots=True)
class Kills:
    """Tests in which a process dies. `operations`: file operations of each command from start to end."""

    commit: str
    operations: dict[str, int]
    tests: tuple[KillTest, ...]


@dataclass(frozen=True, slots=True)
class Mutants:
    """What became of the changes in one package, by verdict."""

    package: str
    verdicts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A sample of changes of the source. `tests`: the directories whose tests were run."""

    commit: str
    seed: int
    budget_seconds: int
    tests: tuple[str, ...]
    test_count: int
    packages: tuple[Mutants, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, by the test that asks it, to the code of one version: in so many cases. `disagreed` are the
    cases in which the code did something else, `skipped` has the reasons of cases that were not asked."""

    question: str
    version: str
    case_count: int
    agreed: int
    disagreed: tuple[str, ...]
    skipped: dict[str, int]


@dataclass(frozen=True, slots=True)
class Said:
    """So many verdicts with this state, whose start came to this."""

    state: str
    happened: str
    count: int


@dataclass(frozen=True, slots=True)
class Oracle:
    """What the broker's own code answered; `verdicts` is the table of confusion."""

    commit: str
    answers: tuple[Answered, ...]
    verdicts: tuple[Said, ...]


Figures = Census | Fuzz | Kills | Mutation | Oracle
KINDS: dict[str, type[Any]] = {
    "oracle": Oracle,
    "fuzz": Fuzz,
    "census": Census,
    "kills": Kills,
    "mutation": Mutation,
}
"""The parts by name, in the order of the page."""


def commit() -> str:
    """The last commit that changed the source. Raises ValueError while the source has other changes."""
    if _git("status", "--porcelain", "--", "src"):
        raise ValueError("src has changes that are not committed: figures belong to a commit")
    return _git("log", "-1", "--format=%h", "--abbrev=10", "--", "src")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(part: str, figures: Figures) -> Path:
    """Keep the figures of a part; gives the file."""
    path = FOLDER / f"{part}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json_text(to_document(figures), indent=1) + "\n", "ascii")
    return path


def read(part: str) -> Any:
    """The figures of a part. Raises UsageError where the document has another shape."""
    path = FOLDER / f"{part}.json"
    return from_document(KINDS[part], parse_text(path.read_bytes(), path.name), path.name)
