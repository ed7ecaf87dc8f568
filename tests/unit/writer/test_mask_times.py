"""Copies with other times: what a check finds stays, and what the times tell is what the README says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.api import read_columns
from rocketfsck.commands.bugreport import README, Place, place_of
from rocketfsck.formats.smallfiles import index_filename
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.opening import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.damage.run import damage_store
from rocketfsck.writer.mask.names import DAY, SECOND, Pseudonyms, Times, secret_shift
from rocketfsck.writer.mask.record import mask_json, masked_properties
from rocketfsck.writer.mask.tree import mask_store, stray_names

from tests.conftest import Directory

SECRET = b"0123456789abcdef"
NOW = 1_800_000_000_000
HOUR = 3600 * SECOND
KEYS = [f"order-{number * 7919 % 100_000:05}" for number in range(150)]
SHIFTED = Times(secret_shift(SECRET))


def _masked(root: Path, copy: Path, times: Times) -> tuple[Counter[Place], Counter[Place]]:
    """Mask a store; the findings of both with their places, as the copy has them."""
    store, names = open_store(root), Pseudonyms(SECRET, times)
    mask_store(store, copy, names)
    stated = store.stated
    again = open_store(copy, broker_conf=stated.broker_conf, version=stated.version)
    found = check_store(store, CheckOptions(level="full", jobs=1, now_timestamp=NOW)).findings
    made = check_store(again, CheckOptions(level="full", jobs=1, now_timestamp=times.of(NOW))).findings
    strays = stray_names(store)
    return (
        Counter(place_of(finding, names, strays) for finding in found),
        Counter(place_of(finding, None, frozenset()) for finding in made),
    )


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 10**6))
def test_what_is_no_time_stays(value: int, unit: int) -> None:
    times = Times(-DAY, unit)
    [made] = times.of_all(np.array([value])).tolist()
    assert made == times.of(value)
    if not 10**12 <= value < 10**13:
        assert made == value


@given(st.lists(st.integers(10**12, 10**13 - 1), min_size=2, max_size=2), st.integers(1, 10 * DAY))
def test_times_keep_their_order(values: list[int], unit: int) -> None:
    low, high = (Times(SHIFTED.shift, unit).of(value) for value in sorted(values))
    assert low <= high
    assert abs((high - low) - abs(values[0] - values[1])) < unit
    assert SHIFTED.of(values[0]) - SHIFTED.of(values[1]) == values[0] - values[1]


def test_texts_and_names() -> None:
    times = Times(-DAY, 60 * SECOND)
    assert times.of_text(b"1700000000123") == b"1699913580000"
    assert times.of_text(b"1700000000123", rounded=False) == b"1699913600123"
    for text in (b"", b"-1", b"12", b"true"):
        assert times.of_text(text) == text
    assert times.of_index_name("20231115061320123") == "20231114061300000"
    assert times.of_index_name("checkpoint") == "checkpoint"
    names = Pseudonyms(SECRET, times)
    made = [names.index_name(f"202311150613201{number:02}") for number in range(3)]
    assert made == ["20231114061300000", "20231114061300001", "20231114061300002"]
    assert [names.index_name("20231115061320101")] == made[1:2]


def test_times_in_config_files_and_properties() -> None:
    names = Pseudonyms(SECRET, Times(-DAY, SECOND))
    text = '{"dataVersion":{"timestamp":1700000000123},"popTime":1700000000123,{0:1700},"bitPos":[1]}'
    assert mask_json(text, names).count("1699913600000") == 2
    assert ":1700}" in mask_json(text, names)
    assert mask_json(text, Pseudonyms(SECRET)).count("1700000000123") == 2
    data = b"TIMER_OUT_MS\x011700000000123\x021ST_POP_TIME\x011700000000123\x02DELAY\x013"
    made = b"TIMER_OUT_MS\x011699913600123\x021ST_POP_TIME\x011699913600000\x02DELAY\x013"
    assert masked_properties(data, names) == made


STORES = [
    "4.4.0-basic", "4.9.8-delay", "4.9.8-cqext", "4.9.8-killed", "4.9.8-expired", "5.0.0-innerbatch",
    "5.3.3-multiseg", "5.3.3-propcrc", "5.3.3-trans", "HEAD-basic", "5.5.0-timer", "5.5.0-batchcq",
]  # fmt: skip
OF_HASHES = {"IX025"}
"""Pseudonyms of short keys may share a hash, by chance."""
OF_DISTANCES = {
    "CF033", "CF034", "CL023", "CL024", "CP003", "CP004", "CP005", "CP011", "IX004", "IX023", "IX028",
    "IX031", "ST040",
}  # fmt: skip
"""Rules about how far apart two times are, which rounding changes; README.txt of an archive says so."""


def test_the_readme_names_what_rounding_changes() -> None:
    assert not [rule for rule in OF_DISTANCES | OF_HASHES if rule not in README]


def _odd(was: Counter[Place], made: Counter[Place]) -> set[object]:
    return {place[0] for place in (was - made) + (made - was)} - OF_HASHES


@pytest.mark.parametrize("name", STORES)
def test_moved_times_have_the_findings_of_the_store(any_dir: Directory, tmp_path: Path, name: str) -> None:
    assert not _odd(*_masked(any_dir(name), tmp_path / "copy", SHIFTED))


FAULTS = [
    ("5.3.3-multiseg", "time-back"), ("5.3.3-multiseg", "checkpoint-future"),
    ("5.3.3-multiseg", "checkpoint-ahead"), ("5.3.3-multiseg", "checkpoint-tail"),
    ("5.3.3-multiseg", "header-range"), ("5.3.3-multiseg", "time-diff"), ("5.3.3-multiseg", "time-negative"),
    ("5.3.3-multiseg", "stale-tail"), ("5.3.3-multiseg", "names-swapped"),
    ("4.9.8-delay", "wrong-delivery"), ("4.9.8-cqext", "ext-content"),
    ("4.9.8-cqext", "ext-malformed"), ("5.5.0-batchcq", "batch-base"),
    ("5.5.0-timer", "timer-check"), ("5.5.0-timer", "timer-slot-time"), ("5.5.0-timer", "timer-slot-zeros"),
    ("5.5.0-timer", "timer-unit-link"), ("5.5.0-timer", "timer-unit-topic"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_damage_of_times_stays(any_dir: Directory, tmp_path: Path, name: str, fault: str) -> None:
    damage_store(any_dir(name), tmp_path / "store", [fault], seed=1)
    was, made = _masked(tmp_path / "store", tmp_path / "copy", SHIFTED)
    assert not _odd(was, made)
    assert was


@pytest.mark.parametrize("unit", [SECOND, HOUR])
@pytest.mark.parametrize("name", STORES)
def test_rounded_times_change_findings_of_distances_alone(
    any_dir: Directory, tmp_path: Path, name: str, unit: int
) -> None:
    was, made = _masked(any_dir(name), tmp_path / "copy", Times(SHIFTED.shift, unit))
    assert _odd(was, made) <= OF_DISTANCES


@pytest.mark.parametrize("fault", ["time-back", "checkpoint-ahead", "header-range", "time-diff"])
def test_rounded_times_keep_other_damage(any_dir: Directory, tmp_path: Path, fault: str) -> None:
    damage_store(any_dir("5.3.3-multiseg"), tmp_path / "store", [fault, "wrong-size"], seed=1)
    was, made = _masked(tmp_path / "store", tmp_path / "copy", Times(SHIFTED.shift, 60 * SECOND))
    assert _odd(was, made) <= OF_DISTANCES
    assert was & made


def _messages(keys: list[str], bodies: str = "body") -> Iterator[OutgoingMessage]:
    """Each a little later than the last, after pauses of no regular length."""
    time = NOW
    for number, key in enumerate(keys):
        time += 1 + number * number * 7919 % 600_000
        properties = {"TAGS": "paid", "KEYS": key}
        yield OutgoingMessage("payment", bodies.encode(), time, properties=properties)


def _written(root: Path, messages: Iterable[OutgoingMessage]) -> Path:
    write_store(
        root,
        messages,
        WriteOptions(version="5.3.3", geometry=Geometry(1 << 17, 6000, 4600, 1 << 16, 64, 800)),
    )
    return root


def _times_of(root: Path) -> list[int]:
    batches = read_columns(open_store(root), ("store_timestamp",))
    return [int(time) for batch in batches for time in batch["store_timestamp"].to_pylist()]


def test_what_a_timetable_tells(tmp_path: Path) -> None:
    """An attacker who knows when every message was sent: as README.txt says, neither more nor less."""
    table = [message.store_timestamp for message in _messages(KEYS)]
    root = _written(tmp_path / "store", _messages(KEYS))
    seen = {}
    for form, times in {"as it is": Times(), "moved": SHIFTED, "rounded": Times(SHIFTED.shift, HOUR)}.items():
        mask_store(open_store(root), tmp_path / form, Pseudonyms(SECRET, times))
        seen[form] = _times_of(tmp_path / form)
    # Without the options a time names its message.
    assert seen["as it is"] == table
    # A time alone names none once times are moved, nor does a name of an index file or a time of a file.
    assert not set(seen["moved"]) & set(table)
    assert min(table) - max(seen["moved"]) >= 365 * DAY
    for file in filter(Path.is_file, (tmp_path / "moved").rglob("*")):
        said = file.read_bytes()
        assert not [time for time in table if str(time).encode() in said], file
        assert not [time for time in table if time.to_bytes(8, "big") in said], file
        assert index_filename(datetime.fromtimestamp(table[0] / 1000, UTC))[:8] not in file.name
    # The pauses between several do.
    assert np.diff(seen["moved"]).tolist() == np.diff(table).tolist()
    # Rounded, messages of one hour cannot be told apart, and no pause is as it was.
    alike = Counter(seen["rounded"])
    assert all(time % HOUR == 0 for time in alike)
    assert max(alike.values()) > 5
    assert len(alike) <= (max(table) - min(table)) // HOUR + 2


def _normal(root: Path, masks: Iterable[str]) -> bytes:
    """A commit log with each pseudonym replaced by what it is the pseudonym of, counted."""
    data = b"".join(file.path.read_bytes() for file in open_store(root).commitlog.files)
    for number, mask in enumerate(masks):
        data = data.replace(mask.encode(), b"%0*d" % (len(mask), number))
    return data


def test_lengths_tell_lengths_and_nothing_else(tmp_path: Path) -> None:
    """Two stores that differ in what is said, but not in how long it is, have one masked log."""
    others = [key.translate(str.maketrans("0123456789orderfund", "7390482615waveicosb")) for key in KEYS]
    assert not set(others) & set(KEYS)
    made = []
    for number, (keys, body) in enumerate([(KEYS, "body"), (others, "tale")]):
        names = Pseudonyms(SECRET)
        root = _written(tmp_path / f"store{number}", _messages(keys, body))
        mask_store(open_store(root), tmp_path / f"copy{number}", names)
        made.append(_normal(tmp_path / f"copy{number}", [names.name(key) for key in keys]))
    assert made[0] == made[1]
    assert b"body" not in made[0]
