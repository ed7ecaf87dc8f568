"""Options as text: every one is read, and what has no sense is an error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.columns import BODY, NARROW, OPTION_NAMES, PROPERTIES, Request, parse_options
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import plan_parts, schema_of

from tests.conftest import Directory


def _parsed(root: Path, **options: str) -> Request:
    return parse_options({"path": str(root), **options})


def test_all_options(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    request = _parsed(
        root,
        View="consumequeue",
        topic="T",
        queue_id="3",
        begin_offset="-5",
        end_offset="9",
        mode="dropMalformed",
        level="FULL",
        columns="topic, offset",
        live_only="False",
        split_size="64 MiB",
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
    assert request.wanted == WantedRows(
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
    assert _parsed(root).wanted == WantedRows(columns=NARROW)
    ignoring = _parsed(root, view="index", ignoreMissingFiles="true", ignoreCorruptFiles="TRUE")
    assert ignoring.wanted == WantedRows(ignore_missing_files=True, ignore_corrupt_files=True)


def _names(root: Path, **options: str) -> tuple[str, ...]:
    names = _parsed(root, **options).wanted.columns
    assert names is not None
    return names


def test_times_are_dates_or_milliseconds(store_dir: Directory) -> None:
    said = {"begin_timestamp": "2024-05-17T08:30:00+02:00", "end_timestamp": "1715934600000"}
    wanted = _parsed(store_dir("5.3.3-basic"), **said).wanted
    assert (wanted.begin_timestamp, wanted.end_timestamp) == (1_715_927_400_000, 1_715_934_600_000)
    day = _parsed(store_dir("5.3.3-basic"), begin_timestamp="1970-01-02").wanted
    assert day.begin_timestamp == 86_400_000


def test_files_by_name_and_time(store_copy: Directory) -> None:
    """As with Spark's own file sources: whole files, times exclusive."""
    root = store_copy("4.9.8-multiseg")
    files = sorted(path for path in (root / "commitlog").iterdir())
    for second, path in enumerate(files):
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))

    def names(view: str = "messages", **options: str) -> list[str]:
        request = _parsed(root, view=view, **options)
        parts = plan_parts(request.view, request.sources, request.wanted)
        return sorted({Path(part.location).name for part in parts})

    every = [path.name for path in files]
    assert names() == names(pathGlobFilter="0*") == names(modifiedAfter="1970-01-01") == every
    assert len(every) > 2
    assert (
        names(pathGlobFilter=f"*{every[1][-6:]}") == names("regions", pathGlobFilter=every[1]) == every[1:2]
    )
    assert names(pathGlobFilter="*.json") == []
    assert names(modifiedAfter="2023-11-14T22:13:20") == every[1:]
    assert names("damage", modifiedAfter="1700000000000", modifiedBefore="2023-11-14T22:13:22Z") == every[1:2]


def test_columns_are_few_unless_more_are_asked_for(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    narrow = _names(root)
    assert not set(narrow) & {*BODY, *PROPERTIES, "_corrupt_record"}
    assert _names(root, body="true") == (*narrow, *BODY, "_corrupt_record")
    assert _names(root, properties="true", mode="DROPMALFORMED") == (*narrow, *PROPERTIES)
    assert _names(root, columns="offset, tags", properties="true") == (
        *("offset", "tags", "keys", "unique_key", "properties"),
    )
    assert _names(root, columns="*, properties_bytes") == (*schema_of("messages").names, "properties_bytes")
    with pytest.raises(UsageError, match="the view files has no bodies"):
        _parsed(root, view="files", body="true")


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, None),
        ({"columns": "offset,_corrupt_record"}, "full"),
        ({"columns": "offset,bad", "columnNameOfCorruptRecord": "bad"}, "full"),
        ({"mode": "DROPMALFORMED"}, "full"),
        ({"mode": "FAILFAST"}, "full"),
        ({"mode": "FAILFAST", "level": "cross"}, "cross"),
    ],
)
def test_who_looks_for_damage_has_crcs_compared(
    store_dir: Directory, options: dict[str, str], level: str | None
) -> None:
    assert _parsed(store_dir("5.3.3-basic"), **options).wanted.level == level


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
    with pytest.raises(UsageError, match="name a store: load"):
        parse_options({"view": "files"})
    with pytest.raises(UsageError, match="not a list of texts"):
        parse_options({"paths": "[1, 2]"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "x"}, f"no option has the name topics; the options are {', '.join(OPTION_NAMES)}"),
        ({"view": "message"}, "no view has the name 'message'; the views are messages, damage, consumequeue"),
        ({"queue_id": "one"}, "queue_id must be a whole number, not 'one'"),
        ({"ignore_missing_files": "true"}, "no option has the name ignore_missing_files"),
        ({"begin_offset": str(1 << 63)}, "begin_offset must fit 64 bits"),
        ({"split_size": "-1"}, "split_size: '-1' is not a size"),
        ({"split_size": "1"}, "at least 4,096"),
        ({"live_only": "maybe"}, "live_only must be true or false, not 'maybe'"),
        ({"mode": "lenient"}, "the mode"),
        ({"pushdown": "true"}, "the option pushdown was removed: Spark keeps the filters of one query"),
        ({"pushdown": "false"}, "the option pushdown was removed"),
        ({"ignoreMissingFiles": "ignore"}, "ignoreMissingFiles must be true or false, not 'ignore'"),
        ({"on_unreadable": "row"}, "no option has the name on_unreadable"),
        ({"level": "deep"}, "the level"),
        ({"columns": " , "}, "name at least one column"),
        ({"begin_timestamp": "yesterday"}, "begin_timestamp: 'yesterday' is neither milliseconds nor a date"),
        ({"end_timestamp": str(1 << 63)}, "end_timestamp must fit 64 bits"),
        ({"recursiveFileLookup": "deep"}, "recursiveFileLookup must be true or false"),
        ({"pathGlobFilter": "{a,b}"}, "a pattern of files has"),
        ({"modifiedAfter": "yesterday"}, "modifiedAfter: 'yesterday' is neither milliseconds nor a date"),
        ({"view": "findings", "pathGlobFilter": "*"}, "the view findings has no selection by pathGlobFilter"),
        ({"view": "files", "topic": "x"}, "the view files has no selection by topic"),
        ({"view": "index", "queue_id": "1"}, "the view index has no selection by queue_id"),
        ({"view": "findings", "begin_offset": "1"}, "has no selection by begin_offset"),
    ],
)
def test_options_without_sense(store_dir: Directory, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parsed(store_dir("5.3.3-basic"), **options)
    assert said in str(caught.value)


def test_options_of_others_are_let_through(store_dir: Directory) -> None:
    path = str(store_dir("5.3.3-basic"))
    options = {"path": path, "maxBytesPerTrigger": "1"}
    assert parse_options(options, also=["MaxBytesPerTrigger"]).wanted == WantedRows(columns=NARROW)
    with pytest.raises(UsageError, match="maxbytespertrigger"):
        parse_options(options)


def test_camel_case_is_for_names_of_sparks_own() -> None:
    assert {name for name in OPTION_NAMES if name != name.lower()} == {
        "columnNameOfCorruptRecord", "ignoreCorruptFiles", "ignoreMissingFiles", "modifiedAfter",
        "modifiedBefore", "pathGlobFilter", "recursiveFileLookup",
    }  # fmt: skip


def test_names_have_no_second_spelling(store_dir: Directory) -> None:
    with pytest.raises(UsageError, match="no option has the name queueid;"):
        _parsed(store_dir("5.3.3-basic"), queueId="3")
