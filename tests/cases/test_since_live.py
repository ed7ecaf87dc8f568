"""`check --since` next to a broker that writes: no step of the broker is taken for damage.

A store grows in place, file by file in the order of a broker: log, units, index, checkpoint; of a single
message, its entry, then the slot, then the header. A check runs at each step. The broker's lock is assumed,
and its clock runs ahead, so that however slow the machine is, all that is new is young (`verify.regular`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.formats.indexfile import INDEX_HEADER_SIZE, entry_pos
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry, LiveState, LockState
from rocketfsck.store.model import Store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.log.result import LogResult
from rocketfsck.verify.rules.catalog import describe, severity_of
from rocketfsck.verify.since import run
from rocketfsck.verify.since.proving import Proven
from rocketfsck.verify.tasks.execute import Executed
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.cases.test_since import files_of, said
from tests.conftest import NIGHTLY

COUNTS = (90, 150, 151, 210, 211, 330, 331) if NIGHTLY else (90, 150, 151)
"""Messages in the store each time that the broker rests."""
SLOT_COUNT = 97
OPTIONS = WriteOptions(sync=False, geometry=Geometry(16_384, 20 * 40, slot_count=SLOT_COUNT, entry_count=300))
HELD = LiveState(LockState.HELD, "a test says so")


BEGIN = 1_700_000_000_000


def messages(start: int, end: int, begin: int) -> Iterator[OutgoingMessage]:
    for number in range(start, end):
        properties = {"TAGS": f"tag{number % 3}", "KEYS": f"key{number}"}
        body = bytes([number % 251]) * (20 + number * 37 % 230)
        yield OutgoingMessage(f"T{number % 2}", body, begin + number * 5, properties=properties)


@pytest.fixture(scope="module")
def rests(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The store each time that the broker rests."""
    place, begin = tmp_path_factory.mktemp("rests"), int(time.time() * 1000) + 1_200_000
    made: list[Path] = []
    before = 0
    for count in COUNTS:
        path = place / str(count)
        if made:
            shutil.copytree(made[-1], path)
        new = messages(before, count, begin if made else BEGIN)
        write_store(path, new, OPTIONS, append=bool(made))
        made.append(path)
        before = count
    return made


def grown(store: Path, wanted: Path, *, by_one: bool = False) -> Iterator[str]:
    """Make the files of a store those of another one in a broker's order; the step that was done."""
    target = files_of(wanted)
    orders = ("commitlog/", "consumequeue/", "index/", "checkpoint", "config/")
    for family in orders:
        for name in sorted(name for name in target if name.startswith(family)):
            path, data = store / name, target[name]
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(len(data)))
                yield f"{name} made"
            parts = [(0, len(data))]
            if family == "index/" and by_one:
                entries = entry_pos(0, SLOT_COUNT)
                parts = [(entries, len(data)), (INDEX_HEADER_SIZE, entries), (0, INDEX_HEADER_SIZE)]
            for start, end in parts:
                with path.open("r+b") as file:
                    if file.read()[start:end] != data[start:end]:
                        file.seek(start)
                        file.write(data[start:end])
                        yield f"{name} {start}:{end}"


def steps(store: Path, rests: list[Path]) -> Iterator[str]:
    """All steps of the broker, which begins with the first of its rests."""
    for rest, count, before in zip(rests[1:], COUNTS[1:], COUNTS, strict=False):
        yield from grown(store, rest, by_one=count == before + 1)


def begun(rests: list[Path], place: Path) -> tuple[Path, Path]:
    """The store as a broker began with it, and the state of a check before."""
    store, state = place / "store", place / "state"
    shutil.copytree(rests[0], store)
    (store / "abort").write_text("4711")
    check(opened(store), state)
    return store, state


def opened(store: Path) -> Store:
    return replace(open_store(store), live=HELD)


def check(store: Store, since: Path | None = None) -> Report:
    return check_store(store, CheckOptions(since=since), engine=LocalEngine(1))


def bad(report: Report) -> list[str]:
    """What is above info."""
    return [describe(finding) for finding in report.findings if severity_of(finding) > Severity.INFO]


def test_no_step_of_a_broker_is_damage(rests: list[Path], tmp_path: Path) -> None:
    """At each step, and killed there: then a check with the state finds what one without it finds."""
    store, state = begun(rests, tmp_path)
    step_count = 0
    for step in steps(store, rests):
        step_count += 1
        live = opened(store)
        report = check(live, state)
        assert not bad(report), step
        verdict = judge_store(live, report)
        assert verdict.state == "running" and not verdict.starts
        shutil.copy(state, tmp_path / "killed")
        killed = open_store(store)
        found, expected = (check(killed, since) for since in (tmp_path / "killed", None))
        assert said(replace(found, started_timestamp=expected.started_timestamp)) == said(expected), step
    assert step_count > 8
    report = check(opened(store), state)
    assert report.since is not None and report.since.kept_file_count and not report.since.reason


@pytest.mark.parametrize("ahead", [1, 3])
def test_what_a_broker_writes_while_a_check_runs_is_no_damage(
    rests: list[Path], tmp_path: Path, ahead: int
) -> None:
    """The store is opened, the broker does some steps, and the files are read."""
    store, state = begun(rests, tmp_path)
    lists = [opened(store)]
    for step in steps(store, rests):
        lists.append(opened(store))
        if len(lists) > ahead:
            assert not bad(check(lists.pop(0), state)), step
    assert not bad(check(opened(store), state))


def test_damage_next_to_a_broker_is_found(rests: list[Path], tmp_path: Path) -> None:
    """A byte of an old body, changed while the broker writes: the sample of its file differs."""
    store, state = begun(rests, tmp_path)
    log = store / "commitlog" / f"{0:020}"
    for number, step in enumerate(grown(store, rests[1])):
        if number == 2:
            data = bytearray(log.read_bytes())
            data[110] ^= 1
            log.write_bytes(data)
        assert bool(bad(check(opened(store), state))) == (number >= 2), step


def test_what_a_broker_puts_between_queues_and_log_is_known(
    rests: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues and index are read, a broker stores a message, and the log is read: the next check goes on from
    there."""
    store, state = begun(rests[1:], tmp_path)
    look, log_of = run._look_at_others, Proven.log_of
    found: list[object] = []

    def after_a_message(proven: Proven, ran: Executed) -> None:
        list(grown(store, rests[2]))
        look(proven, ran)

    def noted(proven: Proven, place: int) -> LogResult | None:
        found.append(log_of(proven, place))
        return log_of(proven, place)

    with monkeypatch.context() as between:
        between.setattr(run, "_look_at_others", after_a_message)
        assert not bad(check(opened(store), state))
    monkeypatch.setattr(Proven, "log_of", noted)
    assert not bad(check(opened(store), state))
    assert found and None not in found
