"""The options that limit and measure a command: `--stop-after`, `-t`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


@pytest.fixture
def damaged(cli: Cli, store_dir: Directory, tmp_path: Path) -> Path:
    faults = ("body-flip", "queue-hole", "checkpoint-zeroed")
    said = cli(
        "damage", store_dir("5.3.3-basic"), "--into", tmp_path / "bad", *(f"--fault={n}" for n in faults)
    )
    assert said.code == 0, said.err
    return tmp_path / "bad"


def test_stop_after(cli: Cli, damaged: Path) -> None:
    found = cli("check", damaged, "--stop-after", 1)
    assert found.code == 4
    assert "stopped after 1 finding" in " ".join(found.out.split())
    assert "Found   1 error;" in found.out
    document = json.loads(cli("check", damaged, "--stop-after", 1, "--format", "json").out)
    assert document["coverage"]["stopped_after"] == 1
    assert cli("check", damaged, "--stop-after", 0).code == 16


def test_times_go_to_standard_error(cli: Cli, damaged: Path) -> None:
    plain, timed = cli("check", damaged), cli("check", damaged, "-t")
    seconds = re.compile(r"level full, [^\n]*")
    assert seconds.sub("", timed.out) == seconds.sub("", plain.out)
    assert plain.err == ""
    lines = timed.err.splitlines()
    assert lines[0].split()[:2] == ["pass", "time"]
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "open",
        "commit log files (1)",
        "consume queues (1)",
        "index files (2)",
        "databases",
        "tiered storage",
        "across files, small files",
        "verdict",
        "total",
    ]


def test_each_file(cli: Cli, damaged: Path) -> None:
    lines = cli("check", damaged, "-tt").err.splitlines()
    assert sum(line.startswith("  index:index/") for line in lines) == 2
    assert any(line.startswith("  commitlog:commitlog/0000") for line in lines)


def test_times_in_the_document(cli: Cli, damaged: Path) -> None:
    document = json.loads(cli("check", damaged, "-t", "--format", "json").out)
    passes = {item["name"]: item for item in document["timing"]}
    log = passes["commit log files"]
    assert log["byte_count"] == sum(path.stat().st_size for path in (damaged / "commitlog").iterdir())
    assert log["seconds"] > 0
    assert passes["total"]["peak_memory_size"] > 1 << 20
    assert "timing" not in json.loads(cli("check", damaged, "--format", "json").out)
    head = cli("check", damaged, "-t", "--format", "jsonl").rows()[0]
    assert [item["name"] for item in head["timing"]] == list(passes)


def test_plan_and_fix_have_times(cli: Cli, damaged: Path) -> None:
    planned = cli("plan", damaged, "-t")
    assert planned.code == 4
    assert {"open", "plan", "total"} <= {line.split("  ")[0] for line in planned.err.splitlines()}
    fixed = cli("fix", "--yes", damaged, "-t")
    assert {"open", "plan and verdict", "repair and check", "total"} <= {
        line.split("  ")[0] for line in fixed.err.splitlines()
    }


def test_a_command_that_fails_has_times(cli: Cli, tmp_path: Path) -> None:
    failed = cli("check", tmp_path / "none", "-t")
    assert failed.code == 8
    assert any(line.startswith("open ") for line in failed.err.splitlines())


@pytest.mark.parametrize("words", [("count",), ("compare", "STORE"), ("export", "--into", "NEW")])
def test_commands_of_one_pass_have_times(
    cli: Cli, store_dir: Directory, tmp_path: Path, words: tuple[str, ...]
) -> None:
    places = {"STORE": store_dir("5.3.3-basic"), "NEW": tmp_path / "new"}
    first, *rest = (places.get(word, word) for word in words)
    done = cli(first, store_dir("5.3.3-basic"), *rest, "-t")
    assert done.code == 0, done.err
    assert [line.split("  ")[0] for line in done.err.splitlines()][-2:] == [words[0], "total"]
