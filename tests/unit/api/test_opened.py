"""`rocketfsck.open`: messages, columns, checks and repairs of a store, with what the brokers said of them."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pytest

import rocketfsck
from rocketfsck.common.rows import html_of
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.magic import COMPRESSED
from rocketfsck.pipeline.views.table import VIEW_NAMES, schema_of
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.conftest import Directory, Document

AT = 1_700_000_000_000
STORES = ["4.4.0-multiseg", "4.9.8-ipv6", "5.3.3-basic"]
DAMAGED = "5.1.3-basic--flip-last-file"


def written(place: Path, messages: Iterable[OutgoingMessage]) -> Path:
    write_store(place / "store", messages, WriteOptions(sync=False))
    return place / "store"


def _host(text: str) -> tuple[object, str]:
    """A host whose IPv6 address may be in brackets, or in full."""
    address, _, port = text.rpartition(":")
    return ip_address(address.strip("[]")), port


@pytest.mark.parametrize("name", STORES)
def test_messages_are_those_that_were_sent(store_dir: Directory, manifest: Document, name: str) -> None:
    with rocketfsck.open(store_dir(name)) as store:
        found = {message.physical_offset: message for message in store}
        assert len(store) == len(found)
        sent = [
            message
            for phase in manifest(name)["phases"]
            for message in phase["messages"]
            if message.get("kind") != "legacyBatch" and message["status"] == "PUT_OK"
        ]
        assert sent
        for one in sent:
            message = found[one["physicalOffset"]]
            assert (message.topic, message.queue_offset) == (one["topic"], one["queueOffset"])
            assert message.offset == message.physical_offset
            assert message.message_id == (one.get("uniqKey") or one["offsetMsgId"])
            assert _host(message.born_host) == _host(one["bornHost"])
            assert _host(message.store_host) == _host(one["storeHost"])
            assert message.offset_message_id == one["offsetMsgId"]
            assert hashlib.sha256(message.stored_body()).hexdigest() == one["bodySha256"]


def test_what_a_message_says(tmp_path: Path) -> None:
    outgoing = OutgoingMessage(
        "Orders",
        zlib.compress(b"hello"),
        AT + 1,
        queue_id=3,
        properties={"KEYS": "a b", "TAGS": "new", "shop": "7"},
        sys_flag=COMPRESSED,
        born_timestamp=AT,
    )
    with rocketfsck.open(written(tmp_path, [outgoing]), version="5.3.3") as store:
        (message,) = store
        assert (message.topic, message.queue_id, message.queue_offset, message.offset) == ("Orders", 3, 0, 0)
        assert (message.keys, message.tags, message.properties["shop"]) == (["a", "b"], "new", "7")
        assert (message.born_timestamp, message.store_timestamp) == (AT, AT + 1)
        assert message.born_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        assert message.stored_at == message.born_at + timedelta(milliseconds=1)
        assert message.unique_key is None
        assert message.message_id == message.offset_message_id
        assert message.born_host.rpartition(":")[2].isdigit()
        assert message.store_host.rpartition(":")[2].isdigit()
        assert message.size == message.record.total_size
        assert message.body() == b"hello"
        assert message.stored_body() == zlib.compress(b"hello")
        with pytest.raises(UsageError, match="more than 4 bytes"):
            message.body(limit=4)
        assert "'Orders', queue 3 at 0" in repr(message)
        assert (store.version, store.topics, len(store.queues)) == ("5.3.3", ("Orders",), 1)
        assert store.path == tmp_path / "store"
        assert repr(store) == f"<rocketfsck store '{tmp_path / 'store'}', 5.3.3>"
    assert repr(store).endswith(", closed>")


def test_a_body_that_is_not_what_its_flags_say(tmp_path: Path) -> None:
    root = written(tmp_path, [OutgoingMessage("T", b"plain", AT, sys_flag=COMPRESSED)])
    with rocketfsck.open(root) as store:
        (message,) = store
        with pytest.raises(StoreError, match="cannot be decompressed: not zlib data"):
            message.body()
        assert message.stored_body() == b"plain"


def test_times_that_no_calendar_has(tmp_path: Path) -> None:
    """A timestamp from disk is any number of 64 bits."""
    root = written(tmp_path, [OutgoingMessage("T", b"x", AT), OutgoingMessage("T", b"y", AT)])
    file = root / "commitlog" / ("0" * 20)
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[size + 40 : size + 48] = (1 << 62).to_bytes(8, "big")  # bornTimestamp of the second
    file.write_bytes(data)
    with rocketfsck.open(root) as store:
        first, second = store
        assert (second.born_timestamp, second.born_at) == (1 << 62, None)
        born = store.to_arrow(["born_timestamp"]).read_all()["born_timestamp"].to_pylist()
        assert born == [first.born_at, None]
        numbers = store.to_arrow(["born_timestamp"], timestamps="ms").read_all()["born_timestamp"]
        assert numbers.to_pylist() == [first.born_timestamp, 1 << 62]


def test_messages_that_match(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("4.9.8-multiseg")) as store:
        every = list(store)
        one = every[777]
        assert one.unique_key is not None

        def places(**asked: object) -> list[int]:
            found = [message.offset for message in store.messages(**asked)]  # type: ignore[arg-type]
            if "limit" not in asked:
                table = store.to_arrow(["offset"], **asked).read_all()  # type: ignore[arg-type]
                assert table["offset"].to_pylist() == found
            return found

        assert places(key=one.unique_key) == [one.offset]
        assert places(topic=one.topic, queue_id=one.queue_id) == [
            message.offset
            for message in every
            if (message.topic, message.queue_id) == (one.topic, one.queue_id)
        ]
        low, high = every[100], every[200]
        between = [m.offset for m in every if low.store_timestamp <= m.store_timestamp < high.store_timestamp]
        assert 0 < len(between) < len(every)
        assert places(start=low.store_timestamp, end=high.store_timestamp) == between
        start, end = low.stored_at, high.stored_at
        assert start is not None
        assert end is not None
        assert places(start=start, end=end) == between
        there = timezone(timedelta(hours=8))
        assert places(start=start.astimezone(there), end=end.astimezone(there)) == between
        late = timedelta(microseconds=1)
        assert places(end=end + late)[-1] >= high.offset
        assert places(limit=3) == [message.offset for message in every[:3]]
        assert places(limit=0) == []
        with pytest.raises(UsageError, match="no time zone"):
            store.messages(start=datetime(2023, 11, 14))
        assert places(start=str(start), end=end.isoformat()) == between
        with pytest.raises(UsageError, match="'soon' is neither milliseconds nor a date"):
            store.messages(start="soon")
        with pytest.raises(UsageError, match=r"not 1\.5"):
            store.messages(start=1.5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="at least 0, not -1"):
            store.messages(limit=-1)


def test_messages_with_a_tag(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("5.3.3-basic")) as store:
        tagged = [message.offset for message in store if message.tags == "TagB"]
        assert 0 < len(tagged) < len(store)
        assert [message.offset for message in store.messages(tag="TagB")] == tagged
        table = store.to_arrow(["offset", "tags"], tag="TagB").read_all()
        assert (table["offset"].to_pylist(), set(table["tags"].to_pylist())) == (tagged, {"TagB"})


@pytest.mark.parametrize("name", [*STORES, "4.9.8-ghosttail", "5.0.0-innerbatch"])
@pytest.mark.parametrize("live_only", [True, False])
def test_columns_say_what_the_messages_say(store_dir: Directory, name: str, live_only: bool) -> None:
    with rocketfsck.open(store_dir(name)) as store:
        messages = list(store.messages(live_only=live_only))
        table = store.to_arrow(body=True, live_only=live_only).read_all()
        same = "offset topic queue_id queue_offset physical_offset tags keys unique_key size"
        for column in (*same.split(), "born_host", "store_host"):
            assert table[column].to_pylist() == [getattr(message, column) for message in messages], column
        assert table["store_timestamp"].to_pylist() == [message.stored_at for message in messages]
        assert table["born_timestamp"].to_pylist() == [message.born_at for message in messages]
        assert [dict(row or ()) for row in table["properties"].to_pylist()] == [
            dict(message.properties) for message in messages
        ]
        assert table["body"].to_pylist() == [message.stored_body() for message in messages]


def test_names_and_types_of_columns(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("5.3.3-basic")) as store:
        plain = store.to_arrow()
        assert isinstance(plain, pa.RecordBatchReader)
        full = store.to_arrow(body=True, damage=True).schema
        assert full.names == schema_of("messages").names
        assert [name for name in full.names if name not in plain.schema.names] == [
            "body_crc_ok",
            "body",
            "_corrupt_record",
        ]
        for name in ("store_timestamp", "born_timestamp"):
            assert full.field(name).type == pa.timestamp("ms", "UTC")
        assert store.to_arrow(body=True, damage=True, timestamps="ms").schema == schema_of("messages")
        assert store.to_arrow(["topic"]).schema.names == ["topic"]
        assert store.to_arrow(["topic"], body=True).schema.names == ["topic", "body"]
        assert store.to_arrow(["body"], body=True).schema.names == ["body"]
        with pytest.raises(UsageError, match="timestamps must be utc or ms, not 'us'"):
            store.to_arrow(timestamps="us")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no column nope"):
            store.to_arrow(["nope"])


def test_rows_of_views(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("5.3.3-basic")) as store:
        for view in VIEW_NAMES:
            count = store.rows(view).read_all().num_rows
            assert count == 0 if view in ("damage", "lost") else count > 0
        units = store.rows("consumequeue", topic="GammaOrder", queue_id=1).read_all()
        messages = list(store.messages(topic="GammaOrder", queue_id=1))
        assert units["physical_offset"].to_pylist() == [message.offset for message in messages]
        assert store.rows("index").schema.field("store_timestamp").type == pa.timestamp("ms", "UTC")
        with pytest.raises(UsageError, match="no view has the name 'nope'"):
            store.rows("nope")
        with pytest.raises(UsageError, match="the view files has no selection by topic"):
            store.rows("files", topic="T")


def test_damage_is_rows_only_where_it_is_wanted(store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[6764 + 4 : 6764 + 8] = b"\xff" * 4  # a magic that none is
    file.write_bytes(data)
    with rocketfsck.open(root) as store:
        places = [message.offset for message in store]
        assert 6764 not in places
        assert len(store) == len(places)
        assert store.to_arrow(["offset"]).read_all()["offset"].to_pylist() == places
        rows = store.to_arrow(["offset", "_corrupt_record"], damage=True).read_all().to_pylist()
        (damaged,) = [row for row in rows if row["_corrupt_record"]]
        assert damaged["offset"] == 6764
        assert sorted([*places, 6764]) == [row["offset"] for row in rows]


def test_a_message_with_a_wrong_crc_is_a_message(restart_dir: Directory) -> None:
    with rocketfsck.open(restart_dir(DAMAGED)) as store:
        table = store.to_arrow(body=True).read_all()
        assert table["body_crc_ok"].to_pylist().count(False) == 1
        assert table.num_rows == len(store)


def test_a_store_without_messages(tmp_path: Path) -> None:
    with rocketfsck.open(written(tmp_path, [])) as store:
        assert not store
        assert (len(store), list(store), store.to_arrow().read_all().num_rows) == (0, [], 0)


def test_truth_reads_no_further_than_the_first(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    with rocketfsck.open(store_dir("5.3.3-basic")) as store:
        monkeypatch.setattr(type(store), "__len__", lambda _: pytest.fail("counted"))
        assert store


def test_a_closed_store(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("5.3.3-basic")) as store:
        message = next(message for message in store if message.record.body_size)
        assert message.body()
    store.close()  # twice is no error
    for use in (
        message.body,
        store.messages,
        store.to_arrow,
        store.check,
        store.plan,
        lambda: len(store),
        lambda: store.queues,
        store.__enter__,
    ):
        with pytest.raises(UsageError, match="the store is closed"):
            use()


def test_a_file_that_vanishes_is_an_error_with_its_name(store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    with rocketfsck.open(root) as store:
        stream = store.to_arrow(["offset"])
        last = max((root / "commitlog").iterdir())
        last.unlink()
        with pytest.raises(StoreError, match=last.name):
            stream.read_all()
        with pytest.raises(StoreError, match=last.name):
            list(store)


def test_check_verdict_plan_and_apply(store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    whole = (root / "consumequeue" / "GammaOrder" / "1" / ("0" * 20)).read_bytes()
    (root / "consumequeue" / "GammaOrder" / "1" / ("0" * 20)).unlink()
    with rocketfsck.open(root) as store:
        count = len(store)
        assert store.check(level="quick").level == "quick"
        report = store.check()
        assert report.exit_code == 4
        assert report.level == "full"
        verdict = store.verdict()
        assert verdict.prospect is not None
        assert verdict == store.verdict(report)
        plan = store.plan()
        assert plan.actions
        assert store.plan(only=[plan.actions[0].name]).actions
        done = store.apply(plan)
        assert done.published
        assert (root / "consumequeue" / "GammaOrder" / "1" / ("0" * 20)).read_bytes() == whole
        assert len(store) == count
        assert store.verdict().prospect is None  # of a new check
        assert store.check().exit_code == 0


def test_a_plan_of_another_store_is_refused(store_copy: Directory, store_dir: Directory) -> None:
    root = store_copy("5.3.3-basic")
    (root / "checkpoint").unlink()
    with rocketfsck.open(root) as damaged:
        plan = damaged.plan()
    with rocketfsck.open(store_dir("5.3.3-basic")) as store, pytest.raises(UsageError, match="is for"):
        store.apply(plan)


def test_what_the_bytes_do_not_tell_is_passed_on(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy("5.3.3-basic")
    log = (root / "commitlog").rename(tmp_path / "log")
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=gamma\n")
    with rocketfsck.open(
        root, broker_conf=conf, version="5.3.0", commitlog_paths=[log], delay_levels="1s 2s"
    ) as store:
        assert (store.version, store.store.delay_levels) == ("5.3.0", "1s 2s")
        assert set(store.to_arrow(["broker"]).read_all()["broker"].to_pylist()) == {"gamma"}
        assert len(store) == 118


def test_files_of_a_store_that_nobody_closes_are_closed(store_dir: Directory) -> None:
    def opened() -> int:
        here = os.path.realpath(store_dir("5.3.3-basic"))
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
        return sum(os.path.realpath(link).startswith(here) for link in links)

    before = opened()
    store = rocketfsck.open(store_dir("5.3.3-basic"))
    assert next(message for message in store if message.record.body_size).body()
    assert opened() > before
    del store
    gc.collect()
    assert opened() == before


@pytest.mark.parametrize("name", ["numpy", "pyarrow", "numba"])
def test_open_is_named_without_heavy_libraries(name: str) -> None:
    code = f"import sys, rocketfsck; dir(rocketfsck); sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_the_store_lacks_is_an_error(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("4.9.8-multiseg")) as store:
        with pytest.raises(UsageError, match="the store has no topic Seg; similar: Seg1, Seg0"):
            list(store.messages(topic="Seg"))
        assert list(store.messages(topic="Seg0", end=0)) == []
        with pytest.raises(UsageError, match="the group nobody has no offset"):
            store.lag("nobody")
        assert store.lag() == []


def test_messages_of_a_topic_without_queues_are_there(store_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "store")
    shutil.rmtree(root / "consumequeue" / "Seg0")
    with rocketfsck.open(root) as store:
        assert len(list(store.messages(topic="Seg0"))) == 655


def test_lag_of_groups(store_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "store")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"Seg0@one":{0:5},"Seg1@two":{0:7}}}'
    )
    with rocketfsck.open(root) as store:
        [row] = store.lag("one")
        assert (row.topic, row.offset, row.lag) == ("Seg0", 5, row.max_offset - 5)
        assert row.next_timestamp is not None
        assert [row.group for row in store.lag()] == ["one", "two"]
        assert [row.group for row in store.lag(topic="Seg1")] == ["two"]


def test_a_store_is_a_stream_of_arrow(store_dir: Directory) -> None:
    with rocketfsck.open(store_dir("4.9.8-multiseg")) as store:
        table = pa.RecordBatchReader.from_stream(store).read_all()
        assert table.num_rows == len(store)
        assert "body" not in table.column_names


def test_answers_are_short_and_have_html(store_dir: Directory, tmp_path: Path) -> None:
    """Names in a store are hostile: what is shown of them is escaped."""
    root = shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "store")
    (root / "consumequeue" / "<b>").mkdir()
    with (root / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(700)
        file.write(b"\xff" * 40)
    with rocketfsck.open(root) as store:
        answers = (store, store.check(), store.verdict(), store.plan())
        for answer in answers:
            assert len(repr(answer)) < 400
            html = answer._repr_html_()
            assert html.startswith("<strong>")
            assert "<b>" not in html
        assert repr(answers[1]).startswith(f"<rocketfsck report on {str(root)!r}: error ")
        assert "; may start yes; errors 1; " in repr(answers[2])
        assert "<th>rule</th>" in answers[1]._repr_html_()


def test_long_tables_are_cut_in_html() -> None:
    html = html_of("<title>", [("none", None)], ("n",), [(number,) for number in range(1990, 2015)])
    assert "&lt;title&gt;" in html
    assert "<td>2,009</td>" in html
    assert "2,010" not in html
    assert html.endswith("<p>and 5 more</p>")
