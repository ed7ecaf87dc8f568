"""damage: its options and forms of output. What the faults cause is the matter of other tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.writer.damage import DAMAGES, truth_path

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


def test_a_copy_is_broken_and_the_truth_told(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    target = tmp_path / "broken"
    ended = cli("damage", store_dir("5.3.3-basic"), "--into", target, "--fault", "body-crc", "--seed", 4)
    assert ended.code == 0
    assert "body-crc: bodyCRC of the record at " in ended.out
    assert "must be found: CL004 at file commitlog/" in ended.out
    assert ended.out.rstrip().splitlines()[-1] == f"Next: rocketfsck check {target}"
    checked = cli("check", target)
    assert checked.code == 4
    assert "CL004 record-body-crc (1)" in checked.out


def test_json_is_the_truth_beside_the_copy(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    target = tmp_path / "broken"
    faults = ("--fault", "chain-cycle", "--fault", "stray-file:in=consumequeue")
    ended = cli("damage", store_dir("5.3.3-multiseg"), "--into", target, *faults, "--format", "json")
    assert json.loads(ended.out) == json.loads(truth_path(target).read_text("utf-8"))
    assert [act["fault"] for act in json.loads(ended.out)["acts"]] == ["chain-cycle", "stray-file"]


def test_a_second_commit_log_path_is_told(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    target = tmp_path / "broken"
    ended = cli("damage", store_dir("5.3.3-basic"), "--into", target, "--fault", "segment-twice")
    paths = f"--commitlog-path {target}/commitlog --commitlog-path {target}/commitlog2"
    assert ended.out.rstrip().endswith(f"check {target} {paths}")
    assert "ST012" in cli("check", target, *paths.split()).out


def test_every_fault_is_listed(cli: Cli) -> None:
    lines = cli("damage", "--list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(DAMAGES)
    faults = json.loads(cli("damage", "--list", "--format", "json").out)["faults"]
    assert {fault["name"]: tuple(fault["causes"]) for fault in faults} == {
        name: damage.causes for name, damage in DAMAGES.items()
    }


def test_in_place(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("5.3.3-basic")
    assert cli("damage", store, "--in-place", "--fault", "checkpoint-tail").code == 0
    assert any((store / "checkpoint").read_bytes()[40:])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--into", "{tmp}/x"], "name a fault"),
        (["--fault", "body-flip"], "Give --into DIR"),
        (["--fault", "body-flip", "--into", "{tmp}/x", "--in-place"], "Give --into DIR"),
        (["--fault", "body-flop", "--into", "{tmp}/x"], "did you mean 'body-flip'"),
        (["--fault", "body-flip", "--into", "{store}/x"], "is inside the store"),
        (["--fault", "body-flip", "--into", "{tmp}"], "exists"),
        (["--fault", "body-flip", "--into", "{tmp}/x", "-o", "{store}/out"], "is inside"),
        (["--fault", "body-flip", "--into", "{tmp}/x", "-o", "{tmp}/x/out"], "is inside"),
    ],
)
def test_usage_errors(
    cli: Cli, store_dir: Directory, tmp_path: Path, arguments: list[str], word: str
) -> None:
    store = store_dir("5.3.3-basic")
    given = [argument.format(tmp=tmp_path, store=store) for argument in arguments]
    ended = cli("damage", store, *given)
    assert ended.code == 16
    assert word in ended.err
    assert list(tmp_path.iterdir()) == []
