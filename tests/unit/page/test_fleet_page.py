"""The page of several stores: states in earlier runs, and groups of replicas as lanes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.common.documents import to_document
from rocketfsck.page import fleet
from rocketfsck.page.fleet import fleet_page
from rocketfsck.pipeline.fleet import tables
from rocketfsck.repair.compare.groups import groups_of
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.pagesamples import sample_rows
from tests.unit.page.test_page import wrong

DLEDGER = "5.5.0-dledger-three"


def earlier(run_id: str, root: str, state: str = "healthy") -> dict[str, Any]:
    return {"run_id": run_id, "root": root, "state": state, "error_count": 1, "warning_count": 0}


def test_a_page_of_one_run_has_no_history() -> None:
    rows = sample_rows(3)
    assert fleet_page(rows).history is None
    own = earlier(rows[0]["run_id"], rows[0]["root"])
    assert fleet_page(rows, earlier=[own]).history is None
    other = earlier("20231101T000000Z-1", "/data/another")
    assert fleet_page(rows, earlier=[other]).history is None


def test_states_of_earlier_runs_are_those_of_the_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the runs; a store that a run did not check has no state in it."""
    rows = sample_rows(3)
    roots = [str(row["root"]) for row in rows]
    said = [
        earlier("20231103T000000Z-0a", roots[0], "damaged"),
        earlier("20231102T000000Z-0a", roots[0]),
        earlier("20231102T000000Z-0a", roots[2], "refused"),
        earlier("20231103T000000Z-0a", roots[2], "no-state"),
    ]
    page = fleet_page(rows, earlier=said)
    assert page.history is not None
    assert page.history.runs == ("20231102T000000Z-0a", "20231103T000000Z-0a")
    listed = page.stores.root
    states = page.history.states
    found = {
        (listed[store], page.history.runs[at]): state
        for store, at, state in zip(states.store, states.run, states.state, strict=True)
    }
    assert found == {
        (roots[0], "20231102T000000Z-0a"): "healthy",
        (roots[0], "20231103T000000Z-0a"): "damaged",
        (roots[2], "20231102T000000Z-0a"): "refused",
    }
    assert wrong("page-fleet", to_document(page)) is None
    monkeypatch.setattr(fleet, "HISTORY_LIMIT", 3)
    few = fleet_page(rows, earlier=said).history
    assert few is not None and few.runs == ("20231103T000000Z-0a",)


def test_the_lanes_of_a_group_that_parted(group_dir: Directory) -> None:
    root = group_dir(DLEDGER)
    (group,) = groups_of([open_store(root / name) for name in ("n2", "n0-alone", "n1-later")])
    page = fleet_page([], groups=[(group, ["start n1-later first"])])
    (found,) = page.groups
    assert (found.manner, found.lines) == ("dledger", ("start n1-later first",))
    lanes = {Path(lane.root).name: lane for lane in found.lanes}
    first, parted, behind = lanes["n1-later"], lanes["n0-alone"], lanes["n2"]
    assert (first.relation, first.different, first.store) == ("first", (), -1)
    assert parted.parting_offset == 13395
    assert parted.different[0][0] >= 13395, "the same up to there"
    assert parted.different_count > 0
    assert behind.held == ((0, 13395),) and behind.different == ()
    for lane, member in zip(found.lanes, group.members, strict=True):
        assert lane.held[-1][1] == member.end_offset
    assert wrong("page-fleet", to_document(page)) is None


def test_a_lane_has_holes_and_damage(store_dir: Directory, tmp_path: Path) -> None:
    """A replica without its second file, and with a record that is damaged."""
    root = store_dir("5.3.3-multiseg")
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    logs = sorted((copy / "commitlog").iterdir())
    size = logs[0].stat().st_size
    logs[1].unlink()
    with logs[2].open("r+b") as file:
        file.seek(20_000)
        file.write(b"\xff\x00\xff")
    (group,) = groups_of([open_store(root), open_store(copy)], worse={copy})
    first, other = fleet_page([], groups=[(group, [])]).groups[0].lanes
    assert first.root == str(root) and len(first.held) == 1
    assert [hole for (_, hole), _ in zip(other.held, other.held[1:], strict=False)] == [size]
    assert other.held[1][0] == 2 * size
    assert any(start <= 2 * size + 20_000 < end for start, end in other.different)


def test_check_draws_what_earlier_runs_found(group_dir: Directory, tmp_path: Path) -> None:
    """The first page has no history; the second the state of the first run, also as `page` makes it."""
    shutil.copytree(group_dir(DLEDGER), tmp_path / "group")
    stores = [tmp_path / "group" / name for name in ("n0-alone", "n1-later")]
    tables = tmp_path / "tables"

    def checked(name: str) -> dict[str, Any]:
        asked = ["--tables", str(tables), "--report", str(tmp_path / name), "--quiet"]
        assert run(["check", *map(str, stores), *asked]) in (0, 4)
        found: dict[str, Any] = json.loads((tmp_path / name).read_text("utf-8"))
        return found

    first = checked("first.json")
    assert first["history"] is None
    assert [len(group["lanes"]) for group in first["groups"]] == [2]
    log = sorted((stores[0]).rglob("commitlog/*"))[:1] or sorted(stores[0].rglob("data/*"))[:1]
    with log[0].open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff\x00\xff")
    second = checked("second.json")
    (name,) = second["history"]["runs"]
    assert name == first["stores"]["run_id"][0]
    before = dict(zip(first["stores"]["root"], first["stores"]["state"], strict=True))
    states = second["history"]["states"]
    roots = second["stores"]["root"]
    assert {
        roots[store]: state for store, state in zip(states["store"], states["state"], strict=True)
    } == before
    assert run(["page", str(tables), "-o", str(tmp_path / "again.json")]) == 0
    again = json.loads((tmp_path / "again.json").read_text("utf-8"))
    assert again["history"] == second["history"]
    assert run(["page", str(tables / "stores" / f"{name}.parquet"), "-o", str(tmp_path / "old.json")]) == 0
    assert json.loads((tmp_path / "old.json").read_text("utf-8"))["history"] is None


def test_the_newest_runs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RUN_LIMIT", 2)
    rows = [{**earlier(f"2023110{day}T000000Z-0", "/data"), "root_b64": None} for day in (2, 1, 4, 3, 4)]
    monkeypatch.setattr(tables.RunTables, "rows", lambda *_: iter(rows))
    found = tables.earlier_states(tables.RunTables(Path()), "20231105T000000Z-0")
    assert [row["run_id"][:8] for row in found] == ["20231103", "20231104", "20231104"]
    assert all("root_b64" not in row for row in found)
