"""Copies with other times: what a check finds stays, and what the times tell is what the README says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.api import read_columns
from rocketfsck.cli.bugreports import Place, place_of
from rocketfsck.store.opening import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.damage.run import damage_store
from rocketfsck.writer.mask.names import Pseudonyms
from rocketfsck.writer.mask.times import DAY, SECOND, Times, secret_shift
from rocketfsck.writer.mask.tree import mask_store, stray_names

from tests.conftest import Directory

SECRET = b"0123456789abcdef"
NOW = 1_800_000_000_000
HOUR = 3600 * SECOND
SHIFTED = Times(secret_shift(SECRET))


def _masked(root: Path, copy: Path, times: Times) -> tuple[Counter[Place], Counter[Place]]:
    """Mask a store; the findings of both with their places, as the copy has them."""
    store, names = open_store(root), Pseudonyms(SECRET, times)
    mask_store(store, copy, names)
    told = store.told
    again = open_store(copy, broker_conf=told.broker_conf, version=told.version)
    found = check_store(store, CheckOptions(level="full", jobs=1, now_timestamp=NOW)).findings
    made = check_store(again, CheckOptions(level="full", jobs=1, now_timestamp=times.of(NOW))).findings
    strays = stray_names(store)
    return (
        Counter(place_of(finding, names, strays) for finding in found),
        Counter(place_of(finding, None, frozenset()) for finding in made),
    )


def _rules(places: Counter[Place]) -> Counter[object]:
    found: Counter[object] = Counter()
    for place, count in places.items():
        found[place[0]] += count
    return found


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


STORES = [
    "4.4.0-basic", "4.9.8-delay", "4.9.8-cqext", "4.9.8-killed", "4.9.8-expired", "5.0.0-innerbatch",
    "5.3.3-multiseg", "5.3.3-propcrc", "5.3.3-trans", "HEAD-basic",
]  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_moved_times_have_the_findings_of_the_store(
    store_dir: Directory, tmp_path: Path, name: str
) -> None:
    was, made = _masked(store_dir(name), tmp_path / "copy", SHIFTED)
    assert made - was == was - made == Counter()


@pytest.mark.parametrize("unit", [SECOND, HOUR])
@pytest.mark.parametrize("name", STORES)
def test_rounded_times_make_no_sound_store_damaged(
    store_dir: Directory, tmp_path: Path, name: str, unit: int
) -> None:
    was, made = _masked(store_dir(name), tmp_path / "copy", Times(SHIFTED.shift, unit))
    assert _rules(made) - _rules(was) == _rules(was) - _rules(made) == Counter(), (made - was, was - made)
