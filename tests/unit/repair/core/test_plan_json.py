"""Plans in JSON: what was written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import StoreError, UsageError
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
    PlannedStore,
    Unanswered,
)
from rocketfsck.repair.repairs.answers import answer, number_list
from rocketfsck.repair.repairs.checkpoint import act_epochs
from rocketfsck.verify.documents import read_document

HOSTILE = "\udcff\x1b[31m\x7f"
PLAN = Plan(
    PlannedStore(
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
    "0.1.0",
    (
        Action(
            "x",
            "consumequeue/\ud800/0",
            "note",
            {"a": 1, "b": "\udc80", "c": None, "d": True},
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
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), TEXT)


def test_a_plan_comes_back_equal() -> None:
    text = plan_text(PLAN)
    assert text.isascii()
    assert not any(ord(character) < 32 or character == "\x7f" for character in text.replace("\n", ""))
    assert parse_plan(text.encode()) == PLAN
    assert json.loads(text)["store"]["commitlog_paths"][1] == {"_b64": "L/4="}


@given(TEXT, st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), SCALARS, max_size=4))
def test_any_text_and_any_argument_comes_back(text: str, arguments: dict[str, Any]) -> None:
    action = replace(PLAN.actions[0], target=text, note=text, arguments=arguments, why=(text,))
    plan = replace(PLAN, actions=(action,))
    assert parse_plan(plan_text(plan).encode()) == plan


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
        (put("schema_version", value=4), "schema version 4"),
        (put("schema_version", value=2), "schema version 2"),
        (put("schema_version", value=1), "schema version 1"),
        (put("schema_version", value=True), "schema version true"),
        (put("level", value="deep"), "level: invalid enum value 'deep'"),
        (put("level", value=3), "plan: level: expected `str`, got `int`"),
        (put("extra", value=1), "extra is no member"),
        (put("actions", 0, "extra", value=1), r"actions\[0\].extra is no member"),
        (drop("actions", 0, "preconditions"), r"actions\[0\].preconditions is missing"),
        (put("actions", 0, "sources", 0, "file_b64", value="Yf4="), r"sources\[0\]: no bytes of a file"),
        (put("actions", 0, "sources", 0, "end", value=None), r"sources\[0\]: no bytes of a file elsewhere"),
        (put("actions", 0, "sources", 0, "sha256", value=None), r"sources\[0\]: no bytes of a file"),
        (put("actions", 0, "sources", 0, "end", value=4), r"actions\[0\].sources\[0\]: no range of bytes"),
        (put("actions", value={}), "actions: expected `array`, got `object`"),
        (put("actions", 0, value=7), r"actions\[0\]: expected `object`, got `int`"),
        (put("actions", 0, "preen", value=1), r"actions\[0\].preen: expected `bool`, got `int`"),
        (put("actions", 0, "write_size", value=True), "write_size: expected `int`, got `bool`"),
        (put("actions", 0, "write_size", value=1 << 63), "write_size is not a 64-bit integer"),
        (
            put("actions", 0, "assumptions", 0, "how", value="x"),
            r"assumptions\[0\].how: invalid enum value 'x'",
        ),
        (
            put("actions", 0, "assumptions", 0, "value", value=True),
            r"value: expected .*, got `bool`",
        ),
        (put("actions", 0, "write_size", value=-1), "write_size is negative"),
        (put("actions", 0, "write_size", value=1.0), "write_size: expected `int`, got `float`"),
        (put("actions", 0, "arguments", "a", value=1.5), r"arguments.*: expected .*null`, got `float`"),
        (put("actions", 0, "arguments", "a", value=[]), r"arguments.*: expected .*null`, got `array`"),
        (put("actions", 0, "arguments", value=[]), "arguments: expected `object`, got `array`"),
        (put("actions", 0, "arguments", "a", value={"_b64": "YQ=="}), "not in its one form"),
        (put("actions", 0, "arguments", "a", value={"_b64": "?"}), "not base64"),
        (put("actions", 0, "arguments", "a", value={"_b64": 5}), "not a text"),
        (put("actions", 0, "arguments", "a", value="\ud800"), "surrogates"),
        (put("actions", 0, "note_b64", value="/w=="), "note is there twice"),
        (put("actions", 0, "preconditions", 1, "end", value="2"), r"end: expected `int \| null`, got `str`"),
        (put("actions", 0, "preconditions", 1, "end", value=0), r"preconditions\[1\]: no range"),
        (put("actions", 0, "preconditions", 0, "start", value=-1), r"preconditions\[0\]: no range"),
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
    document["actions"][0]["write_size_b64"] = document["actions"][0].pop("write_size")
    with pytest.raises(UsageError, match="write_size_b64 is no member"):
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
    assert read_document(path)["kind"] == "rocketfsck.plan"


def test_lists_of_queues() -> None:
    def read(listed: str) -> set[tuple[str, int]] | None:
        return queues_of(Action("rebuild-queue", "consumequeue", "", {"queues": listed}))

    assert read("*") is None
    assert read("[]") == set()
    assert read('[["a", 1], ["\\udcff", 2]]') == {("a", 1), ("\udcff", 2)}
    others = ("", "5", "{}", '{"a": 1}', '["ab"]', "[[1, 1]]", '[["a", true]]', '[["a", 1.0]]')
    for hostile in (*others, "[" * 99_999):
        with pytest.raises(UsageError, match="list of queues"):
            read(hostile)


def test_lists_in_plans_from_anybody() -> None:
    scene: Any = None
    for listed in ("a", "1 b", "1.5", "1-2-3", "-"):
        action = answer("x", "commitlog/0", "", [], arguments={"positions": listed, "epochs": listed})
        with pytest.raises(UsageError, match="not numbers"):
            number_list(action, "positions")
        with pytest.raises(UsageError, match="not epoch-startOffset"):
            act_epochs(scene, action)
