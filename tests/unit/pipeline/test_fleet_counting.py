"""Messages of many stores counted in one job: the same as store by store on the driver."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.pipeline.fleet import stages
from rocketfsck.pipeline.fleet.counting import CountJob, count_stores
from rocketfsck.pipeline.fleet.stages import Begin, Share
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.statistics import ClusterStatistics
from rocketfsck.query.counts import LogStatistics

from tests.conftest import Directory
from tests.unit.pipeline.fleeting import Distant

SEVERAL = ("5.1.3-collisions", "4.9.8-multiseg", "5.3.3-basic", "4.9.8-ipv6")


def said(found: ClusterStatistics) -> tuple[Any, ...]:
    return list(found.brokers), found.total, found.topics, found.days, found.topic_days, found.keys


@pytest.mark.parametrize("limit", [0, 1 << 40])
def test_as_on_the_driver(store_dir: Directory, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", limit)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 1 << 20)
    sources = find_sources([store_dir(name) for name in SEVERAL])
    expected = said(count_stores(sources, key_count=10))
    distant = Distant()
    engines: Sequence[Engine] = [LocalEngine(1), LocalEngine(3), distant]
    for engine in engines:
        found = count_stores(sources, engine=engine, key_count=10)
        assert said(found) == expected
        assert found.failed == ()
    assert distant.count(Begin) == 2 * len(SEVERAL) * (1 if limit else 2)  # a large store is opened twice
    assert (distant.count(Share) > 0) == (limit == 0)
    assert said(count_stores(sources, engine=LocalEngine(1))) == (*expected[:-1], None)


def test_a_store_that_fails_is_named_and_the_others_are_counted(store_dir: Directory, tmp_path: Path) -> None:
    paths = [store_dir("5.3.3-basic"), store_dir("4.9.8-multiseg"), tmp_path / "none"]
    sources = find_sources(paths, brokers=["good", "bad", "gone"], all_there=False)
    engine = Distant(kills=lambda step: isinstance(step, Begin) and step.number == 1)
    found = count_stores(sources, engine=engine)
    gone = ("gone", f"{tmp_path / 'none'}: cannot be listed: No such file or directory")
    assert found.failed == (("bad", "spark: the job failed: a worker died"), gone)
    assert said(found) == said(count_stores(sources[:1]))


def test_an_error_of_the_second_pass(store_dir: Directory) -> None:
    sources = find_sources([store_dir("5.3.3-basic"), store_dir("4.9.8-multiseg")])

    def kills(step: Any) -> bool:
        return isinstance(step.job, CountJob) and step.job.hashes is not None and step.number == 1

    found = count_stores(sources, engine=Distant(kills=kills), key_count=3)
    assert [broker for broker, _ in found.failed] == [sources[1].broker]
    assert said(found)[:-1] == said(count_stores(sources[:1]))[:-1]


def test_the_driver_holds_the_counts_of_one_store(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir("5.3.3-basic")
    held = {}
    for count in (4, 40):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"broker-{number:02}").symlink_to(root)
        found = count_stores(find_sources([folder]), engine=LocalEngine(1))
        assert len(found.brokers) == count
        gc.collect()
        held[count] = sum(isinstance(item, LogStatistics) for item in gc.get_objects())
    assert held == {4: 0, 40: 0}


def test_the_command(store_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "stores.txt"
    listed.write_text(f"{tmp_path / 'missing'}\n{tmp_path / 'none-*'}\n")
    paths = [str(store_dir("5.3.3-basic")), str(store_dir("4.9.8-multiseg"))]
    assert run(["count", *paths, "--format", "json", "--keys", "2"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["failed"] == []
    assert run(["count", *paths, "--stores-from", str(listed), "--format", "json", "--keys", "2"]) == 8
    said = capsys.readouterr()
    some = json.loads(said.out)
    assert some["rows"] == both["rows"]
    assert [item["broker"] for item in some["failed"]] == [
        "missing",
        "none-*",
    ]
    assert said.err.splitlines() == [
        f"Error: missing: {tmp_path / 'missing'}: cannot be listed: No such file or directory",
        f"Error: none-*: {tmp_path / 'none-*'}: no directory matches this pattern",
    ]
    assert run(["count", "--stores-from", str(listed)]) == 8
    assert run(["count"]) == 16
