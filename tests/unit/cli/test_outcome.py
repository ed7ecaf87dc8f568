"""Clean, corrected, corrupt and failed differ in the exit status and in one word of the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.errors import outcome_of
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


@pytest.mark.parametrize(
    ("code", "word"),
    [
        *((0, "clean"), (1, "corrected"), (2, "corrected"), (3, "corrected"), (4, "corrupt"), (5, "corrupt")),
        *((8, "failed"), (9, "failed"), (12, "corrupt"), (16, "failed"), (32, "failed"), (128, "failed")),
        *((64, "failed"), (256, "failed")),
    ],
)
def test_one_word_for_every_status(code: int, word: str) -> None:
    assert outcome_of(code) == word


def test_what_commands_say(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    def said(*arguments: object) -> tuple[str, int]:
        ended = cli(*arguments, "--format", "json")
        document = json.loads(ended.out)
        assert document["exit_code"] == ended.code
        return document["outcome"], ended.code

    root = tmp_path / "torn"
    damage_store(store_dir("5.3.3-basic"), root, ["torn-tail"], 1, write_truth=False)
    assert said("check", store_dir("5.3.3-basic")) == ("clean", 0)
    assert said("check", root) == ("corrupt", 4)
    assert said("fix", "-n", root) == ("corrupt", 4)
    assert said("fix", "-p", root) == ("corrupt", 5)
    assert said("fix", "-y", root) == ("corrected", 1)
    assert said("fix", "-y", root) == ("clean", 0)
    assert cli("undo", root).code == 0
    assert said("apply", root) == ("corrected", 1)
    (head, *_) = cli("check", root, "--format", "jsonl").rows()
    assert (head["outcome"], head["exit_code"]) == ("clean", 0)


def test_what_cannot_be_opened_gives_no_document(cli: Cli, tmp_path: Path) -> None:
    """An empty output is no outcome: whoever reads it must look at the status."""
    gone = cli("check", tmp_path / "gone", "--format", "json")
    assert (gone.code, gone.out) == (8, "")
