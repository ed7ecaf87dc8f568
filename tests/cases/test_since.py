"""`check --since`: what it finds of a store that has grown is what a check finds that reads everything.

old store -> state -> the same files go on, with damage -> check with the state == check without
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.common.documents import LIMITS
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.pipeline.fleet.run import check_stores
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.report import SinceFacts
from rocketfsck.verify.since.state import BLOCK_SIZE
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.damage import DAMAGES, DamageError, damage_store

from tests.cases.test_damage import BY_CLASS
from tests.conftest import NIGHTLY

NOW = 1_800_000_000_000
BEGIN = 1_700_000_000_000
OLD_COUNT, COUNT = 230, 520
OPTIONS = WriteOptions(sync=False, geometry=Geometry(16_384, 20 * 40, slot_count=97, entry_count=300))
SEEDS = range(6 if NIGHTLY else 1)
ASKED = DAMAGES if NIGHTLY else sorted(BY_CLASS.values())
"""By day one damage of each class: what is read again is decided by files and places, not by the fault."""


def messages(start: int, end: int) -> Iterator[OutgoingMessage]:
    """Messages of four topics with two queues each, every third of them without a key."""
    for number in range(start, end):
        properties = {"TAGS": f"tag{number % 3}"}
        if number % 3:
            properties["KEYS"] = f"key{number} other{number % 17}"
        body = bytes([number % 251]) * (20 + number * 37 % 230)
        yield OutgoingMessage(
            f"T{number % 4}", body, BEGIN + number * 5, queue_id=number % 2, properties=properties
        )


def check(store: Path, **options: Any) -> Report:
    return check_store(open_store(store), CheckOptions(now_timestamp=NOW, **options), engine=LocalEngine(1))


def said(report: Report) -> dict[str, Any]:
    """All that a report says, but for the time that the check took and what it did not read again."""
    coverage = replace(report.coverage, taken_over_byte_count=0)
    return replace(report, seconds=0.0, since=None, coverage=coverage).to_json()


def since_of(report: Report) -> SinceFacts:
    assert report.since is not None
    return report.since


def files_of(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def become(store: Path, other: Path, *, keeps_times: bool = False) -> None:
    """Make the files of a store those of another one, in place, as a broker does it."""
    wanted = files_of(other)
    for name, data in files_of(store).items():
        path = store / name
        if name not in wanted:
            path.unlink()
        elif data != wanted[name]:
            status = path.stat()
            with path.open("r+b") as file:
                file.write(wanted[name])
                file.truncate()
            if keeps_times:
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for name, data in wanted.items():
        path = store / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store, and the same after more messages."""
    place = tmp_path_factory.mktemp("since")
    write_store(place / "old", messages(0, OLD_COUNT), OPTIONS)
    shutil.copytree(place / "old", place / "new")
    write_store(place / "new", messages(OLD_COUNT, COUNT), OPTIONS, append=True)
    return place / "old", place / "new"


def begun(old: Path, place: Path) -> tuple[Path, Path]:
    """A copy of the old store, and the state of its check."""
    store, state = place / "store", place / "state"
    shutil.copytree(old, store)
    check(store, since=state)
    return store, state


def proven_parts(state: Path) -> Iterator[tuple[str, int, int]]:
    """The parts of files that a state has proofs of."""
    document = json.loads(state.read_bytes())
    for item in [*document["logs"], *document["queues"], *document["indexes"]]:
        for proof in item.get("proofs") or [item["proof"]]:
            yield proof["file"], proof["start"], proof["end"]


def touches_old_bytes(state: Path, sound: Path, damaged: Path) -> bool:
    """Whether a byte differs in a part that the state proves, of a file that is still as long."""
    one, two = files_of(sound), files_of(damaged)
    return any(
        name in two and len(one[name]) == len(two[name]) and one[name][start:end] != two[name][start:end]
        for name, start, end in proven_parts(state)
    )


