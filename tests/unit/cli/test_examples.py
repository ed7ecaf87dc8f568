"""Every example in the help of a command is run, on a store with a torn tail."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.base import EXAMPLES
from rocketfsck.cli.commands import COMMANDS
from rocketfsck.query.ids import offset_id_of
from rocketfsck.store.opening import open_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

LINES = [line for examples in EXAMPLES.values() for _, line in examples if not line.startswith("browse")]
"""`browse` needs a terminal: it has tests of its own."""
BEFORE = {
    "page": "check STORE --format json -o check.json",
    "apply": "plan STORE -o plan.json",
    "undo": "fix STORE --yes",
}
FOUND = frozenset({"query id", "query offset", "query key", "query unique-key", "query life", "query time"})


@pytest.fixture
def values(store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    source = store_dir("5.3.3-multiseg")
    damage_store(source, Path("STORE"), ["torn-tail"], 7, write_truth=False)
    shutil.copytree(source, "REPLICA")
    message = next(
        found for found in iter_messages(open_store(source)) if found.topic == "Seg0" and found.keys
    )
    return {
        "MSGID": offset_id_of(message, message.physical_offset),
        "UNIQKEY": str(message.unique_key),
        "KEY": message.keys[0],
    }


def _run(cli: Cli, line: str, values: dict[str, str]) -> int:
    if line.startswith(("query", "damage", "extract")):  # of a store without damage
        values = {**values, "STORE": "REPLICA"}
    ended = cli(*(values.get(word, word) for word in shlex.split(line)))
    if line == "fix STORE":
        assert (ended.code, "there is no terminal to ask" in ended.err) == (16, True)
    else:
        assert ended.code in range(8), (line, ended.err)
    return ended.code


@pytest.mark.parametrize("line", LINES)
def test_example(cli: Cli, values: dict[str, str], line: str) -> None:
    first = BEFORE.get(line.split()[0])
    if first is not None:
        _run(cli, first, values)
    code = _run(cli, line, values)
    if any(line.startswith(f"{name} ") for name in FOUND):
        assert code == 0, "the example finds something"


def test_every_command_has_examples(cli: Cli) -> None:
    assert {name.partition(" ")[0] for name in EXAMPLES} == set(COMMANDS)
    for name, examples in EXAMPLES.items():
        shown = cli(*name.split(), "--help").out
        assert all(f"  rocketfsck {line}\n" in shown for _, line in examples)
        assert all(line.startswith(name) for _, line in examples)
