"""The public strategies: what they draw, a broker takes, and a check of what was written finds nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketfsck.formats.dialect import Dialect, dialect_for, parse_version
from rocketfsck.store.circumstances import Geometry
from rocketfsck.testing import NotConformantError, PlannedStore, assert_conformant
from rocketfsck.testing.strategies import (
    START_TIMESTAMP,
    PlannedDamage,
    damages,
    dialects,
    geometries,
    messages,
    stores,
    versions,
)
from rocketfsck.writer import OutgoingMessage, write_store
from rocketfsck.writer.damage import DAMAGES

NOW = START_TIMESTAMP + 86_400_000
SETTINGS = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def _assert(planned: PlannedStore, ignore: Iterable[str] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder, "broker.conf")
        conf.write_text(planned.broker_conf)
        planned.write(Path(folder, "store"))
        assert_conformant(
            Path(folder, "store"), version=planned.version, broker_conf=conf, ignore=ignore, now_timestamp=NOW
        )


@SETTINGS
@given(stores())
def test_stores_are_conformant(planned: PlannedStore) -> None:
    assert not planned.was_killed
    _assert(planned)


@SETTINGS
@given(stores(version="5.3.3", killed=True, min_size=1))
def test_killed_brokers_leave_what_a_kill_leaves(planned: PlannedStore) -> None:
    if not planned.was_killed:
        _assert(planned)
        return
    with pytest.raises(NotConformantError, match="CP001"):
        _assert(planned)
    _assert(planned, ignore=["CP001", "CP003", "CP005", "CP017"])


@SETTINGS
@given(messages())
def test_one_message_makes_a_store(message: OutgoingMessage) -> None:
    from rocketfsck.testing.strategies import BATCH_TOPIC
    from rocketfsck.writer import WriteOptions

    assert message.topic != BATCH_TOPIC
    with tempfile.TemporaryDirectory() as folder:
        write_store(Path(folder, "store"), [message], WriteOptions(sync=False))
        assert_conformant(Path(folder, "store"), now_timestamp=NOW)


@given(versions("5.1.0"), dialects("4.9.1"))
def test_versions_have_their_ancestors(version: str, dialect: Dialect) -> None:
    assert dialect_for(version).v2_allowed
    assert dialect.property_parser == "scan"
    assert dialect.version.descends_from(parse_version("4.9.1"))


@given(geometries(largest=4096))
def test_geometries_are_small(geometry: Geometry) -> None:
    assert geometry.commitlog_file_size <= 4096
    assert geometry.consumequeue_file_size % 20 == 0
    assert geometry.batch_file_size % 46 == 0


@given(damages(), damages(["body-flip", "commitlog-gone"], max_count=2))
def test_damages_can_be_done_together(one: PlannedDamage, several: PlannedDamage) -> None:
    assert len(one.faults) == 1
    assert one.faults[0] in DAMAGES
    assert set(several.faults) <= {"body-flip", "commitlog-gone"}
    assert len(several.faults) == 1


@SETTINGS
@given(st.data())
def test_examples_are_the_same_on_every_run(data: st.DataObject) -> None:
    planned = data.draw(stores(version="4.9.8", max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            planned.write(Path(folder, name))
        files = [
            {
                path.relative_to(Path(folder, name)): path.read_bytes()
                for path in Path(folder, name).rglob("*")
                if path.is_file()
            }
            for name in ("a", "b")
        ]
        assert files[0] == files[1]
