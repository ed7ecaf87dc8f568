"""A check of the nodes of a group: which to start first, what each start would lose."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.commands.check import CheckCommand, check_fleet
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.repair.compare.groups import MEMBER_LIMIT, Replica, ReplicaGroup, groups_of
from rocketfsck.store import open_store

from tests.conftest import Directory

HA, DLEDGER = "5.5.0-ha", "5.5.0-dledger-three"
HA_PARTING, HA_END = 11488, 17036


def grouped(group: Path, *names: str) -> list[ReplicaGroup]:
    return list(groups_of([open_store(group / name) for name in names]))


def by_name(group: ReplicaGroup) -> dict[str, Replica]:
    return {member.path.name: member for member in group.members}


def said(paths: Sequence[Path], capfd: pytest.CaptureFixture[str]) -> list[str]:
    capfd.readouterr()
    run(["check", *map(str, paths)])
    return capfd.readouterr().out.partition("Group: ")[2].splitlines()


def test_nodes_that_are_alike(group_dir: Directory, capfd: pytest.CaptureFixture[str]) -> None:
    (group,) = grouped(group_dir(DLEDGER), "n0", "n1", "n2")
    assert (group.manner, group.is_level, group.next_loss_count) == ("dledger", True, 0)
    assert said([group_dir(DLEDGER) / name for name in ("n0", "n1", "n2")], capfd) == [
        "3 nodes of DLedger, all with the same records: any of them may be started first"
    ]


def test_nodes_that_parted(group_dir: Directory, capfd: pytest.CaptureFixture[str]) -> None:
    root = group_dir(DLEDGER)
    (group,) = grouped(root, "n2", "n0-alone", "n1-later")
    assert [member.path.name for member in group.members] == ["n1-later", "n0-alone", "n2"]
    assert (group.manner, group.next_loss_count) == ("dledger", 18)
    first, parted, behind = group.members
    assert (first.relation, first.last_epoch, first.last_index, first.lost_count) == ("first", 3, 56, 0)
    assert (parted.relation, parted.parting_offset, parted.kept_offset) == ("parted", 13395, 13395)
    assert (parted.only_here_count, parted.lost_count, parted.agreed) == (15, 15, True)
    assert (behind.relation, behind.lacking_count, behind.lost_count) == ("behind", 18, 0)
    lines = said([root / name for name in ("n0-alone", "n1-later", "n2")], capfd)
    assert lines[0] == "3 nodes of DLedger; start n1-later first"
    assert "  n2 is behind by 18 records, and gets them" in lines
    assert "  Without n1-later, n0-alone leads, and 18 records of the first are lost" in lines


def test_master_and_slave(group_dir: Directory, capfd: pytest.CaptureFixture[str]) -> None:
    root = group_dir(HA)
    (group,) = grouped(root, "slave", "master-later")
    assert (group.manner, group.next_loss_count) == ("plain", 0)
    assert by_name(group)["slave"].lacking_count == 18
    (group,) = grouped(root, "slave-alone", "master-later")
    parted = by_name(group)["slave-alone"]
    assert (parted.parting_offset, parted.kept_offset, parted.lost_count) == (HA_PARTING, None, 0)
    lines = said([root / "slave-alone", root / "master-later"], capfd)
    assert any("it alone has 15 records" in line for line in lines)
    assert lines[-1].startswith("  A slave removes nothing")


@pytest.mark.parametrize(
    ("epochs", "first", "kept", "lost"),
    [
        ({"slave-alone": [(1, 0), (3, HA_PARTING)], "master-later": [(1, 0)]}, "slave-alone", HA_PARTING, 18),
        ({"slave-alone": [(1, 0), (2, HA_PARTING)], "master-later": [(1, 0), (3, HA_PARTING)]},
         "master-later", HA_PARTING, 15),
        ({"slave-alone": [(1, 0)], "master-later": [(2, 0)]}, "master-later", 0, 15),
    ],
)  # fmt: skip
def test_epochs_of_a_controller_choose(
    group_dir: Directory,
    tmp_path: Path,
    epochs: dict[str, list[tuple[int, int]]],
    first: str,
    kept: int,
    lost: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, entries in epochs.items():
        root = Path(shutil.copytree(group_dir(HA) / name, tmp_path / name))
        made = encode_epochs([EpochEntry(epoch, start) for epoch, start in entries])
        (root / "epochFileCheckpoint").write_bytes(made)
    (group,) = grouped(tmp_path, *epochs)
    assert group.manner == "controller"
    assert group.members[0].path.name == first
    other = group.members[1]
    assert (other.relation, other.kept_offset, other.lost_count) == ("parted", kept, lost)
    assert f"  {first} has the latest epoch" in "\n".join(said([tmp_path / name for name in epochs], capfd))


def test_stores_of_different_groups(group_dir: Directory, tmp_path: Path) -> None:
    ha, dledger = group_dir(HA), group_dir(DLEDGER)
    stores = [open_store(path) for path in (ha / "master", dledger / "n0", ha / "slave", dledger / "n1")]
    found = list(groups_of(stores))
    assert [sorted(by_name(group)) for group in found] == [["master", "slave"], ["n0", "n1"]]
    assert not grouped(ha.parent, f"{HA}/master", f"{DLEDGER}/n0")
    empty = Path(shutil.copytree(ha / "slave", tmp_path / "empty"))
    for file in (empty / "commitlog").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    assert not list(groups_of([open_store(ha / "master"), open_store(empty)]))
    for file in (empty / "commitlog").iterdir():
        file.unlink()
    assert not list(groups_of([open_store(ha / "master"), open_store(empty)]))


def test_the_document_has_the_groups(group_dir: Directory, capfd: pytest.CaptureFixture[str]) -> None:
    root = group_dir(HA)
    run(["check", str(root / "master"), str(root / "slave"), "--format", "json"])
    (group,) = json.loads(capfd.readouterr().out)["node_groups"]
    assert group["manner"] == "plain"
    assert [member["relation"] for member in group["members"]] == ["first", "level"]


def test_many_stores_and_quick_checks_are_not_compared(group_dir: Directory, tmp_path: Path) -> None:
    names = ("master", "slave")
    many = [
        Path(shutil.copytree(group_dir(HA) / names[number % 2], tmp_path / str(number)))
        for number in range(MEMBER_LIMIT + 1)
    ]
    assert check_fleet(CheckCommand(tuple(many[:2]))).report.node_groups
    assert not check_fleet(CheckCommand(tuple(many))).report.node_groups


@pytest.mark.parametrize(
    ("group", "names", "pos"), [(HA, ("master", "slave"), 88), (DLEDGER, ("n0", "n1", "n2"), 136)]
)
def test_a_damaged_copy_has_not_parted(
    group_dir: Directory,
    tmp_path: Path,
    group: str,
    names: tuple[str, ...],
    pos: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The node with the damage comes after its equals, and loses nothing by its joining them."""
    roots = [Path(shutil.copytree(group_dir(group) / name, tmp_path / name)) for name in names]
    first = roots[0]
    with open_store(first).commitlog.files[0].path.open("r+b") as stream:
        stream.seek(pos)  # the body of the first record
        (byte,) = stream.read(1)
        stream.seek(pos)
        stream.write(bytes([byte ^ 1]))
    (found,) = check_fleet(CheckCommand(tuple(roots))).report.node_groups
    damaged = by_name(found)[first.name]
    assert found.members[0].path != first
    assert (damaged.relation, damaged.lost_count, damaged.behind_count) == ("damaged", 0, 0)
    assert f"  {first.name} has the same records, but for 1 record that one of the two has damaged" in said(
        roots, capfd
    )


def test_a_damaged_node_that_is_behind(
    group_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    slave = Path(shutil.copytree(group_dir(HA) / "slave", tmp_path / "slave"))
    later = group_dir(HA) / "master-later"
    with open_store(slave).commitlog.files[0].path.open("r+b") as stream:
        stream.seek(88)
        stream.write(b"?")
    (found,) = check_fleet(CheckCommand((slave, later))).report.node_groups
    damaged = by_name(found)["slave"]
    assert (damaged.relation, damaged.only_here_count, damaged.behind_count) == ("damaged", 1, 18)
    lines = " ".join(said([slave, later], capfd))
    assert "for 1 record that one of the two has damaged, and is behind by 18 records" in " ".join(
        lines.split()
    )
