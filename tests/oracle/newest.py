"""The day a new version of the broker appears: what changed in it, and what it does to our answers.

    python -m tests.oracle.newest              the newest release of the registry, against the one before
    python -m tests.oracle.newest 5.5.1 5.4.0  one version against another

What changed in classes, constants, defaults of settings and paths of files is read from the code of both
versions; then the oracle's tests run on the new one. In the end stands a draft of its row of the table of
versions (`formats.versions`): a person looks at what is printed, and completes it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree

from rocketfsck.common.wording import count_of
from rocketfsck.formats.versions import VERSIONS

from tests.oracle.jvm import BUILD

REGISTRY = "https://repo1.maven.org/maven2/org/apache/rocketmq/rocketmq-store/maven-metadata.xml"
RELEASE = re.compile(r"\d+(?:\.\d+)+")
NOISE = re.compile(r"PID$|FIX_STRING$|\$assertionsDisabled$|\.help\.")
"""Constants that differ from one process to the next, or say nothing of stores."""
SHOWN = 60
"""Lines of one kind that are shown; the rest are counted."""

Facts = Mapping[tuple[str, str], str]
"""Values by kind and name, as Inventory.java says them."""


@dataclass(frozen=True, slots=True)
class Change:
    """A fact that is not the same in both versions; None: there is none in that version."""

    kind: str
    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.name}" + (f" = {self.after}" if self.after else "")
        if self.after is None:
            return f"- {self.name}" + (f" (was {self.before})" if self.before else "")
        return f"~ {self.name}: {self.before} became {self.after}"


def number_of(version: str) -> tuple[int, ...]:
    """A version as numbers, to be put in order."""
    return tuple(int(part) for part in version.split("."))


def releases(document: str) -> list[str]:
    """The releases that the registry's document lists, without previews, in their order."""
    listed = (item.text or "" for item in ElementTree.fromstring(document).iter("version"))
    return sorted(filter(RELEASE.fullmatch, listed), key=number_of)


def facts_of(text: str) -> Facts:
    """What a version is made of."""
    rows = (line.split("\t", 2) for line in text.splitlines() if line)
    return {(kind, name): value for kind, name, value in rows if not NOISE.search(name)}


def changes(before: Facts, after: Facts) -> list[Change]:
    """What is not the same, by kind and name."""
    places = sorted(before.keys() | after.keys())
    return [
        Change(*place, before.get(place), after.get(place))
        for place in places
        if before.get(place) != after.get(place)
    ]


def said(found: Sequence[Change]) -> Iterator[str]:
    """The changes as lines, kind by kind."""
    for kind in ("path", "setting", "constant", "class", "unread"):
        mine = [change for change in found if change.kind == kind]
        yield f"{kind}: {count_of(len(mine), 'change')}"
        yield from (f"  {change}" for change in mine[:SHOWN])
        if len(mine) > SHOWN:
            yield f"  and {len(mine) - SHOWN} more"


def draft_row(version: str, found: Sequence[Change]) -> str:
    """The row of the table of versions as far as the code tells it."""
    new = [change for change in found if change.kind == "path" and change.before is None]
    files = sorted((change.after or "").removeprefix("ROOT/") for change in new)
    row = f'"kept_files": {tuple(files)!r},' if files else ""
    return f'    "{version}": {{{row}}},  # to be completed: traits whose tests fail, settings that changed'


def inventory(version: str) -> Facts:
    """What the code of a version is made of; fetches and builds it where it is not there."""
    built = subprocess.run([BUILD, version], check=True, stdout=subprocess.PIPE, text=True)
    home = Path(built.stdout.strip())
    classpath = f"{home / 'oracle.jar'}:{(home / 'classpath').read_text('utf-8').strip()}"
    command = ["java", "-Duser.home=/home", "-cp", classpath, "rocketfsck.oracle.Inventory"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return facts_of(done.stdout)


def run_oracle(version: str) -> int:
    """Run the oracle's tests on that version alone; the exit status of pytest."""
    surroundings = {**os.environ, "ROCKETFSCK_ORACLE": "required", "ROCKETFSCK_ORACLE_VERSIONS": version}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    tests = str(Path(__file__).parent)
    return subprocess.run(
        [*command, "-m", "oracle and not nightly", tests], env=surroundings, check=False
    ).returncode


def main(asked: Sequence[str]) -> int:
    """Print what changed, run the oracle, and print the draft; 1 where tests failed."""
    if asked:
        version, *rest = asked
        known = [
            name for name in VERSIONS if RELEASE.fullmatch(name) and number_of(name) < number_of(version)
        ]
    else:
        with urlopen(REGISTRY, timeout=60) as answer:
            listed = releases(answer.read().decode("utf-8"))
        version, rest, known = listed[-1], [], listed[:-1]
    before = rest[0] if rest else max(known, key=number_of)
    listed_here = "has a row" if version in VERSIONS else "has no row yet: tests read it as the one before"
    print(
        f"RocketMQ {version} against {before}; {version} {listed_here} in the table of versions", flush=True
    )
    found = changes(inventory(before), inventory(version))
    print("\n".join(said(found)), flush=True)
    print(f"\nThe oracle on {version}", flush=True)
    status = run_oracle(version)
    print(f"\nThe tests {'pass' if status == 0 else 'FAIL: see above what is not as we say'} on {version}.")
    if version not in VERSIONS:
        print(f"Draft of its row:\n{draft_row(version, found)}")
    return min(status, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
