"""Made-up stores: the same bytes by both ways, for every version; and nothing for a check to find."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import ALL_VERSION_NAMES
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.rules.catalog import severity_of
from rocketfsck.verify.run import check_store
from rocketfsck.writer import EndState, WriteOptions
from rocketfsck.writer.storewriter import StoreWriter
from rocketfsck.writer.synth import Mix, parse_mix, story_fill, synthesize
from rocketfsck.writer.synth import bulk as bulk_module
from rocketfsck.writer.synth.bulk import bulk_fill
from rocketfsck.writer.synth.plan import make_plan
from rocketfsck.writer.writing import MadeStore, make_store

from tests.reported import reported

START = 1_704_067_200_000
SMALL = Geometry(
    commitlog_file_size=1 << 15,
    consumequeue_file_size=20 * 15,
    batch_file_size=46 * 4,
    ext_file_size=300,
    slot_count=37,
    entry_count=90,
)


def _both(
    folder: Path, mix: Mix, options: WriteOptions, seed: int, size: int | None, limit: int, start: int = START
) -> tuple[MadeStore, MadeStore]:
    plan = make_plan(seed, mix, options, start)
    return (
        make_store(folder / "one", story_fill(plan, size, limit), options, {}),
        make_store(folder / "bulk", bulk_fill(plan, size, limit), options, {}),
    )


def _assert_equal(one: MadeStore, bulk: MadeStore) -> None:
    assert replace(one.store, path=bulk.store.path) == bulk.store
    for name, _ in one.store.files:
        assert (one.store.path / name).read_bytes() == (bulk.store.path / name).read_bytes(), name
    # The CRCs that are known from the making are those of the files.
    assert one.manifest is not None
    assert bulk.manifest is not None
    assert one.manifest.read_text() == bulk.manifest.read_text()


@pytest.mark.parametrize("version", ALL_VERSION_NAMES)
def test_bulk_is_the_same_as_one_by_one_for_every_version(tmp_path: Path, version: str) -> None:
    mix = parse_mix("body=log:1:2000,content=both,keys=0:4,skew=zipf,steps=9:3000,rate=7,topics=5,queues=2")
    options = WriteOptions(
        version=version,
        geometry=SMALL,
        sync=False,
        end_state=EndState.KILLED,
        start_offset=2 << 15,
        queue_start_offsets={("Topic1", 1): 22},
    )
    made = _both(tmp_path, mix, options, seed=ALL_VERSION_NAMES.index(version), size=None, limit=170)
    _assert_equal(*made)


def test_bulk_in_small_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_module, "ROWS", 7)
    monkeypatch.setattr(bulk_module, "KEY_ROWS", 11)
    monkeypatch.setattr(bulk_module, "INDEX_CHUNK_SIZE", 100)
    options = WriteOptions(version="4.4.0", geometry=SMALL, sync=False)
    _assert_equal(*_both(tmp_path, parse_mix("body=0:300,keys=0:9"), options, 3, 100_000, 1 << 40))


MIXES = st.builds(
    "topics={},zipf={},queues={},body={},content={},keys={},words={},skew={},tags={},producers={},rate={},steps={}".format,
    st.integers(1, 30),
    st.sampled_from(("0.0", "0.7", "1.0", "2.5")),
    st.integers(1, 5),
    st.sampled_from(("0", "1", "63", "0:100", "log:1:5000", "1000:1100")),
    st.sampled_from(("random", "text", "both")),
    st.sampled_from(("0", "1", "0:3", "64", "5:9")),
    st.sampled_from((1, 2, 9, 1000, 1 << 32)),
    st.sampled_from(("uniform", "zipf")),
    st.integers(0, 5),
    st.sampled_from((1, 3, 257)),
    st.sampled_from((1, 3, 1000, 10_000_000)),
    st.sampled_from(("0:0", "1:5", "10:100000")),
)


@st.composite
def bulk_cases(draw: st.DrawFn) -> dict[str, Any]:
    geometry = Geometry(
        commitlog_file_size=draw(st.sampled_from((8192, 10_007, 1 << 20))),
        consumequeue_file_size=20 * draw(st.sampled_from((2, 7, 1000))),
        slot_count=draw(st.sampled_from((1, 2, 50, 1000))),
        entry_count=draw(st.sampled_from((2, 3, 64, 5000))),
    )
    return {
        "mix": parse_mix(draw(MIXES)),
        "options": WriteOptions(
            version=draw(st.sampled_from(ALL_VERSION_NAMES)),
            geometry=geometry,
            end_state=draw(st.sampled_from(EndState)),
            message_index=draw(st.booleans()),
            sync_flush=draw(st.booleans()),
            sync=False,
        ),
        "seed": draw(st.integers(-(1 << 63), (1 << 64) - 1)),
        "size": draw(st.none() | st.integers(0, 60_000)),
        "limit": draw(st.integers(0, 120)),
        "start": draw(st.sampled_from((0, 1000, START, START - 1, 32_503_680_000_000))),
    }


def _bulk_case(case: dict[str, Any], folder: Path) -> None:
    _assert_equal(*_both(folder, **case))


_HEALTH = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(deadline=None, suppress_health_check=_HEALTH, max_examples=25)
@given(case=bulk_cases())
def test_bulk_is_the_same_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, case: dict[str, Any]
) -> None:
    _bulk_case(case, tmp_path_factory.mktemp("bulk"))


@pytest.mark.nightly
@settings(deadline=None, suppress_health_check=_HEALTH, max_examples=1500)
@given(case=bulk_cases())
def test_bulk_is_the_same_as_one_by_one_nightly(
    tmp_path_factory: pytest.TempPathFactory, case: dict[str, Any]
) -> None:
    _bulk_case(case, tmp_path_factory.mktemp("bulk"))


def test_which_way_is_taken_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = WriteOptions(geometry=SMALL, sync=False)
    for mode in ("plain", "compiled"):
        monkeypatch.setenv("ROCKETFSCK_KERNELS", mode)
        synthesize(tmp_path / mode, parse_mix("keys=3,body=99"), options, seed=5, size=70_000)
    first, second = (tmp_path / f"{mode}.manifest.json" for mode in ("plain", "compiled"))
    assert first.read_text() == second.read_text()
    assert json.loads(first.read_text())["source"]["mix"]["keys"] == [3, 3]


def test_bytes_of_a_seed_never_change(tmp_path: Path) -> None:
    """What a seed gave once it gives for ever: a change here breaks everybody's recorded stores."""
    options = WriteOptions(version="5.1.4", geometry=SMALL, sync=False)
    for name, expected in SHA256_OF_SUMS.items():
        made = synthesize(tmp_path / name, parse_mix(name), options, seed=42, message_count=60)
        assert made.manifest is not None
        files = json.loads(made.manifest.read_text())["files"]
        lines = "".join(f"{item['path']} {item['size']} {item['crc32']:08x}\n" for item in files)
        assert hashlib.sha256(lines.encode()).hexdigest() == expected, name


