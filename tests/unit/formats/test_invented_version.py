"""The recipe "Support a broker version", tried: a row in the table, and everything knows the version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.dialect import NEWEST_NAME, parse_version, versions_with
from rocketfsck.formats.versions import BrokerTraits
from rocketfsck.store import open_store

from tests.invented import INVENTED, ROW

ROOT = Path(__file__).parents[3]


def run(module: str, *arguments: str | Path, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.invented", module, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def document(*arguments: str | Path) -> Any:
    return json.loads(run("rocketfsck", *arguments, "--format", "json", "--no-config"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as the invented version writes it: no 0x02 after properties, but entries for tags."""
    path = tmp_path_factory.mktemp("invented") / "store"
    sizes = ("--commitlog-file-size", "64KiB", "--slots", "50", "--entries", "200")
    asked = ("--synth", "plain", "--messages", "150", "--broker-version", INVENTED, *sizes)
    run("rocketfsck", "write", "--into", path, *asked, "--no-sync", "--no-config")
    return path


def test_nothing_else_names_it() -> None:
    assert parse_version(NEWEST_NAME) < parse_version(INVENTED)
    assert set(ROW) <= {item.name for item in fields(BrokerTraits)}
    assert versions_with(recovery_file_limit=ROW["recovery_file_limit"]) == ()


def test_the_clues_lead_to_it(store: Path) -> None:
    known = document("info", store)["written_by"]
    assert (known["dialect"], known["versions"], known["conflict"]) == (INVENTED, [INVENTED], False)
    whys = {item["what"]: item["why"] for item in known["known_from"]}
    assert f"and from {INVENTED} on" in whys["properties do not end in 0x02"]
    assert open_store(store).dialect_evidence.conflict  # without the row no version fits


def test_a_check_finds_nothing(store: Path) -> None:
    report = document("check", store)
    assert (report["store"]["dialect"], report["store"]["versions"]) == (INVENTED, [INVENTED])
    assert {finding["severity"] for finding in report["findings"]} <= {"info"}


def test_its_start_is_predicted(store: Path) -> None:
    (start,) = document("simulate", store, "--as-broker", INVENTED)["starts"]
    assert (start["covered"], start["loads"], start["alike"]) == (True, True, [INVENTED])
    (given,) = document("simulate", store, "--as-broker", NEWEST_NAME)["starts"]
    assert given["version"] == NEWEST_NAME


def test_the_specification_has_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs", ignore=shutil.ignore_patterns("__pycache__"))
    run("specs.build", folder=tmp_path)
    page = "specs/dialects.md"
    known = (ROOT / page).read_text("utf-8").splitlines()
    changed = [line for line in (tmp_path / page).read_text("utf-8").splitlines() if line not in known]
    assert [line.split("|")[2].strip(" `") for line in changed] == list(ROW)
    assert f"`20` from {INVENTED} on" in changed[1]
