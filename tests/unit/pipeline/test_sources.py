"""Which stores paths name, and what their brokers are called."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rocketfsck.errors import NoStoreError, StoreError, UsageError
from rocketfsck.pipeline.sources import StoreSource, deep_places, find_sources, open_source

from tests.conftest import Directory


def _store(path: Path) -> Path:
    (path / "commitlog").mkdir(parents=True)
    (path / "abort").touch()
    return path


def _found(*paths: Path | str) -> list[tuple[str, str]]:
    return [(source.broker, Path(source.path).name) for source in find_sources(paths)]


def test_a_store_by_itself(tmp_path: Path) -> None:
    assert _found(_store(tmp_path / "broker-a")) == [("broker-a", "broker-a")]
    assert _found(_store(tmp_path / "broker-b" / "store")) == [("broker-b", "store")]


def test_a_directory_of_stores(tmp_path: Path) -> None:
    _store(tmp_path / "b")
    _store(tmp_path / "a" / "store")
    (tmp_path / "other" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("no store")
    assert _found(tmp_path) == [("a", "store"), ("b", "b")]
    assert _found(tmp_path / "b", tmp_path / "a") == [("b", "b"), ("a", "store")]


def test_stores_at_any_depth(tmp_path: Path) -> None:
    deep = _store(tmp_path / "zone" / "rack" / "broker-a" / "store")
    _store(tmp_path / "broker-b")
    (deep / "commitlog" / "commitlog").mkdir()  # within a store is no other
    (tmp_path / "zone" / "around").symlink_to(tmp_path)
    assert _found(tmp_path) == [("broker-b", "broker-b")]
    every = find_sources(deep_places([tmp_path]))
    assert [source.broker for source in every] == ["broker-b", "broker-a"]
    assert [source.path for source in find_sources(deep_places([deep]))] == [str(deep)]
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoStoreError, match="nor a directory of stores"):
        find_sources(deep_places([tmp_path / "empty"]))


def test_patterns(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-2", "x"):
        _store(tmp_path / name)
    (tmp_path / "broker-3").write_text("a file")
    assert _found(f"{tmp_path}/broker-*") == [("broker-1", "broker-1"), ("broker-2", "broker-2")]
    assert _found(f"{tmp_path}/broker-[2]", f"{tmp_path}/*") == [
        ("broker-2", "broker-2"),
        ("broker-1", "broker-1"),
        ("x", "x"),
    ]
    with pytest.raises(UsageError, match="no store matches this pattern"):
        find_sources([f"{tmp_path}/none-*"])
    odd = _store(tmp_path / "odd[1]")
    assert _found(odd) == [("odd[1]", "odd[1]")]


def test_a_commitlog_directory_is_a_store(store_dir: Directory) -> None:
    (source,) = find_sources([store_dir("5.3.3-basic") / "commitlog"])
    assert source.broker == "commitlog"
    assert open_source(source).log_only


@pytest.mark.parametrize("part", ["consumequeue", "checkpoint", "abort", "dledger-n0"])
def test_what_is_left_of_a_store_is_one(tmp_path: Path, part: str) -> None:
    (tmp_path / "rest" / part).mkdir(parents=True)
    assert _found(tmp_path) == [("rest", "rest")]


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="neither a store nor a directory of stores"):
        find_sources([tmp_path])
    with pytest.raises(StoreError, match="cannot be listed: No such file"):
        find_sources([tmp_path / "missing"])
    with pytest.raises(UsageError, match="name a store"):
        find_sources([])


def test_names_of_brokers(tmp_path: Path) -> None:
    one, two = _store(tmp_path / "x" / "data"), _store(tmp_path / "y" / "data")
    with pytest.raises(UsageError, match="would both have the broker name 'data'"):
        find_sources([one, two])
    named = find_sources([one, two], brokers=["east", "west"])
    assert [(source.broker, source.path) for source in named] == [("east", str(one)), ("west", str(two))]
    with pytest.raises(UsageError, match="1 broker names for 2 stores"):
        find_sources([one, two], brokers=["east"])
    with pytest.raises(UsageError, match="is empty"):
        find_sources([one], brokers=[""])


def test_a_broker_conf_names_the_broker(tmp_path: Path) -> None:
    one, two = _store(tmp_path / "one"), _store(tmp_path / "two")
    confs = []
    for name in ("broker-a", "broker-b"):
        confs.append(tmp_path / f"{name}.conf")
        confs[-1].write_text(f"brokerName={name}\nmappedFileSizeCommitLog=65536\n")
    found = find_sources([one, two], broker_confs=confs)
    assert [source.broker for source in found] == ["broker-a", "broker-b"]
    assert open_source(found[0]).geometry.commitlog_file_size == 65_536
    with pytest.raises(UsageError, match="both have the broker name 'broker-a'"):
        find_sources([one, two], broker_confs=confs[:1])
    one_for_all = find_sources([one, two], broker_confs=confs[:1], brokers=["p", "q"])
    assert {source.broker_conf for source in one_for_all} == {str(confs[0])}
    with pytest.raises(UsageError, match=r"3 broker\.conf files for 2 stores"):
        find_sources([one, two], broker_confs=[*confs, confs[0]])
    unnamed = tmp_path / "unnamed.conf"
    unnamed.write_text("a=b\n")
    assert find_sources([one], broker_confs=[unnamed])[0].broker == "one"


def test_what_was_said_of_a_store_travels(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir("4.9.8-basic")
    (source,) = find_sources(
        [root], version="4.9.8", commitlog_paths=[root / "commitlog"], delay_levels="1s 5s"
    )
    copied = pickle.loads(pickle.dumps(source))
    assert copied == source
    store = open_source(copied)
    assert store.dialect_evidence.given
    assert store.delay_levels == "1s 5s"
    assert store.commitlog.directories == (root / "commitlog",)
    with pytest.raises(UsageError, match="commitlog paths belong to one store"):
        find_sources([root, _store(tmp_path / "other")], commitlog_paths=[root / "commitlog"])


def test_a_store_is_listed_once_for_a_plan(tmp_path: Path) -> None:
    root = str(_store(tmp_path / "broker"))
    first = open_source(StoreSource("broker", root, listed=1))
    (tmp_path / "broker" / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    assert open_source(StoreSource("broker", root, listed=1)) is first
    assert len(open_source(StoreSource("broker", root, listed=2)).commitlog.files) == 1
