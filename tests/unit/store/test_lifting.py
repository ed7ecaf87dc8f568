"""Queues and configs of databases as files: what is where, what is left out, what leads astray."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT, UNIT
from rocketfsck.store import open_store
from rocketfsck.store.elsewhere import has_queues_elsewhere
from rocketfsck.store.rocks import spilling
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.store.rocks.spilling import Bound, spill_queues

from tests.conftest import Directory
from tests.databases import bound, copied_store, database_of, dispatched, rows_of, unit, write_database

FILE_SIZE = 400


def spilled(
    tmp_path: Path, units: dict[bytes, bytes], bounds: dict[bytes, bytes]
) -> tuple[spilling.Spill, Path]:
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    write_database(root / "consumequeue", {"default": units, "offset": bounds})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return spill_queues(database_of(root, "consumequeue"), scratch, FILE_SIZE), scratch


def units_in(directory: Path) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        assert len(data) == FILE_SIZE
        values = [UNIT.parse(data, pos) for pos in range(0, len(data), UNIT.size)]
        found[path.name] = [(value["offset"], value["size"]) for value in values]
    return found


def test_units_come_where_a_broker_has_them(tmp_path: Path) -> None:
    units = dict(unit("T", 0, place, 1000 * place) for place in range(18, 45))
    bounds = dict([bound("T", 0, "min", 18, 18000), bound("T", 0, "max", 44, 44000), dispatched(44100)])
    spill, scratch = spilled(tmp_path, units, bounds)
    (queue,) = spill.queues.values()
    assert (queue.least, queue.greatest) == (Bound(18, 18000), Bound(44, 44000))
    assert (queue.first, queue.last, queue.row_count, queue.outside_count) == (18, 44, 27, 0)
    assert spill.dispatched == 44100
    found = units_in(scratch / "T" / "0")
    pre_blank = UNIT.parse(PRE_BLANK_UNIT)
    assert found["0".zfill(20)] == [(0, pre_blank["size"])] * 18 + [(18000, 100), (19000, 100)]
    assert found["400".zfill(20)] == [(1000 * place, 100) for place in range(20, 40)]
    assert found["800".zfill(20)] == [(1000 * place, 100) for place in range(40, 45)] + [(0, 0)] * 15
    times = np.fromfile(scratch / "T" / "0.times", ">i8")
    assert times.tolist() == [0] * 18 + [7] * 27


def test_units_outside_their_bounds_are_counted(tmp_path: Path) -> None:
    units = dict(unit("T", 0, place, 100 * place) for place in range(10))
    bounds = dict([bound("T", 0, "min", 3, 300), bound("T", 0, "max", 6, 600)])
    spill, scratch = spilled(tmp_path, units, bounds)
    queue = spill.queues["T", 0]
    assert (queue.first, queue.last, queue.row_count, queue.outside_count) == (0, 9, 4, 6)
    assert (queue.start, queue.end, queue.last_inside) == (3, 7, 6)
    (only,) = units_in(scratch / "T" / "0").values()
    assert [offset for offset, _ in only[3:8]] == [300, 400, 500, 600, 0]


def test_a_gap_is_left_as_a_hole(tmp_path: Path) -> None:
    units = dict(unit("T", 0, place, 100 * place + 1) for place in (0, 1, 4, 65))
    spill, scratch = spilled(tmp_path, units, dict([bound("T", 0, "max", 65, 1)]))
    assert spill.queues["T", 0].least is None
    found = units_in(scratch / "T" / "0")
    assert len(found) == 4
    assert [offset for offset, _ in found["0".zfill(20)][:6]] == [1, 101, 0, 0, 401, 0]
    assert found["1200".zfill(20)][5] == (6501, 100)


def test_a_queue_offset_out_of_all_bounds_makes_no_files(tmp_path: Path) -> None:
    units = dict(unit("T", 0, place, 100) for place in (0, 1, 1 << 40))
    spill, scratch = spilled(tmp_path, units, dict([bound("T", 0, "max", 1 << 50, 1)]))
    queue = spill.queues["T", 0]
    assert (queue.row_count, queue.outside_count, queue.last) == (2, 1, 1 << 40)
    assert len(units_in(scratch / "T" / "0")) == 1


@pytest.mark.parametrize("topic", ["", ".", "..", "../../etc", "a/b", "a\0b", "x" * 300])
def test_topics_that_lead_astray(tmp_path: Path, topic: str) -> None:
    units = dict([unit(topic, 0, 0, 100), unit("Good", 0, 0, 200)])
    spill, scratch = spilled(tmp_path, units, dict([bound("Good", 0, "max", 0, 200)]))
    assert [path.name for path in scratch.iterdir()] == ["Good"]
    assert [odd.reason for odd in spill.odd.first.values()] == ["topic: not a name that a topic can have"]


def test_rows_that_are_none(tmp_path: Path) -> None:
    key, value = unit("T", 0, 1, 100)
    units = dict([unit("T", 0, 0, 100), (key, value[:-1]), (b"\x01", value), unit("T", 0, 2, 300)])
    spill, _ = spilled(tmp_path, units, {b"junk": b"", bound("T", 0, "max", 2, 300)[0]: b"short"})
    assert spill.odd.counts == {"default": 2, "offset": 2}
    assert spill.queues["T", 0].row_count == 2


def test_very_many_odd_rows_are_counted_only(tmp_path: Path) -> None:
    spill, _ = spilled(tmp_path, {b"%d" % number: b"" for number in range(150)}, {b"x": b""})
    assert spill.odd.counts == {"default": 150, "offset": 1}
    assert {family: row.key for family, row in spill.odd.first.items()} == {"default": b"0", "offset": b"x"}


def test_a_store_with_all_in_databases(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-rocksdb-cq"))
    assert has_queues_elsewhere(store)
    with lifted(store) as lifting:
        full = lifting.store
        assert not lifting.failed
        assert not has_queues_elsewhere(full)
        assert full.lifted.databases == {
            *("consumequeue", "config/topics", "config/subscriptionGroups", "config/consumerOffsets")
        }
        assert len(full.queues) == 19
        names = {file.name: file for file in full.configs}
        offsets = decode_config(names["consumerOffset.json"].path.read_bytes())
        assert offsets["offsetTable"]["RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"] == {"0": 20}
        assert len(json.loads(names["topics.json"].path.read_text())["topicConfigTable"]) == 24
        assert names["topics.json"].relative == "config/topics"
        kept = full.queues[0].files[0].path
    assert not kept.exists()


def test_the_second_form_of_the_configs(real_dir: Directory) -> None:
    with lifted(open_store(real_dir("5.5.0-rocksdb-config-v2"))) as lifting:
        (file,) = (file for file in lifting.store.configs if file.name == "consumerOffset.json")
        table = decode_config(file.path.read_bytes())["offsetTable"]
    assert table == {"CfgOrder@cg-basic": {"0": 24, "1": 24}, "CfgOrder@cg-retry": {"0": 19, "1": 19}}


def test_light_offsets_are_kept_apart(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    rows = {b"%LMQ%a@g": b'{"offsetTable":{"0":5}}', b"T@g": b"[]", b"U@g": b"no json", b"V@g": b'{"x":1}'}
    write_database(root / "config" / "consumerOffsets", {"default": rows})
    with lifted(open_store(root)) as lifting:
        (file,) = (file for file in lifting.store.configs if file.name == "lmqConsumerOffset.json")
        assert decode_config(file.path.read_bytes()) == {"lmqOffsetTable": {"%LMQ%a@g": 5}}
        odd = lifting.odd["config/consumerOffsets"]
        assert [(row.key, odd.counts[name]) for name, row in odd.first.items()] == [(b"T@g", 3)]


@pytest.mark.parametrize(("setting", "from_database"), [("default", False), ("defaultRocksDB", True)])
def test_which_form_is_read(real_dir: Directory, tmp_path: Path, setting: str, from_database: bool) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"rocksdbCQDoubleWriteEnable=true\ncombineCQPreferCQType={setting}\n")
    root = real_dir("5.5.0-combine")
    with lifted(open_store(root, broker_conf=conf)) as lifting:
        inside = [file.path.is_relative_to(root) for queue in lifting.store.queues for file in queue.files]
        assert len(lifting.store.queues) == 13
        assert set(inside) == {not from_database}
        assert bool(lifting.store.lifted.areas) == from_database


def test_light_queues_of_a_database_beside_files(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-combine"), tmp_path / "store")
    database = database_of(root, "consumequeue")
    families = rows_of(database)
    families["default"] |= dict([unit("%LMQ%x", 0, 0, 0)])
    families["offset"] |= dict([bound("%LMQ%x", 0, "max", 0, 0)])
    write_database(root / "consumequeue", families)
    with lifted(open_store(root)) as lifting:
        assert ("%LMQ%x", 0) in {(queue.topic, queue.queue_id) for queue in lifting.store.queues}
        assert len(lifting.store.queues) == 14


def test_what_cannot_be_read_is_left(
    real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    (root / "consumequeue" / "000010.sst").unlink()
    with lifted(open_store(root)) as lifting:
        assert list(lifting.failed) == ["consumequeue"]
        assert not lifting.store.queues
        assert has_queues_elsewhere(lifting.store)
        assert any("consumequeue" in note.what for note in lifting.store.notes)
    monkeypatch.setattr("rocketfsck.store.rocks.lifting.why_not_readable", lambda _other: "no such module")
    with lifted(open_store(root)) as lifting:
        assert len(lifting.failed) == 4


def test_a_store_without_databases_is_given_as_it_is(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-basic"))
    with lifted(store) as lifting:
        assert lifting.store is store


def test_no_room(real_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with lifted(open_store(real_dir("5.5.0-rocksdb-cq"))) as lifting:
        assert "No space left" in str(lifting.failed["consumequeue"])
    assert isinstance(lifting.failed["consumequeue"], StoreError)
