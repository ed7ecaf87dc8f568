"""What two replicas keep of consumer groups, compared: offsets, delay offsets, topics, groups.

In 4.9.8-delay the queues Dly/0 and Dly/1 hold the queue offsets 0 to 7 and 0 to 9.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.formats.config import decode_config, encode_config
from rocketfsck.repair.compare import configs
from rocketfsck.repair.compare.compare import compare_stores
from rocketfsck.repair.compare.configs import ConfigsCompared, ConsumerEffect, GroupDifference, OneSided
from rocketfsck.store import open_store

from tests.conftest import REAL_NAMES, STORE_NAMES, Directory

NAME = "4.9.8-delay"
OFFSETS = "consumerOffset.json"
Tables = Mapping[str, Mapping[int, int]]
Pair = Callable[[Tables, Tables], tuple[Path, Path]]


def put(root: Path, name: str, value: Any) -> None:
    (root / "config" / f"{name}.bak").unlink(missing_ok=True)
    (root / "config" / name).write_bytes(encode_config(value))


@pytest.fixture
def pair(store_dir: Directory, tmp_path: Path) -> Pair:
    """Gives two copies of a store with these committed offsets."""

    def made(mine: Tables, other: Tables) -> tuple[Path, Path]:
        roots = []
        for name, table in (("a", mine), ("b", other)):
            roots.append(Path(shutil.copytree(store_dir(NAME), tmp_path / name)))
            put(roots[-1], OFFSETS, {"offsetTable": table})
        return roots[0], roots[1]

    return made


def compared(a: Path, b: Path, version: str | None = None) -> ConfigsCompared:
    comparison = compare_stores(open_store(a, version=version), open_store(b, version=version))
    assert comparison.same
    return comparison.configs


def said(capfd: pytest.CaptureFixture[str], *roots: Path) -> list[str]:
    capfd.readouterr()
    assert run(["compare", *map(str, roots)]) == 0, "offsets alone change no exit status"
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("name", [*STORE_NAMES, *REAL_NAMES])
def test_equal_stores_are_silent(name: str, any_dir: Directory) -> None:
    store = open_store(any_dir(name))
    found = configs.compare_configs(store, store)
    assert found == configs.NO_CONFIGS


def test_a_slave_that_lags(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = pair(
        {"Dly@one": {0: 8, 1: 10}, "Dly@two": {0: 4, 1: 4}},
        {"Dly@one": {0: 3, 1: 9}, "Dly@two": {0: 4, 1: 2}},
    )
    found = compared(a, b).committed
    assert found.differences == (
        GroupDifference("one", "Dly", 2, 6, ConsumerEffect(0, 6), ConsumerEffect(6, 0)),
        GroupDifference("two", "Dly", 1, 2, ConsumerEffect(0, 2), ConsumerEffect(2, 0)),
    )
    assert (found.to_b, found.to_a, found.behind) == (ConsumerEffect(8, 0), ConsumerEffect(0, 8), "B")
    assert (found.group_count, found.queue_count, found.difference_count) == (2, 3, 2)
    assert compared(b, a).committed.behind == "A"
    lines = said(capfd, a, b)
    at = lines.index("Committed offsets differ in 3 queues of 2 groups:")
    assert lines[at + 1 :] == [
        "  consumers that change from A to B get up to 8 messages again",
        "  consumers that change from B to A never get up to 8 messages",
        "  group  topic  queues  apart  to B: again  skipped  to A: again  skipped",
        "  one    Dly         2      6            6        0            0        6",
        "  two    Dly         1      2            2        0            0        2",
        "  B has no higher offset, like a slave, which copies offsets every 10 seconds",
        lines[-2],
        "Result: both hold the same records; committed offsets differ.",
    ]


def test_each_is_ahead_somewhere(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    roots = pair({"Dly@one": {0: 8, 1: 2}}, {"Dly@one": {0: 3, 1: 9}})
    found = compared(*roots).committed
    assert found.behind is None
    assert found.to_b == ConsumerEffect(5, 7)
    assert "  each store has higher offsets than the other somewhere; a slave that lags has none" in said(
        capfd, *roots
    )


def test_where_a_broker_begins_counts(pair: Pair) -> None:
    """Beyond the end a broker goes to the end; before 4.9.4, to the beginning of a queue that begins at 0."""
    a, b = pair({"Dly@one": {0: 6}}, {"Dly@one": {0: 900}})
    assert compared(a, b).committed.to_b == ConsumerEffect(0, 2)
    assert compared(a, b, "4.9.3").committed.to_b == ConsumerEffect(6, 0)


def test_what_has_no_effect_is_silent(pair: Pair) -> None:
    """No offset where a group begins anyway, a queue that neither has, RocketMQ's own groups."""
    gone, own = {"Gone@one": {0: 7}}, {"Dly@CID_RMQ_SYS_TRANS": {0: 1}}
    roots = pair({"Dly@one": {0: 0, 1: 5}, **gone}, {"Dly@one": {1: 5}, **own})
    assert compared(*roots) == configs.NO_CONFIGS