SHA256_OF_SUMS = {
    "plain": "e34a155a273a225a9568b98c0e2e065299dcaf271c50760ed48b8e7bd2be1f0d",
    "mixed": "b9e8fbe9b645c603e2c63006c6352ea782608fc42f48d8800cef8bdbaed9d605",
    "everything": "e5a923ee5a87fc306b2730c1390e2f906c6ce675b2da3df1b992967105725a87",
}


def _found_above_info(root: Path, options: WriteOptions) -> list[str]:
    report = check_store(open_store(root, version=options.version), CheckOptions(jobs=1))
    return [
        f"{finding.rule} {finding.where} {finding.found}"
        for finding in report.findings
        if severity_of(finding) > Severity.INFO
    ]


@pytest.mark.parametrize("version", ALL_VERSION_NAMES)
def test_a_check_finds_nothing_in_made_up_stores(tmp_path: Path, version: str) -> None:
    options = WriteOptions(version=version, geometry=SMALL, sync=False)
    synthesize(tmp_path / "store", parse_mix("everything"), options, seed=11, message_count=120)
    assert not _found_above_info(tmp_path / "store", options)


@st.composite
def checked_cases(draw: st.DrawFn) -> tuple[WriteOptions, str, int]:
    version = draw(st.sampled_from(ALL_VERSION_NAMES))
    options = WriteOptions(version=version, geometry=SMALL, sync=False)
    options = replace(
        options,
        consumequeue_ext=options.dialect.consumequeue_ext and draw(st.booleans()),
        append_property_crc=options.dialect.property_crc and draw(st.booleans()),
    )
    mix = draw(
        st.sampled_from(("plain", "mixed", "everything", "everything,transaction=100", "everything,edge=200"))
    )
    return options, mix, draw(st.integers(0, 1 << 32))


@pytest.mark.nightly
@settings(deadline=None, suppress_health_check=_HEALTH, max_examples=800)
@given(case=checked_cases(), count=st.integers(0, 300))
def test_a_check_finds_nothing_nightly(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[WriteOptions, str, int], count: int
) -> None:
    options, mix, seed = case
    root = tmp_path_factory.mktemp("checked") / "store"
    synthesize(root, parse_mix(mix), options, seed=seed, message_count=count)
    assert not _found_above_info(root, options)


def test_no_kernel_without_a_crc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_module, "chosen", lambda: None)
    options = WriteOptions(geometry=SMALL, sync=False)
    plan = make_plan(0, Mix(), options, START)
    with pytest.raises(StoreError, match="no CRC-32"):
        make_store(tmp_path / "store", bulk_fill(plan, None, 5), options, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", [0, 1, 9])
def test_a_full_disk_in_bulk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    real, calls = os.pwrite, iter(range(left))

    def pwrite(descriptor: int, data: Any, pos: int) -> int:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data, pos)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    with pytest.raises(StoreError, match="No space left"):
        synthesize(tmp_path / "store", Mix(), WriteOptions(geometry=SMALL), size=200_000)
    assert not list(tmp_path.iterdir())


def test_progress_of_the_bulk(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    options = WriteOptions(geometry=SMALL, sync=False)
    plan = make_plan(0, Mix(), options, START)
    fill = bulk_fill(plan, 100_000, 1 << 40)

    def filled(writer: StoreWriter, on_put: Any) -> Any:
        return fill(writer, on_put)

    with reported("writing the messages", seen):
        made = make_store(tmp_path / "store", filled, options, {})
    assert seen[-1] == (100_000, 100_000) and made.store.max_offset >= 100_000
