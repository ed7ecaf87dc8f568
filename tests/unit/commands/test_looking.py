"""Commands that only look, without a terminal: options in, an answer out."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.commands.bugreport import BugReportCommand, bugreport
from rocketfsck.commands.explain import ExplainCommand, explain
from rocketfsck.commands.info import InfoCommand, info
from rocketfsck.commands.query import (
    BrokerTime,
    IdQuery,
    KeyOrTagQuery,
    LifeQuery,
    OffsetQuery,
    OffsetsQuery,
    ScanQuery,
    TimeQuery,
    TimersQuery,
    UniqueKeyQuery,
    query_id,
    query_key,
    query_life,
    query_offset,
    query_offsets,
    query_scan,
    query_time,
    query_timers,
)
from rocketfsck.commands.shared import Masking
from rocketfsck.common.documents import to_document
from rocketfsck.errors import UsageError
from rocketfsck.query.info.model import StoreInfo
from rocketfsck.storedmessage import StoredMessage

from tests.conftest import Directory

DELAYED = "4.9.8-delay"
NOT_FOUND = 4


@pytest.fixture
def root(store_dir: Directory) -> Path:
    return store_dir(DELAYED)


@pytest.fixture
def message(root: Path) -> StoredMessage:
    """A message with a unique key."""
    with rocketfsck.open(root) as store:
        return next(item for item in store if item.unique_key)


def test_info_is_the_document_of_its_answer(root: Path) -> None:
    answer = info(InfoCommand(path=root, stats=True))
    assert isinstance(answer.info, StoreInfo) and answer.statistics is not None
    document = to_document(answer)
    assert [*document][:2] == ["schema_version", "kind"] and [*document][-1] == "statistics"
    assert "statistics" not in to_document(info(InfoCommand(path=root)))
    assert to_document(info(InfoCommand(path=root / "checkpoint")))["kind"] == "rocketfsck.info.file"
    with pytest.raises(UsageError, match="not in a file"):
        info(InfoCommand(path=root / "checkpoint", stats=True))


def test_explain_gives_rows() -> None:
    (row,) = explain(ExplainCommand(name="cq004")).rows()
    assert (row.kind, row.id, row.advice) == ("rule", "CQ004", None)
    assert {item.kind for item in explain(ExplainCommand()).rows()} == {"rule", "fault-class", "repair"}
    with pytest.raises(UsageError, match="did you mean CQ004"):
        explain(ExplainCommand(name="CQ004x"))


def test_queries_for_messages(root: Path, message: StoredMessage) -> None:
    key, topic = message.unique_key or "", message.topic
    by_id = query_id(IdQuery(path=root, message_id=key))
    by_place = query_offset(
        OffsetQuery(path=root, topic=topic, queue_id=message.queue_id, queue_offset=message.queue_offset)
    )
    by_key = query_key(UniqueKeyQuery(path=root, topic=topic, key=key))
    life = query_life(LifeQuery(path=root, name=key))
    for found in (by_id.found.found, by_place.found.found, by_key.found.found, life.found.records):
        assert {item.message.unique_key for item in found} == {key}
    assert [answer.exit_code for answer in (by_id, by_place, by_key, life)] == [0, 0, 0, 0]
    assert by_key.found.found[0].message.body is not None
    bare = query_key(UniqueKeyQuery(path=root, topic=topic, key=key, with_bodies=False))
    assert bare.found.found[0].message.body is None
    unknown = query_key(KeyOrTagQuery(path=root, topic=topic, key="nosuch", via="both"))
    assert (unknown.found.found, unknown.exit_code) == ((), NOT_FOUND)


def test_a_scan_gives_messages_as_they_are_found(root: Path, message: StoredMessage) -> None:
    expression = f'unique_key == "{message.unique_key}"'
    with query_scan(ScanQuery(path=root, expression=expression)) as scanned:
        found = list(scanned.found)
    assert found and {item.message.unique_key for item in found} == {message.unique_key}
    assert (scanned.expression, dict(scanned.unread)) == (expression, {})


def test_queries_for_places(root: Path, message: StoredMessage) -> None:
    asked = TimeQuery(path=root, topic=message.topic, queue_id=message.queue_id, timestamp=0)
    mine, theirs = query_time(asked), query_time(replace(asked, as_broker="4.9.8"))
    assert isinstance(theirs.found, BrokerTime) and not isinstance(mine.found, BrokerTime)
    assert (mine.found.lower, theirs.found.offset, theirs.exit_code) == (0, 0, 0)
    offsets = query_offsets(OffsetsQuery(path=root))
    assert message.topic in {queue.topic for queue in offsets.found.queues}
    assert offsets.found.problem is None
    assert query_offsets(OffsetsQuery(path=root, group="nosuch")).exit_code == NOT_FOUND
    timers = query_timers(TimersQuery(path=root))
    assert {waiting.topic for waiting in timers.found} == {"Dly"}


def test_queries_are_masked(root: Path, message: StoredMessage) -> None:
    query = UniqueKeyQuery(
        path=root, topic=message.topic, key=message.unique_key or "", masking=Masking(mask=True)
    )
    answer = query_key(query)
    assert answer.exit_code == 0
    assert {item.message.unique_key for item in answer.found.found}.isdisjoint({message.unique_key})


def test_a_bug_report_goes_to_a_file_or_a_stream(root: Path, tmp_path: Path) -> None:
    target, stream = tmp_path / "bug.tar.gz", io.BytesIO()
    wanted = BugReportCommand(path=root, output=target, level="quick", max_copy=1, coarse_times=10.0)
    about = bugreport(wanted)
    assert about.command[2:] == ("--level", "quick", "--coarse-times", "10s", "STORE")
    assert about.why_no_copy
    assert len(bugreport(wanted, stream).findings) == len(about.findings) > 0
    for data in (target.read_bytes(), stream.getvalue()):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            assert sorted(archive.getnames()) == ["bugreport/README.txt", "bugreport/about.json"]
    with pytest.raises(UsageError, match="whole number"):
        bugreport(BugReportCommand(path=root, output=target, coarse_times=0.5))
