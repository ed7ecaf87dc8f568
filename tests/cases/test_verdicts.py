"""One damaged store for each diagnosis: what the operator sees first, and what `fix --yes` makes of it.

    verdicts/<fault>.txt    the verdict at four widths, the end of `fix --yes`, the verdict afterwards

Written anew with ROCKETFSCK_TRANSCRIPTS=write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.writer.damage import damage_store

from tests.cases.transcript import PLACE_LENGTH, SHOWN_PLACE
from tests.conftest import NIGHTLY, Directory
from tests.unit.cli.conftest import Cli, cli  # noqa: F401 - a fixture

VERDICTS = Path(__file__).parent / "verdicts"
WRITE = os.environ.get("ROCKETFSCK_TRANSCRIPTS") == "write"
WIDTHS = (60, 80, 100, 200)
COMPARED = WIDTHS if WRITE or NIGHTLY else (60, 100)
"""Each width is a check of its own."""
FIRST_LINES = 12

FAULTS = {
    "torn-tail": ("C1", "4.9.8-multiseg"),
    "boundary-lost": ("C2", "4.9.8-multiseg"),
    "stale-tail": ("C3", "5.3.3-multiseg"),
    "body-flip": ("C4", "5.1.3-basic"),
    "record-malformed": ("C10", "5.3.3-multiseg"),
    "missing-segment": ("C5", "5.3.3-multiseg"),
    "stray-file": ("C6", "5.3.3-multiseg"),
    "segment-renamed": ("C6", "4.9.8-multiseg"),
    "commitlog-gone": ("C8", "5.3.3-multiseg"),
    "queue-behind": ("Q1", "4.9.8-multiseg"),
    "dangling-tail": ("Q2", "4.9.8-multiseg"),
    "queue-hole": ("Q3", "4.9.8-multiseg"),
    "missing-queue": ("Q7", "4.9.8-multiseg"),
    "missing-all-queues": ("Q7", "5.3.3-multiseg"),
    "wrong-tags": ("Q11", "5.3.3-multiseg"),
    "chain-cycle": ("I3", "4.9.8-multiseg"),
    "index-lost": ("I1", "5.3.3-multiseg"),
    "index-count-low": ("I6", "4.9.8-multiseg"),
    "checkpoint-zeroed": ("K1", "5.3.3-multiseg"),
    "checkpoint-future": ("K2", "5.3.3-multiseg"),
    "config-cut": ("K5", "5.3.3-basic"),
    "epoch-order": ("H3", "5.3.3-multiseg"),
}
_TIME = re.compile(r"level (\w+), [\d.]+ s")
_KEPT = re.compile(r"\.before-\w+-\w+")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a name as long as the one that transcripts show."""
    directory = Path(tempfile.mkdtemp(prefix="rf-", dir="/tmp"))
    assert len(str(directory)) == PLACE_LENGTH
    yield directory
    shutil.rmtree(directory)


def _output(cli: Cli, *arguments: object) -> str:  # noqa: F811
    ended = cli(*arguments)
    text = _KEPT.sub(".before-20261121T093000Z-4f2a91", _TIME.sub(r"level \1, 0.1 s", ended.out))
    return f"{text}(exit status {ended.code})\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_lines_say_all_and_fix_does_it(
    cli: Cli,  # noqa: F811
    store_dir: Directory,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    fault_class, name = FAULTS[fault]
    damage_store(store_dir(name), place / "store", [fault], 7, write_truth=False)
    monkeypatch.chdir(place)
    said = json.loads(cli("check", "store", "--format", "json").out)
    assert fault_class in {diagnosis["fault_class"] for diagnosis in said["diagnoses"]}
    parts = [f"# {fault}: one store of diagnosis {fault_class}, from {name}\n"]
    for columns in COMPARED:
        monkeypatch.setenv("COLUMNS", str(columns))
        verdict = _output(cli, "check", "-q", "store")
        parts.append(f"\n$ COLUMNS={columns} rocketfsck check -q store\n{verdict}")
        lines = verdict.splitlines()
        assert all(len(line) <= columns or "rocketfsck " in line for line in lines)
        if columns == 100:
            _first_lines_hold_all(lines, said["verdict"])
    monkeypatch.setenv("COLUMNS", str(WIDTHS[-1]))
    whole = _output(cli, "fix", "--yes", "store").splitlines(keepends=True)
    end = next((at for at, line in enumerate(whole) if line.startswith("Start of a broker")), -1)
    result = [at for at, line in enumerate(whole) if line.startswith("Result: ")][-1]
    shown = whole[end if end >= 0 else result :]
    if "Nothing was changed.\n" in whole:
        shown = whole
    left_out = "" if shown is whole else "…\n"
    parts.append(f"\n$ rocketfsck fix --yes store\n{left_out}{''.join(shown)}")
    after = json.loads(cli("check", "store", "--format", "json").out)["verdict"]
    parts.append(f"\n$ rocketfsck check -q store\n{_output(cli, 'check', '-q', 'store')}")
    unrepaired = re.search(
        r"cannot be repaired: |findings? (?:is|are) left: |no action corrects ", "".join(whole)
    )
    assert after["may_start"] is True or unrepaired
    if said["verdict"]["may_start"]:
        assert after["may_start"]
    parts = [part.replace(str(place), SHOWN_PLACE) for part in parts]
    path = VERDICTS / f"{fault}.txt"
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(parts), "utf-8")
    assert "".join(parts) == _without_widths(path.read_text("utf-8"))


def _without_widths(text: str) -> str:
    """What is kept, but for the verdicts at widths that are not compared now."""
    shown = text.split("\n$ ")
    left_out = tuple(f"COLUMNS={columns} " for columns in WIDTHS if columns not in COMPARED)
    return "\n$ ".join(part for part in shown if not part.startswith(left_out))


def _first_lines_hold_all(lines: list[str], verdict: dict[str, object]) -> None:
    """The headline, the start, what is lost and the next command, or why there is none."""
    first = lines[:FIRST_LINES]
    labels = {line[2:10].strip() for line in first[1:] if line.startswith("  ") and line[2] != " "}
    assert {"Store", "Start", "Next"} <= labels
    assert labels & {"Lost", "Repair"}
    assert (verdict["may_start"] is False) == lines[0].startswith(("Do not start", "A broker does not start"))
    assert lines[0].startswith("Warnings only") <= (verdict["error_count"] == 0)
