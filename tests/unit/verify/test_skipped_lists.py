"""Light queues: units before their places are a note where the broker gave numbers away, else an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.formats.properties import skipped_by, skipped_names
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.verify.damage import Damage


@pytest.mark.parametrize(
    ("names", "offsets", "light"),
    [
        (b"%LMQ%a,b", b"3,", ["%LMQ%a"]),
        (b"%LMQ%a,b,c", b"3,,", ["%LMQ%a"]),
        (b"%LMQ%a,b,%LMQ%c,d", b"3,,4,", ["%LMQ%a", "%LMQ%c"]),
        (b"a,b", b",", []),
        (b"%LMQ%a,b", b"3", None),  # a place is missing
        (b"%LMQ%a,b", b",3", None),  # a number for another queue
        (b"%LMQ%a,b", b"x,", None),
        (b"%LMQ%a,b", b"3,,", None),
    ],
)
def test_what_a_broker_writes(names: bytes, offsets: bytes, light: list[str] | None) -> None:
    assert skipped_names(names, offsets) == light
    properties = b"K\1v\2INNER_MULTI_DISPATCH\1" + names + b"\2INNER_MULTI_QUEUE_OFFSET\1" + offsets + b"\2"
    assert skipped_by(properties) == light


@pytest.fixture
def store(real_copy: Directory) -> Damage:
    return Damage(real_copy("5.1.4-lmq-lists"))


def test_a_broker_gave_numbers_away(store: Damage) -> None:
    result = store.check()
    assert result.rules == set()
    found = {finding.where.topic: finding.found for finding in result.of("XR036")}
    assert found == {
        "%LMQ%a": {"unit_count": 17, "largest_shift": 17, "record_count": 18},
        "%LMQ%b": {"unit_count": 18, "largest_shift": 9, "record_count": 10},
        "%LMQ%c": {"unit_count": 9, "largest_shift": 9, "record_count": 10},
    }
    assert result.one("XR037").found["record_count"] == 28


def test_units_behind_their_places(store: Damage) -> None:
    """Ten numbers were given away, which puts units before their places and never behind."""
    file = "consumequeue/%LMQ%c/0/00000000000000000000"
    data = store.read(file)
    (store.root / file).write_bytes((data[:20] * 10 + data)[:400])
    result = store.check()
    assert "XR006" in result.rules
    assert {finding.where.topic for finding in result.of("XR036")} == {"%LMQ%a", "%LMQ%b"}


def test_more_than_were_given_away(store: Damage) -> None:
    """Half of the queue's units are gone as well: the rest is further before its place than ten."""
    file = "consumequeue/%LMQ%c/0/00000000000000000000"
    data = store.read(file)
    (store.root / file).write_bytes(data[100:].ljust(400, b"\0"))
    result = store.check()
    assert "XR006" in result.rules
    assert {finding.where.topic for finding in result.of("XR036")} == {"%LMQ%a", "%LMQ%b"}


def test_light_queues_without_such_lists(store_copy: Directory) -> None:
    store = Damage(store_copy("4.9.8-lmq"))
    file = next(name for name in store.files("consumequeue") if name.startswith("consumequeue/%LMQ%"))
    data = store.read(file)
    (store.root / file).write_bytes(data[20:] + bytes(20))  # every unit one place before its own
    result = store.check()
    assert "XR006" in result.rules
    assert "XR036" not in result.all_rules


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
def test_a_rebuilding_gives_the_brokers_bytes(
    store: Damage, tmp_path: Path, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
    target = tmp_path / "built"
    rebuild_store(open_store(store.root), target, RebuildOptions(queues=True))
    files: Callable[[Path], list[Path]] = lambda root: sorted(  # noqa: E731
        path.relative_to(root) for path in (root / "consumequeue").rglob("*") if path.is_file()
    )
    assert files(target) == files(store.root)
    for file in files(target):
        assert (target / file).read_bytes() == (store.root / file).read_bytes(), file
