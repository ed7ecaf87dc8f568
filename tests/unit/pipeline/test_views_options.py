"""Options as text, and the filters that Spark hands over: exactly, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.views import Wanted
from rocketfsck.pipeline.views.options import OPTION_NAMES, Request, parse_options

from tests.conftest import Directory


def _parsed(root: Path, **options: str) -> Request:
    return parse_options({"path": str(root), **options})


def test_all_options(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    request = _parsed(
        root,
        View="consumequeue",
        topic="T",
        queueId="3",
        begin_offset="-5",
        endOffset="9",
        mode="dropMalformed",
        level="FULL",
        columns="topic, offset",
        live_only="False",
        splitSize="64 MiB",
        max_body_size="1K",
        columnNameOfCorruptRecord="bad",
        now_timestamp="12",
        broker="b",
        version="5.3.3",
    )
    assert request.view == "consumequeue"
    assert [(source.broker, source.path, source.version) for source in request.sources] == [
        ("b", str(root), "5.3.3")
    ]
    assert request.wanted == Wanted(
        topic="T",
        queue_id=3,
        begin_offset=-5,
        end_offset=9,
        mode="DROPMALFORMED",
        level="full",
        columns=("topic", "offset"),
        live_only=False,
        split_size=64 << 20,
        max_body_size=1024,
        corrupt_column="bad",
        now_timestamp=12,
    )
    assert _parsed(root).wanted == Wanted()


def test_ways_to_name_stores(store_dir: Directory) -> None:
    roots = [str(store_dir(name)) for name in ("5.3.3-basic", "5.3.3-trans")]
    for options in (
        {"paths": json.dumps(roots)},
        {"path": json.dumps(roots)},
        {"path": roots[0], "store": roots[1]},
    ):
        assert [source.path for source in parse_options(options).sources] == roots
    named = parse_options({"paths": json.dumps(roots), "broker": "a, b"})
    assert [source.broker for source in named.sources] == ["a", "b"]
    with pytest.raises(UsageError, match="no store was named: load"):
        parse_options({"view": "files"})
    with pytest.raises(UsageError, match="not a list of texts"):
        parse_options({"paths": "[1, 2]"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "x"}, f"no option is called topics; there are {', '.join(OPTION_NAMES)}"),
        ({"view": "message"}, "no view is called 'message'; there are messages, consumequeue"),
        ({"queue_id": "one"}, "queue_id is a whole number, not 'one'"),
        ({"queue_id": "1", "queueid": "2"}, "given twice"),
        ({"begin_offset": str(1 << 63)}, "begin_offset is a number of 64 bits"),
        ({"split_size": "-1"}, "split_size is a number of bytes"),
        ({"split_size": "1"}, "at least 4096"),
        ({"live_only": "maybe"}, "live_only is true or false, not 'maybe'"),
        ({"mode": "lenient"}, "a mode is one of"),
        ({"level": "deep"}, "a level is one of"),
        ({"columns": " , "}, "no column was named"),
        ({"view": "files", "topic": "x"}, "the view files cannot be selected by topic"),
        ({"view": "index", "queue_id": "1"}, "the view index cannot be selected by queue_id"),
        ({"view": "findings", "begin_offset": "1"}, "cannot be selected by begin_offset"),
    ],
)
def test_options_without_sense(store_dir: Directory, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parsed(store_dir("5.3.3-basic"), **options)
    assert said in str(caught.value)


def test_options_of_others_are_let_through(store_dir: Directory) -> None:
    path = str(store_dir("5.3.3-basic"))
    options = {"path": path, "maxBytesPerTrigger": "1"}
    assert parse_options(options, also=["MaxBytesPerTrigger"]).wanted == Wanted()
    with pytest.raises(UsageError, match="maxbytespertrigger"):
        parse_options(options)


class TestPushdown:
    """What of Spark's filters is taken over."""

    @pytest.fixture
    def filters(self) -> Any:
        return pytest.importorskip("pyspark.sql.datasource")

    @pytest.fixture
    def request_of(self) -> Any:
        return lambda view="messages", **wanted: Request(view, (), Wanted(**wanted))

    def test_taken_over(self, filters: Any, request_of: Any) -> None:
        from rocketfsck.pipeline.pushdown import push

        given = [
            filters.EqualTo(("topic",), "T"),
            filters.EqualTo(("queue_id",), 3),
            filters.GreaterThan(("offset",), 10),
            filters.LessThanOrEqual(("offset",), 20),
            filters.GreaterThanOrEqual(("store_timestamp",), 5),
            filters.LessThan(("store_timestamp",), 9),
        ]
        request, left = push(request_of(), given)
        assert left == []
        assert request.wanted == Wanted(
            topic="T", queue_id=3, begin_offset=11, end_offset=21, begin_timestamp=5, end_timestamp=9
        )

    def test_narrower_than_an_option(self, filters: Any, request_of: Any) -> None:
        from rocketfsck.pipeline.pushdown import push

        asked = request_of(begin_offset=100, end_offset=200, topic="T")
        given = [
            filters.GreaterThan(("offset",), 10),
            filters.LessThan(("offset",), 150),
            filters.EqualTo(("topic",), "T"),
        ]
        request, left = push(asked, given)
        assert left == []
        assert request.wanted == replace(asked.wanted, begin_offset=100, end_offset=150)
        other = filters.EqualTo(("topic",), "U")
        assert push(asked, [other]) == (asked, [other])

    def test_left_to_spark(self, filters: Any, request_of: Any) -> None:
        from rocketfsck.pipeline.pushdown import push

        given = [
            filters.IsNotNull(("topic",)),
            filters.Not(filters.EqualTo(("topic",), "T")),
            filters.EqualTo(("tags",), "T"),
            filters.EqualTo(("topic", "inner"), "T"),
            filters.EqualTo(("topic",), None),
            filters.EqualTo(("queue_id",), True),
            filters.In(("queue_id",), (1, 2)),
            filters.EqualNullSafe(("offset",), 1),
            filters.GreaterThan(("offset",), (1 << 63) - 1),
            filters.LessThan(("offset",), 1.5),
            filters.StringStartsWith(("topic",), "T"),
        ]
        request, left = push(request_of(), given)
        assert left == given
        assert request == request_of()

    def test_only_what_the_view_can_do(self, filters: Any, request_of: Any) -> None:
        from rocketfsck.pipeline.pushdown import push

        topic, time = filters.EqualTo(("topic",), "T"), filters.LessThan(("store_timestamp",), 1)
        request, left = push(request_of("consumequeue"), [topic, time])
        assert (request.wanted.topic, left) == ("T", [time])
        assert push(request_of("files"), [topic, time]) == (request_of("files"), [topic, time])