def test_what_is_new_alone_is_read(stores: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = stores
    store, state = begun(old, tmp_path)
    same = check(store, since=state)
    assert said(same) == said(check(store))
    kept = since_of(same)
    assert kept.previous_timestamp == NOW and not kept.reason and kept.kept_file_count > 2
    become(store, new)
    more = check(store, since=state)
    assert said(more) == said(check(store)) and more.exit_code == 0
    assert since_of(more).kept_file_count == kept.kept_file_count
    again = check(store, since=state)
    assert said(again) == said(check(store))
    assert since_of(again).kept_file_count > kept.kept_file_count


@pytest.mark.parametrize("name", ASKED)
def test_damage_of_what_is_new(name: str, stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Of the faults that a small plain store can have; of old bytes only with all of them read again."""
    old, new = stores
    done = 0
    for seed in SEEDS:
        place = tmp_path / str(seed)
        place.mkdir()
        try:
            damage_store(new, place / "damaged", [name], seed)
        except DamageError:
            continue
        done += 1
        store, state = begun(old, place)
        is_old = touches_old_bytes(state, new, place / "damaged")
        become(store, place / "damaged", keeps_times=is_old)
        expected = said(check(store))
        if is_old:
            found = check(store, since=state, scrub=0.0)
        else:
            found = check(store, since=state)
        assert said(found) == expected, (seed, is_old)
        assert said(check(store, since=state)) == expected, (seed, is_old)
        shutil.rmtree(place)
    if not done:
        pytest.skip("the store cannot have this fault")


def test_a_state_that_does_not_help_is_a_reason_to_read_everything(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    store, state = begun(stores[0], tmp_path)
    expected, good = said(check(store)), state.read_bytes()
    other = good.replace(b'"schema_version": 1', b'"schema_version": 2', 1)
    older = good.replace(b'"tool_version": "', b'"tool_version": "0.0.', 1)
    changed = good.replace(b'"used": ', b'"used": 1', 1)
    for data, words in (
        (b"", "damaged"),
        (good[:-300], "damaged"),
        (other, "damaged"),
        (older, "rocketfsck 0.0."),
        (changed, "has changed"),
    ):
        state.write_bytes(data)
        report = check(store, since=state)
        assert words in since_of(report).reason and said(report) == expected
        assert since_of(check(store, since=state)).kept_file_count > 2  # the state was replaced
    cross = check(store, since=state, level="cross")
    assert "options" in since_of(cross).reason and not since_of(cross).kept_file_count


def test_a_state_that_is_too_long_does_not_help(
    stores: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state = begun(stores[0], tmp_path)
    monkeypatch.setitem(LIMITS, "since state", state.stat().st_size - 1)
    report = check(store, since=state)
    assert since_of(report).reason.startswith("the state file has ")
    assert said(report) == said(check(store)) and not since_of(report).kept_file_count


def test_what_is_no_state_is_not_overwritten(stores: tuple[Path, Path], tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("a list of things")
    with pytest.raises(UsageError, match="is not a state"):
        check(stores[0], since=precious)
    assert precious.read_text() == "a list of things"
    with pytest.raises(UsageError, match="inside the store"):
        check(stores[0], since=stores[0] / "state")


@pytest.mark.parametrize(
    "options", [{"stop_after": 1}, {"max_duration": 1.0}, {"level": "quick"}, {"since": None}]
)
def test_options_that_do_not_go_with_it(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="since"):
        CheckOptions(**{"since": tmp_path / "state", "scrub": 1.0, **options})


def test_old_bytes_between_samples_are_found_by_the_scrub_alone(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """A body of the first log file, with the file's times as they were."""
    store, state = begun(stores[0], tmp_path)
    file = store / "commitlog" / f"{0:020}"
    status, data = file.stat(), bytearray(file.read_bytes())
    proof = next(item["proof"] for item in json.loads(state.read_bytes())["logs"])
    samples = {0, (proof["end"] - BLOCK_SIZE) // BLOCK_SIZE * BLOCK_SIZE}
    pos = next(
        pos for pos in range(BLOCK_SIZE, len(data)) if data[pos : pos + 20] == data[pos : pos + 1] * 20
    )
    assert not any(start <= pos < start + BLOCK_SIZE for start in samples)
    data[pos] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert check(store, since=state).exit_code == 0
    found = check(store, since=state, scrub=0.0)
    assert said(found) == said(check(store)) and found.exit_code == 4
    assert said(check(store, since=state)) == said(found)


def test_a_scrub_reads_each_part_once_in_a_period(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """A week of nights: some of the log files each night. A minute later nothing is due."""
    store, state = begun(stores[0], tmp_path)
    day, read_again = 86_400_000, []
    for night in range(1, 8):
        options = CheckOptions(now_timestamp=NOW + night * day, since=state, scrub=7 * 86_400.0)
        check_store(open_store(store), options, engine=LocalEngine(1))
        times = [item["read_timestamp"] for item in json.loads(state.read_bytes())["logs"]]
        read_again.append(sum(time == NOW + night * day for time in times))
    assert min(times) > NOW and len(times) > 3
    assert sum(read_again) <= len(times) + 1 and max(read_again) < len(times)
    minutes = [NOW + 7 * day + 60_000 * number for number in range(1, 4)]
    for now in minutes:
        options = replace(options, now_timestamp=now)
        check_store(open_store(store), options, engine=LocalEngine(1))
    parts = json.loads(state.read_bytes())
    again = [
        item
        for item in (*parts["logs"], *parts["queues"], *parts["indexes"])
        if item["read_timestamp"] in minutes
    ]
    assert len(again) <= 2


def test_files_in_front_expire(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """What a broker deletes: the first log file, and a queue file whose units all lead into that file."""
    store, state = begun(stores[1], tmp_path)
    (store / "commitlog" / f"{0:020}").unlink()
    expected = check(store)
    report = check(store, since=state)
    assert said(report) == said(expected) and since_of(report).kept_file_count > 2
    queue = store / "consumequeue" / "T0" / "0"
    first = sorted(queue.iterdir())[0]
    first.unlink()
    assert said(check(store, since=state)) == said(check(store))


def test_a_file_that_was_copied_is_read_again(stores: tuple[Path, Path], tmp_path: Path) -> None:
    store, state = begun(stores[0], tmp_path)
    kept = since_of(check(store, since=state)).kept_file_count
    file = store / "commitlog" / f"{0:020}"
    shutil.copy2(file, tmp_path / "copy")
    (tmp_path / "copy").replace(file)
    assert since_of(check(store, since=state)).kept_file_count == kept - 1
    os.utime(file)
    assert since_of(check(store, since=state)).kept_file_count == kept - 1


def test_several_stores_have_a_state_each(stores: tuple[Path, Path], tmp_path: Path) -> None:
    names = [tmp_path / "one", tmp_path / "two"]
    for name, store in zip(names, stores, strict=True):
        shutil.copytree(store, name)
    options = CheckOptions(now_timestamp=NOW, since=tmp_path / "states")
    first = check_stores(names, options, LocalEngine(1))
    states = sorted((tmp_path / "states").iterdir())
    before = [path.stat().st_mtime_ns for path in states]
    second = check_stores(names, options, LocalEngine(1))
    varying = {"run_id", "seconds", "read_byte_count", "taken_over_byte_count"}
    rows = [
        [
            {name: value for name, value in row.as_row().items() if name not in varying}
            for row in report.stores
        ]
        for report in (first, second)
    ]
    assert rows[0] == rows[1] and len(states) == 2
    assert all(path.stat().st_mtime_ns > time for path, time in zip(states, before, strict=True))
    assert since_of(check(names[0], since=find_state(states, names[0]))).kept_file_count > 2


def find_state(states: list[Path], store: Path) -> Path:
    """The state of a store, by the files that it names: there is one that helps."""
    return next(path for path in states if not since_of(check(store, since=path)).reason)
