"""The examples for a check every night: each command line in them is run, each metric and column is there."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from prometheus_client.parser import text_string_to_metric_families

from rocketfsck.pipeline.fleet.model import ORDER

from tests.conftest import DATA, Directory
from tests.unit.cli.conftest import Cli, cli  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]
NIGHT = ROOT / "examples" / "night"
MULTISEG = "4.9.8-multiseg"


@pytest.fixture
def place(store_dir: Directory, tmp_path: Path) -> Path:
    """A machine with two stores, on which everything is below this directory."""
    for broker, name in (("broker-a", "5.3.3-basic"), ("broker-b", MULTISEG)):
        shutil.copytree(store_dir(name), tmp_path / "data" / broker / "store")
    for name in ("rocketfsck", "node_exporter"):
        (tmp_path / "var" / "lib" / name).mkdir(parents=True)
    program = tmp_path / "bin" / "rocketfsck"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rocketfsck.cli "$@"\n')
    program.chmod(0o755)
    return tmp_path


def _below(text: str, place: Path) -> str:
    return re.sub(r"(?<![\w/])/(data|var)/", rf"{place}/\1/", text)


def _flip(place: Path) -> None:
    file = min((place / "data" / "broker-b" / "store" / "commitlog").iterdir())
    content = bytearray(file.read_bytes())
    content[65_536] ^= 1
    file.write_bytes(content)


def _shell(shell: str, line: str, place: Path) -> tuple[int, str]:
    path = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    ended = subprocess.run(
        [shell, "-c", _below(line, place)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def _unit(name: str) -> dict[str, str]:
    lines = (line for line in (NIGHT / name).read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_cron_mails_only_news(place: Path) -> None:
    *_, line = (NIGHT / "rocketfsck.cron").read_text().splitlines()
    *times, user, command = line.split(maxsplit=6)
    assert all(re.fullmatch(r"\d+|\*", time) for time in times)
    assert (len(times), user, "%" in command) == (5, "rocketmq", False)
    _flip(place)
    _, mail = _shell("sh", command, place)
    assert mail.startswith("exit status 4: Checked 2 stores")
    assert _shell("sh", command, place) == (0, "")


def test_systemd(cli: Cli, place: Path) -> None:  # noqa: F811
    unit, timer = _unit("rocketfsck-night.service"), _unit("rocketfsck-night.timer")
    assert re.fullmatch(r"\*-\*-\* \d\d:\d\d:\d\d", timer["OnCalendar"])
    check, page = (shlex.split(_below(unit[name], place))[1:] for name in ("ExecStart", "ExecStopPost"))
    assert (cli(*check).code, cli(*page).code) == (0, 0)
    _flip(place)
    assert [cli(*check).code, cli(*check).code] == [4, 0]
    families = text_string_to_metric_families((place / "var/lib/node_exporter/rocketfsck.prom").read_text())
    metrics = {family.name for family in families}
    assert cli(*page).code == 0
    assert "broker-b" in (place / "var/lib/rocketfsck/newest.html").read_text()
    asked = {name for text in _queries() for name in re.findall(r"rocketfsck_\w+", text)}
    assert asked
    assert asked <= metrics


def test_states_in_queries_are_states() -> None:
    states = {
        state
        for text in _queries()
        for found in re.findall(r'state=~?"(.*?)"', text)
        for state in found.split("|")
    }
    assert states
    assert states <= set(ORDER)


def test_airflow(place: Path) -> None:
    """The command of the task, without Airflow: the module's constants, and the arguments of the operator."""
    tree = ast.parse((NIGHT / "rocketfsck_night.py").read_text())
    names: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            exec(compile(ast.Module([node], []), "dag", "exec"), names)
    [task] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "BashOperator"
    ]
    given = {str(item.arg): item.value for item in task.keywords}
    command = eval(compile(ast.Expression(given["bash_command"]), "dag", "eval"), names)
    assert ast.literal_eval(given["retries"]) == 0
    _flip(place)
    assert [_shell("bash", command, place)[0] for _ in range(2)] == [4, 0]
    assert (place / "var/lib/rocketfsck/newest.html").exists()


def _queries() -> list[str]:
    panels = json.loads((NIGHT / "grafana-metrics.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*asked, *re.findall(r"expr: (.*)", (NIGHT / "alerts.yml").read_text())]


@pytest.mark.parametrize("name", ["grafana-metrics.json", "grafana-tables.json"])
def test_dashboards_are_as_grafana_says(name: str) -> None:
    schema = json.loads((DATA / "schemas" / "grafana-dashboard-13.2.3.json").read_text())
    dashboard = json.loads((NIGHT / name).read_text())
    validator = Draft7Validator(schema)
    assert [error.message[:300] for error in validator.iter_errors(dashboard)] == []
    other = deepcopy(dashboard)
    other["panels"][0]["gridPos"]["w"] = "wide"
    assert not validator.is_valid(other)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