def test_a_group_that_only_one_has(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    roots = pair({"Dly@one": {0: 5}, "Dly@two": {0: 5}}, {"Dly@one": {0: 5}})
    found = compared(*roots).committed
    assert (found.to_b, found.to_a, found.behind) == (ConsumerEffect(5, 0), ConsumerEffect(0, 5), "B")
    (roots[1] / "config" / OFFSETS).unlink()
    assert compared(*roots).committed.to_b == ConsumerEffect(10, 0)
    shutil.rmtree(roots[1] / "config")
    assert compared(*roots) == ConfigsCompared(not_compared=("B has no files in config/",))
    assert "Groups and topics not compared: B has no files in config/" in said(capfd, *roots)
    shutil.rmtree(roots[0] / "config")
    assert compared(*roots) == configs.NO_CONFIGS


def test_many_rows_are_cut(
    pair: Pair, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "DIFFERENCE_LIMIT", 20)
    roots = pair(
        {f"Dly@g{number:02}": {0: 8} for number in range(25)},
        {f"Dly@g{number:02}": {0: number % 8} for number in range(25)},
    )
    found = compared(*roots).committed
    assert (len(found.differences), found.difference_count, found.group_count) == (20, 25, 25)
    assert found.to_b.again_count == sum(8 - number % 8 for number in range(25))
    assert [row.group for row in found.differences[:4]] == ["g00", "g08", "g16", "g24"]
    assert "  and 15 more rows (--format json has up to 1,000)" in said(capfd, *roots)


def test_delay_offsets(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = pair({}, {})
    put(a, "delayOffset.json", {"offsetTable": {1: 8, 2: 9}})
    put(b, "delayOffset.json", {"offsetTable": {1: 8, 2: 4}})
    assert compared(a, b).delays.to_b == ConsumerEffect(5, 0)
    lines = said(capfd, a, b)
    at = lines.index("Delay offsets differ at 1 level:")
    assert lines[at + 1 : at + 4] == [
        "  a broker that continues with B delivers 5 messages again, and passes over 0",
        "  a broker that continues with A delivers 0 messages again, and passes over 5",
        "  B has no higher offset, like a slave, which copies offsets every 10 seconds",
    ]
    assert lines[-1] == "Result: both hold the same records; delay offsets differ."


def test_topics_and_groups_that_only_one_has(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = pair({}, {})
    topics = decode_config((a / "config/topics.json").read_bytes())
    table = topics["topicConfigTable"]
    table |= {f"New{number:02}": {"topicName": f"New{number:02}"} for number in range(12)}
    table["rmq_sys_REVIVE_LOG_c"] = {"topicName": "rmq_sys_REVIVE_LOG_c"}
    put(a, "topics.json", topics)
    put(a, "subscriptionGroup.json", {"subscriptionGroupTable": {"both": {}, "TOOLS_CONSUMER": {}}})
    put(b, "subscriptionGroup.json", {"subscriptionGroupTable": {"both": {}, "cg\x1b": {}}})
    names = tuple(f"New{number:02}" for number in range(12))
    found = compared(a, b)
    assert found.one_sided == (OneSided("A", 12, names, 0, ()), OneSided("B", 0, (), 1, ("cg\x1b",)))
    lines = said(capfd, a, b)
    assert f"Only A lists 12 topics: {', '.join(names[:10])}, and 2 more" in lines
    assert "Only B lists 1 group: cg\\x1b" in lines
    (b / "config/subscriptionGroup.json").unlink()
    assert compared(a, b).not_compared == ("B has no subscriptionGroup.json",)


@pytest.mark.parametrize(
    "data", [b"\0" * 40, b'{"offsetTable":[1]}', b'{"offsetTable":{"Dly@g":{"0":1e99}}}']
)
def test_files_that_cannot_be_read(pair: Pair, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = pair({"Dly@one": {0: 5}}, {})
    (b / "config" / OFFSETS).write_bytes(data)
    found = compared(a, b)
    assert found.committed == configs.NO_CONFIGS.committed
    assert found.not_compared == (f"B: {OFFSETS} cannot be read",)
    assert f"Groups and topics not compared: B: {OFFSETS} cannot be read" in said(capfd, a, b)


def test_offsets_in_databases(real_dir: Directory, tmp_path: Path) -> None:
    """RocksDB against the same as files: equal, and the later state of the file is seen."""
    from rocketfsck.store.rocks.lifting import lifted

    a = real_dir("5.5.0-rocksdb-config-v2")
    b = Path(shutil.copytree(a, tmp_path / "b"))
    with lifted(open_store(a)) as lifting:
        listed = {Path(file.path).name: Path(file.path).read_bytes() for file in lifting.store.configs}
    table = json.loads(listed[OFFSETS])
    shutil.rmtree(b / "config/rdb")
    for name in (OFFSETS, "topics.json"):
        (b / "config" / name).write_bytes(listed[name])
    assert configs.compare_configs(open_store(a), open_store(b)) == configs.NO_CONFIGS
    key = next(name for name in table["offsetTable"] if "SYS" not in name)
    queue_id = next(iter(table["offsetTable"][key]))
    table["offsetTable"][key][queue_id] += 3
    put(b, OFFSETS, table)
    found = configs.compare_configs(open_store(a), open_store(b)).committed
    assert (found.difference_count, found.behind) == (1, "A")
