"""Plans in JSON: what was written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.indexfile import HEADER
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.arguments import (
    HEADER_FIELDS,
    TIMER_FIELDS,
    Arguments,
    NewSize,
    QueuesToBuild,
    QueueType,
)
from rocketfsck.repair.plan.basis import queues_of
from rocketfsck.repair.plan.document import (
    parse_plan,
    plan_digest,
    plan_from_json,
    plan_text,
    plan_to_json,
    read_plan,
)
from rocketfsck.repair.plan.model import (
    Action,
    Assumption,
    Conflict,
    Extent,
    Gain,
    Loss,
    Notice,
    Plan,
    PlanTarget,
    Unanswered,
)
from rocketfsck.repair.repairs import ALL
from rocketfsck.store.reading import read_document
from rocketfsck.verify.store.config import QUEUE_KINDS

HOSTILE = "\udcff\x1b[31m\x7f"
ARGUMENTS = r"plan: actions\[0\].arguments of rebuild-queue: "
PLAN = Plan(
    PlanTarget(
        f"/srv/{HOSTILE}",
        "4.9.8",
        {"slot_count": 1 << 62},
        ("/a", "/\udcfe"),
        "1s",
        0,
        None,
        ("4.9.8",),
        True,
    ),
    "full",
    "1.0.0rc1",
    (
        Action(
            "rebuild-queue",
            "consumequeue/\ud800/0",
            "note",
            QueuesToBuild((("a", 1), (HOSTILE, 2)), "\udc80"),
            ("aa",),
            ("CL002",),
            (Extent("f", 0, None, None), Extent("f", 1, 2, "00")),
            (Loss("unit", 3, "t", 1, 5, 7, None, None, "kept"),),
            {"unit": 4},
            17,
            True,
            (Extent(f"/other/{HOSTILE}", 5, 9, "11"),),
            (Gain("record", 2, f"t{HOSTILE}", 1, 5, 7, 100, 300), Gain("record", 1)),
            (Assumption("slot_count", 7, "given", "why"), Assumption("version", HOSTILE, "bytes", HOSTILE)),
            (Notice("renumbered", 3), Notice("renumbered", 1, HOSTILE, 5)),
        ),
    ),
    (Unanswered("bb", "IX001", "m", "r"),),
    {"CL002": 1},
    (Conflict(2, 40, 80, "both are there"),),
    7,
)
TEXT = st.text(st.characters(), max_size=8)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that arguments have."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = next(item for item in inner if isinstance(item, Meta))
        return values(inner[0]).filter(
            lambda value: 0 <= value <= (1 << 63 if limits.le is None else limits.le)
        )
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, inner))
    if origin in (Union, UnionType):
        return st.one_of(*map(values, inner))
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return st.builds(kind, **{item.name: values(hints[item.name]) for item in fields(kind)})
    return {int: LONGS, str: TEXT, bool: st.booleans(), NoneType: st.none()}[kind]


NAMED_ARGUMENTS = st.sampled_from(ALL).flatmap(
    lambda row: st.tuples(st.just(row.name), values(row.arguments))
)


def test_a_plan_comes_back_equal() -> None:
    text = plan_text(PLAN)
    assert text.isascii()
    assert not any(ord(character) < 32 or character == "\x7f" for character in text.replace("\n", ""))
    assert parse_plan(text.encode()) == PLAN
    assert json.loads(text)["store"]["commitlog_paths"][1] == {"_b64": "L/4="}


@given(TEXT, NAMED_ARGUMENTS)
def test_any_text_and_any_argument_comes_back(text: str, named: tuple[str, Arguments]) -> None:
    name, arguments = named
    action = replace(PLAN.actions[0], name=name, target=text, note=text, arguments=arguments, why=(text,))
    plan = replace(PLAN, actions=(action,))
    document = json.loads(plan_text(plan))
    assert plan_from_json(document) == plan
    for member in document["actions"][0]["arguments"]:
        less = deepcopy(document)
        del less["actions"][0]["arguments"][member]
        with pytest.raises(UsageError, match="plan: actions"):
            plan_from_json(less)
    document["actions"][0]["arguments"]["unknown"] = None
    with pytest.raises(UsageError, match=r"plan: actions\[0\].arguments.unknown is not a member"):
        plan_from_json(document)


def test_names_of_fields_are_those_of_the_files() -> None:
    assert tuple(field.name for field in HEADER.fields) == HEADER_FIELDS
    assert tuple(field.name for field in TIMER_CHECK.fields) == TIMER_FIELDS
    assert {*get_args(QueueType)} == {*QUEUE_KINDS}


def test_digest_is_of_the_content() -> None:
    assert plan_digest(parse_plan(plan_text(PLAN).encode())) == plan_digest(PLAN)
    assert plan_digest(replace(PLAN, level="quick")) != plan_digest(PLAN)


Change = Callable[[dict[str, Any]], Any]


def put(*path: Any, value: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("kind", value="rocketfsck.check"), "not a plan"),
        (put("schema_version", value=7), "schema version 7"),
        (put("schema_version", value=5), "schema version 5"),
        (put("schema_version", value=3), "schema version 3"),
        (put("schema_version", value=2), "schema version 2"),
        (put("schema_version", value=1), "schema version 1"),
        (put("schema_version", value=True), "schema version true"),
        (put("level", value="deep"), "level: invalid enum value 'deep'"),
        (put("level", value=3), "plan: level: expected `str`, got `int`"),
        (put("extra", value=1), "extra is not a member"),
        (put("actions", 0, "extra", value=1), r"actions\[0\].extra is not a member"),
        (drop("actions", 0, "preconditions"), r"actions\[0\].preconditions is missing"),
        (
            put("actions", 0, "sources", 0, "file_b64", value="Yf4="),
            r"sources\[0\]: not bytes of another file",
        ),
        (put("actions", 0, "sources", 0, "end", value=None), r"sources\[0\]: not bytes of another file"),
        (put("actions", 0, "sources", 0, "sha256", value=None), r"sources\[0\]: not bytes of another file"),
        (put("actions", 0, "sources", 0, "end", value=4), r"actions\[0\].sources\[0\]: not a range of bytes"),
        (put("actions", value={}), "actions: expected `array`, got `object`"),
        (put("actions", 0, value=7), r"actions\[0\]: expected `object`, got `int`"),
        (put("actions", 0, "preen", value=1), r"actions\[0\].preen: expected `bool`, got `int`"),
        (put("actions", 0, "write_byte_count", value=True), "write_byte_count: expected `int`, got `bool`"),
        (put("actions", 0, "write_byte_count", value=1 << 63), "write_byte_count is not a 64-bit integer"),
        (
            put("actions", 0, "assumptions", 0, "how", value="x"),
            r"assumptions\[0\].how: invalid enum value 'x'",
        ),
        (
            put("actions", 0, "assumptions", 0, "value", value=True),
            r"value: expected .*, got `bool`",
        ),
        (put("actions", 0, "write_byte_count", value=-1), "write_byte_count is negative"),
        (put("actions", 0, "write_byte_count", value=1.0), "write_byte_count: expected `int`, got `float`"),
        (put("actions", 0, "arguments", value=[]), "arguments: expected `object`, got `array`"),
        (put("actions", 0, "arguments", "queues", value="*"), f"{ARGUMENTS}queues: expected `array | null`"),
        (
            put("actions", 0, "arguments", "queues", value=[["a"]]),
            rf"{ARGUMENTS}queues\[0\]: expected .*length 2",
        ),
        (
            put("actions", 0, "arguments", "queues", 0, 1, value=1.0),
            rf"{ARGUMENTS}queues\[0\]\[1\]: .*`float`",
        ),
        (put("actions", 0, "arguments", "queues", 0, 1, value=True), r"queues\[0\]\[1\]: .*`bool`"),
        (put("actions", 0, "arguments", "queues", 0, 0, value={"_b64": "YQ=="}), "not in its one form"),
        (put("actions", 0, "arguments", "queues", 0, 0, value={"_b64": "?"}), "not base64"),
        (put("actions", 0, "arguments", "queues", 0, 0, value={"_b64": 5}), "not a text"),
        (put("actions", 0, "arguments", "queues", 0, 0, value="\ud800"), "surrogates"),
        (put("actions", 0, "arguments", "delay_levels", value=5), "delay_levels is there twice"),
        (put("actions", 0, "arguments", "more", value=5), r"actions\[0\].arguments.more is not a member"),
        (drop("actions", 0, "arguments", "queues"), f"{ARGUMENTS[:-1]} .*missing required field `queues`"),
        (put("actions", 0, "name", value="cut-log"), "cut-log: .*missing required field `start_offset`"),
        (put("actions", 0, "name", value="cut"), r"plan: actions\[0\].name: no repair has the name 'cut'"),
        (put("actions", 0, "name_b64", value="/w=="), "name is there twice"),
        (put("actions", 0, "note_b64", value="/w=="), "note is there twice"),
        (put("actions", 0, "preconditions", 1, "end", value="2"), r"end: expected `int \| null`, got `str`"),
        (put("actions", 0, "preconditions", 1, "end", value=0), r"preconditions\[1\]: not a range"),
        (put("actions", 0, "preconditions", 0, "start", value=-1), r"preconditions\[0\]: not a range"),
        (put("counts", "XX999", value=1), "no rule"),
        (put("store", "commitlog_paths", 0, value=None), r"commitlog_paths\[0\]: expected `str`, got `null`"),
        (put("store", "root_utf16", value="AA"), "root is there twice"),
        (put("store", value="x" * 99), "store: expected `object`, got `str`"),
    ],
)
def test_anything_else_is_refused_with_its_place(change: Change, says: str) -> None:
    document = deepcopy(plan_to_json(PLAN))
    change(document)
    with pytest.raises(UsageError, match=says):
        plan_from_json(document)


def test_a_number_is_no_text_in_another_form() -> None:
    document = plan_to_json(PLAN)
    document["actions"][0]["write_size_b64"] = document["actions"][0].pop("write_byte_count")
    with pytest.raises(UsageError, match="write_size_b64 is not a member"):
        plan_from_json(document)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"kind": 1, "kind": 1}',
        b'{"a": NaN}',
        b"[" * 100_000,
        b"1" * 5000,
        b"null",
    ],
)
def test_bytes_that_are_no_plan(data: bytes) -> None:
    with pytest.raises(UsageError):
        parse_plan(data)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3))
)
def test_any_value_in_any_place_is_read_or_refused(value: Any) -> None:
    document = plan_to_json(PLAN)
    for name in document:
        try:
            plan_from_json({**document, name: value})
        except UsageError:
            continue


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(StoreError, match="No such file"):
        read_plan(path)
    path.write_text(plan_text(PLAN))
    assert read_plan(path) == PLAN
    assert read_document(path, "plan")["kind"] == "rocketfsck.plan"


RANGE = {"start_offset": 0, "end_offset": 7}
FENCE = {**RANGE, "store_timestamp": 1}


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("cut-log", {"start_offset": -1, "whole_file": False}, "start_offset: expected `int` >= 0"),
        ("cut-log", {"start_offset": 5, "whole_file": 1}, "whole_file: expected `bool`"),
        ("resize-segment", {"size": "5"}, "size: expected `int`, got `str`"),
        ("set-physical-offset", {"positions": "1 2"}, "positions: expected `array`"),
        ("set-physical-offset", {"positions": [1, -2]}, r"positions\[1\]: expected `int` >= 0"),
        ("rewrite-epochs", {"epochs": ["1-2"]}, r"epochs\[0\]: expected `object`"),
        ("salvage-log", {"fences": [FENCE, RANGE], "version": "5.3.3"}, r"fences\[1\]: .*`store_timestamp`"),
        (
            "salvage-log",
            {"fences": [{**FENCE, "x": 1}], "version": "5.3.3"},
            r"fences\[0\].x is not a member",
        ),
        (
            "rewrite-index-header",
            {"fields": [{"field": "magic", "value": 1}], "empty_entry0": False},
            "'magic'",
        ),
        (
            "reset-timer",
            {"fields": [{"field": "../x", "value": 1}]},
            r"fields\[0\].field: invalid enum value",
        ),
        ("restore-config", {"source": "elsewhere"}, "source: invalid enum value 'elsewhere'"),
        ("set-queue-type", {"topics": [{"topic": "T", "queue_type": "x"}]}, "queue_type: invalid enum value"),
        ("flip-bit", {"bits": [-1]}, "bits.*: .* >= 0"),
        ("move-stray", {"size": 1}, "arguments.size is not a member"),
    ],
)
def test_arguments_in_plans_from_anybody(
    name: str, arguments: dict[str, Any], says: str, tmp_path: Path
) -> None:
    document = plan_to_json(PLAN)
    document["actions"][0] |= {"name": name, "arguments": arguments}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"^{path}: actions.*{says}"):
        read_plan(path)


def test_arguments_of_another_repair_are_refused() -> None:
    action = Action("cut-log", "commitlog/0", "", NewSize(5))
    with pytest.raises(UsageError, match="gives cut-log the arguments of another repair"):
        apply_plan(replace(PLAN, actions=(action,)))


def test_which_queues_an_action_builds() -> None:
    assert queues_of(Action("rebuild-queue", "consumequeue", "", QueuesToBuild(None))) is None
    assert queues_of(Action("rebuild-queue", "consumequeue", "", QueuesToBuild((("a", 1),)))) == {("a", 1)}
    assert queues_of(Action("move-stray", "consumequeue/x", "")) == set()
