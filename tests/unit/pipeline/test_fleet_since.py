"""Checks of many stores since earlier ones: a state for each store, which workers read and write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.cli.show.replication import stores_lines
from rocketfsck.cli.show.text import Palette
from rocketfsck.engine import LocalEngine
from rocketfsck.page.fleet import fleet_page
from rocketfsck.pipeline.fleet import run, stages
from rocketfsck.pipeline.fleet.model import LATER_COLUMNS, FleetReport
from rocketfsck.pipeline.fleet.stages import End, Share
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.unit.pipeline.fleeting import Distant

NOW, DAY = 1_800_000_000_000, 86_400_000
GEOMETRY = WriteOptions(sync=False, geometry=Geometry(16_384, 20 * 40, slot_count=97, entry_count=300))


def messages(start: int, end: int) -> Iterator[OutgoingMessage]:
    for number in range(start, end):
        properties = {"TAGS": "tag", "KEYS": f"key{number}"}
        body = bytes([number % 251]) * (20 + number * 37 % 230)
        yield OutgoingMessage(f"T{number % 3}", body, 1_700_000_000_000 + number, properties=properties)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Two stores, and one that is missing (broker-9)."""
    for number in range(2):
        (tmp_path / f"broker-{number}").mkdir()
        write_store(tmp_path / f"broker-{number}" / "store", messages(number, 250), GEOMETRY)
    return tmp_path


