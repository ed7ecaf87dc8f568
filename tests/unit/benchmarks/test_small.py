"""The benchmarks run from end to end on small files, and write their table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.measure import Row


@pytest.mark.parametrize("group", ["log", "index", "start", "carve", "rebuild", "query"])
def test_every_group_runs(group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--small", "--rounds", "1", "--only", group, "--folder", str(tmp_path)]
    assert benchmarks.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = {"log": 12, "index": 2, "start": 3, "carve": 2, "rebuild": 2, "query": 3}
    assert len(lines) == counts[group]


def test_whole_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for group, count in (("store", 1), ("memory", 2)):
        arguments = ["--small", "--rounds", "1", "--only", group, "--folder", str(tmp_path)]
        assert benchmarks.main(arguments) == 0
        assert len(capsys.readouterr().out.splitlines()) == count


def test_report_says_what_was_missed() -> None:
    rows = [Row("fast", 1.0, "sum", 2.0, 3.0), Row("slow", 1.0, "sum", 4.0, 3.0)]
    rows += [Row("scales", 1.0, "one", 1.9, 1.8, at_least=True), Row("plain", 1.0, "x", 1.0)]
    assert [row.met for row in rows] == [True, False, True, True]
    text = benchmarks.report(rows, 7, 0.25)
    assert "| fast | 1.0 | 2.00 | sum | ≤ 3 |  |" in text
    assert "| slow | 1.0 | 4.00 | sum | ≤ 3 **missed** |  |" in text
    assert "| scales | 1.0 | 1.90 | one | ≥ 1.8 |  |" in text
    assert ", load 0.25 before the first job." in text


def test_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["pages", "--small", "--rounds", "1", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("the page, 0.015625 GiB with 1,000 findings")


@pytest.mark.nightly
def test_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["findings", "--small", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("check, 2,000 wrong bodies")
    assert not list(tmp_path.glob("findings-*"))


@pytest.mark.nightly
def test_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["databases", "--small", "--folder", str(tmp_path)]) == 0
    jobs = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert jobs == ["check", "query offset", "query key", "fix"]
    assert not list(tmp_path.iterdir())
