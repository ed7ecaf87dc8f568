"""SARIF fixes, carried out byte by byte, make of a file what `fix` makes of it."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from jsonschema import Draft4Validator

from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.tried import TOTAL_LIMIT, KeepingTree, NotKeptError, replacements_of
from rocketfsck.store.opening import open_store
from rocketfsck.verify.run import check_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import DATA, Directory
from tests.unit.cli.conftest import Cli

FIXED = {
    "body-flip": ("5.1.3-basic", "commitlog/00000000000000000000"),
    "checkpoint-future": ("5.3.3-multiseg", "checkpoint"),
    "config-trailing": ("5.3.3-basic", "config/consumerOffset.json"),
    "dangling-tail": ("4.9.8-multiseg", "consumequeue/Seg1/0/00000000000000003600"),
    "physical-offset": ("5.3.3-multiseg", "commitlog/00000000000000393216"),
}


def _results(text: str) -> list[dict[str, Any]]:
    document = json.loads(text)
    schema = json.loads((DATA / "schemas" / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))
    assert [error.message[:300] for error in Draft4Validator(schema).iter_errors(document)] == []
    results: list[dict[str, Any]] = document["runs"][0]["results"]
    return results


def _carry_out(root: Path, change: dict[str, Any]) -> str:
    """Replace bytes of a file as any reader of SARIF would; its name."""
    name = unquote(change["artifactLocation"]["uri"])
    data = bytearray((root / name).read_bytes())
    for item in change["replacements"]:
        region = item["deletedRegion"]
        inserted = base64.b64decode(item.get("insertedContent", {}).get("binary", ""))
        data[region["byteOffset"] : region["byteOffset"] + region["byteLength"]] = inserted
    (root / name).write_bytes(data)
    return name


@pytest.mark.parametrize("fault", FIXED)
def test_fixes_are_what_fix_does(cli: Cli, store_dir: Directory, tmp_path: Path, fault: str) -> None:
    source, file = FIXED[fault]
    damaged = tmp_path / "store"
    damage_store(store_dir(source), damaged, [fault], 7, write_truth=False)
    ours = tmp_path / "ours"
    shutil.copytree(damaged, ours)
    results = _results(cli("check", damaged, "--format", "sarif").out)
    fixes = [fix for result in results for fix in result.get("fixes", [])]
    [fix] = [fix for number, fix in enumerate(fixes) if fix not in fixes[:number]]
    assert fix["description"]["text"]
    names = [_carry_out(ours, change) for change in fix["artifactChanges"]]
    assert names == [file]
    assert (ours / file).read_bytes() != (damaged / file).read_bytes()
    cli("fix", damaged, "--yes")
    assert (ours / file).read_bytes() == (damaged / file).read_bytes()


@pytest.mark.parametrize("fault", ["index-count-low", "stray-file"])
def test_what_replaces_no_bytes_has_no_fix(
    cli: Cli, store_dir: Directory, tmp_path: Path, fault: str
) -> None:
    damage_store(store_dir("5.3.3-multiseg"), tmp_path / "store", [fault], 7, write_truth=False)
    results = _results(cli("check", tmp_path / "store", "--format", "sarif").out)
    assert results and not any("fixes" in item for item in results)


def test_actions_after_others_are_left_out(store_dir: Directory, tmp_path: Path) -> None:
    """What an act reads may be what an earlier one writes."""
    target = tmp_path / "store"
    damage_store(
        store_dir("5.3.3-multiseg"), target, ["body-flip", "checkpoint-future"], 7, write_truth=False
    )
    store = open_store(target)
    plan = make_plan(store, check_store(store))
    assert [action.name for action in plan.actions] == ["flip-bit", "write-checkpoint"]
    assert [action.name for action, _ in replacements_of(plan, store)] == ["flip-bit"]


def test_the_tree_keeps_few_bytes_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    tree = KeepingTree(tmp_path)
    assert (tree.size("file"), tree.read("file", 2, 3)) == (10, b"234")
    tree.resize("file", 10)
    assert tree.kept == []
    tree.write("file", 4, b"xy")
    tree.write("file", 6, b"z")
    for act in (
        lambda: tree.read("file", 0, 1),
        lambda: tree.size("file"),
        lambda: tree.write("file", 3, b"ab"),
        lambda: tree.write("file", 11, b"a"),
        lambda: tree.set_aside("file"),
        lambda: tree.create("new", 1),
        tree.scratch,
    ):
        with pytest.raises(NotKeptError):
            act()
    assert [(item.pos, item.size, item.data) for item in tree.kept] == [(4, 2, b"xy"), (6, 1, b"z")]
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_lengths_are_replacements_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    for size, wanted in ((7, (7, 3, b"")), (12, (10, 0, b"\0\0"))):
        tree = KeepingTree(tmp_path)
        tree.resize("file", size)
        assert [(item.pos, item.size, item.data) for item in tree.kept] == [wanted]
        with pytest.raises(NotKeptError):
            tree.write("file", 0, b"a")
    with pytest.raises(NotKeptError):
        KeepingTree(tmp_path).resize("file", TOTAL_LIMIT)


def test_zeros_of_a_hostile_length_are_not_made(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(NotKeptError):
        KeepingTree(tmp_path).zero("file", 0, 1 << 40)
    tree = KeepingTree(tmp_path)
    tree.zero("file", 5, 9)
    assert [(item.pos, item.size, item.data) for item in tree.kept] == [(5, 4, bytes(4))]
