"""The workflows of the forge: YAML that parses, make targets that exist, no secret, no right too many."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+|[0-9a-f]{40})")
LATER = {"3.14"}
"""Versions of Python that the workflows try before the project names them."""


def _jobs(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return jobs


def _made(job: dict[str, Any]) -> set[str]:
    """The make targets that a job runs."""
    runs = [step["run"] for step in job["steps"] if "run" in step]
    targets = {word for run in runs for word in re.findall(r"^make (.+)$", run, re.MULTILINE)}
    if "${{ matrix.target }}" in targets:
        targets |= {*job["strategy"]["matrix"]["target"]}
    return targets - {"${{ matrix.target }}"}


def test_there_are_three() -> None:
    assert [path.stem for path in WORKFLOWS] == ["nightly", "release", "test"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_make_targets_that_exist(path: Path) -> None:
    found = set[str]()
    for name, job in _jobs(path).items():
        targets = _made(job)
        assert targets <= TARGETS, (name, targets - TARGETS)
        found |= targets
    assert found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_secret_and_few_rights(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    for job in _jobs(path).values():
        assert {*job.get("permissions", {})} <= {"contents", "id-token", "attestations"}
        assert "timeout-minutes" in job or "environment" in job
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or PINNED.fullmatch(step["uses"]), step


def test_every_supported_python_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    supported = {line.split()[-1] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)}
    matrix = _jobs(ROOT / ".github" / "workflows" / "test.yml")["test"]["strategy"]["matrix"]
    assert {*matrix["python"]} == supported | LATER