@dataclass
class Night:
    """Checks of a fleet, `day` days after the first one."""

    fleet: Path
    day: int = 0

    def check(self, engine: Any = None, *, since: bool = True, scrub: float | None = None) -> dict[str, Any]:
        paths = [*(self.fleet / f"broker-{number}" for number in range(2)), self.fleet / "broker-9"]
        options = CheckOptions(
            now_timestamp=NOW + self.day * DAY, since=self.states if since else None, scrub=scrub
        )
        return said(check_stores(paths, options, engine or LocalEngine(1)))

    @property
    def states(self) -> Path:
        return self.fleet / "states"

    def read_times(self) -> dict[str, list[int]]:
        """The days when the commit log files of each store were read, by the number of files and the day."""
        found = {}
        for path in sorted(self.states.glob("*.state")):
            document = json.loads(path.read_bytes())
            found[path.name] = [(log["read_timestamp"] - NOW) // DAY for log in document["logs"]]
        return found


def said(report: FleetReport) -> dict[str, Any]:
    varying = ("run_id", "seconds", "started_timestamp", *LATER_COLUMNS)
    head = {name: value for name, value in report.head().items() if name not in varying}
    rows = [
        {name: value for name, value in row.as_row().items() if name not in varying} for row in report.stores
    ]
    return {**head, "rows": rows, "findings": [one | {"run_id": ""} for one in report.finding_rows()]}


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store is a large one, and a share is a task or two."""
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 400 << 10)
    monkeypatch.setattr(stages, "MOST_WEIGHT", 1 << 20)


def grow(fleet: Path) -> None:
    """More messages for one store, in the files that are there, as a broker does it."""
    store, grown = fleet / "broker-1" / "store", fleet / "grown"
    shutil.copytree(store, grown)
    write_store(grown, messages(250, 270), GEOMETRY, append=True)
    for new in (path for path in grown.rglob("*") if path.is_file()):
        path, data = store / new.relative_to(grown), new.read_bytes()
        if not path.exists():
            path.write_bytes(data)
        elif path.read_bytes() != data:
            with path.open("r+b") as file:
                file.write(data)
    shutil.rmtree(grown)


def damage(fleet: Path) -> None:
    """A body in the first commit log file, which has other times then."""
    file = min((fleet / "broker-0" / "store" / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[data.index(b"\x20" * 30) + 5] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("stages", ["whole", "cut"])
def test_nights_on_workers_are_those_of_a_process(
    fleet: Path, stages: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Read elsewhere, read here, read in full: the same rows and findings, whatever changed meanwhile."""
    if stages == "cut":
        request.getfixturevalue("cut")
    engine = Distant()
    expected = Night(fleet).check(since=False)
    assert Night(fleet).check(engine) == expected
    first = Night(fleet).read_times()
    assert len(first) == 2 and all(set(days) <= {0} for days in first.values())
    for day, change in enumerate((None, grow, damage), 1):
        if change is not None:
            change(fleet)
        night = Night(fleet, day)
        kept = tmp_path / f"kept-{day}"
        shutil.copytree(night.states, kept)
        found = night.check(engine)
        assert found == night.check(since=False)
        after = night.read_times()
        shutil.rmtree(night.states)
        shutil.copytree(kept, night.states)
        assert night.check() == found
        assert night.read_times() == after  # in this process the same files were read
    read = [sum(day in days for days in after.values()) for day in range(4)]
    assert read[0] == 2 and read[3] == 1  # the damaged file alone made another reading
    assert engine.count(End) > 0 or stages == "whole"


def test_what_was_read_and_taken_over_is_in_the_row(fleet: Path) -> None:
    def check(day: int, **options: Any) -> FleetReport:
        now = NOW + day * DAY
        options = {"since": fleet / "states", "now_timestamp": now, **options}
        return check_stores([fleet / "broker-*"], CheckOptions(**options), LocalEngine(1))

    first, second = check(0), check(1)
    grow(fleet)
    third, plain = check(2), check(2, since=None)
    for row in first.stores[:2]:
        assert (row.taken_over_byte_count, row.oldest_read_timestamp) == (0, NOW)
        assert row.read_byte_count == row.checked_byte_count
    for report in (second, third):
        assert report.oldest_read_timestamp == NOW
        for row in report.stores[:2]:
            assert row.read_byte_count is not None and row.taken_over_byte_count is not None
            assert row.read_byte_count + row.taken_over_byte_count == row.checked_byte_count
            assert row.read_byte_count < row.taken_over_byte_count
    assert (plain.oldest_read_timestamp, plain.stores[0].taken_over_byte_count) == (None, 0)
    head = third.head()
    assert head["read_byte_count"] > second.head()["read_byte_count"]
    assert fleet_page([row.as_row() for row in third.stores]).taken_over_byte_count > 0
    text = " ".join(stores_lines(third, Palette(False), 200, everything=False, quiet=True))
    assert "taken over; the part that was read longest ago was read 2027-01-15" in text
    assert "taken over" not in " ".join(
        stores_lines(plain, Palette(False), 200, everything=False, quiet=True)
    )


def test_what_is_known_weighs_nothing(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose tasks are sent away on the first night is a task of its own on the second."""
    monkeypatch.setattr(run, "FILE_WEIGHT", 0)
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 60_000)
    shares = []
    for day in range(3):
        engine = Distant()
        Night(fleet, day).check(engine)
        shares.append(engine.count(Share))
        grow(fleet) if not day else damage(fleet)
    assert shares[0] >= 2 and shares[1] == 0
    engine = Distant()
    Night(fleet, 4).check(engine, scrub=0.0)
    assert engine.count(Share) == shares[0]


def lose(states: Path) -> None:
    shutil.rmtree(states)


def replaced(states: Path) -> None:
    """As a check that ran meanwhile leaves it."""
    for path in states.iterdir():
        document = path.read_bytes()
        path.write_bytes(document.replace(b'"due_byte_count": 0', b'"due_byte_count": 1'))


def spoil(states: Path) -> None:
    for path in states.iterdir():
        path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("happens", [lose, replaced, spoil])
def test_a_state_that_goes_while_stages_run(fleet: Path, happens: Callable[[Path], None]) -> None:
    """The check of a large store begins again, with nothing; what it says is the same."""
    Night(fleet).check()
    grow(fleet)
    night = Night(fleet, 1)
    done: list[End] = []

    def happen(step: Any) -> bool:
        if isinstance(step, End) and not done:
            done.append(step)
            happens(night.states)
        return False

    expected = night.check(since=False)
    assert night.check(Distant(kills=happen)) == expected
    assert done and len(list(night.states.glob("*.state"))) >= 1
    assert night.check(Distant()) == expected


@pytest.mark.usefixtures("cut")
def test_files_that_change_while_stages_run(fleet: Path) -> None:
    """All stages go by what was there when the store was opened: none has tasks that another one lacks."""
    Night(fleet).check()
    grow(fleet)
    night = Night(fleet, 1)
    touched: list[Path] = []

    def happen(step: Any) -> bool:
        if isinstance(step, Share) and not touched:
            for file in (fleet / "broker-1" / "store").rglob("0000*"):
                copy = file.with_name("copy")
                shutil.copy2(file, copy)
                copy.replace(file)  # another inode: no file is what its proof says
                touched.append(file)
        return False

    expected = night.check(since=False)
    found = night.check(Distant(kills=happen))
    assert touched and found == expected


def test_what_keeps_a_state_from_being_kept_is_in_the_row(fleet: Path) -> None:
    night = Night(fleet)
    night.check()
    names = sorted(night.states.iterdir())
    names[0].write_text("somebody's list")
    rows = night.check(Distant())["rows"]
    assert sum("is not a state" in (row["error"] or "") for row in rows) == 1
    assert names[0].read_text() == "somebody's list"
    shutil.rmtree(night.states)
    night.states.write_text("a file")
    rows = night.check(Distant())["rows"]
    assert [row["state"] for row in rows] == ["failed"] * 3
    assert all("cannot be checked" in row["error"] for row in rows[:2])
