"""Options as text: every one is read, and what has no sense is an error."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert _parsed(root, onUnreadable="Row").wanted == Wanted(on_unreadable="row")


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
        ({"pushdown": "true"}, "the option pushdown was removed: Spark keeps what one query pushed down"),
        ({"pushdown": "false"}, "the option pushdown was removed"),
        ({"on_unreadable": "ignore"}, "on_unreadable is one of fail, row, not 'ignore'"),
        ({"on_unreadable": "row", "mode": "dropMalformed"}, "and the mode DROPMALFORMED has none"),
        ({"onUnreadable": "row", "mode": "FAILFAST"}, "and the mode FAILFAST has none"),
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
