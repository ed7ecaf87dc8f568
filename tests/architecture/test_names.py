"""Every name that is published is in snake case and in the glossary: documents, tables, views, findings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import rocketfsck.verify
from rocketfsck.cli.dump.item import KINDS, DumpFilter, load_kind
from rocketfsck.cli.output import BodyForm
from rocketfsck.cli.schema.table import DOCUMENTS, document_schema
from rocketfsck.common.wording import PLACE
from rocketfsck.pipeline.views.table import VIEW_NAMES, schema_of
from rocketfsck.query.content.expression import FIELDS
from rocketfsck.scan.views.arrow import ALL_COLUMNS
from rocketfsck.verify.finding import FAMILIES
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.input.fields import FIELDS_BY_NAME

from specs.names import ENCODED, SNAKE_CASE, glossary, schema_names

PATTERNS = ("_b64", "_utf16")
"""Names by which schemas say how bytes are written that are no text."""


def _documents() -> Iterator[tuple[str, set[str]]]:
    for name in DOCUMENTS:
        yield f"document {name}", set(schema_names(document_schema(name))) - set(PATTERNS)


def _columns() -> Iterator[tuple[str, set[str]]]:
    for name in KINDS:
        for body in get_args(BodyForm) if name == "commitlog" else ("none",):
            yield (
                f"dump {name} {body}",
                {column.name for column in load_kind(name, DumpFilter(body=body)).columns},
            )
    for view in VIEW_NAMES:
        yield f"view {view}", set(schema_of(view).names)
    yield "columns of the scan", set(ALL_COLUMNS)


def _facts() -> Iterator[tuple[str, set[str]]]:
    """The values of findings that the rules of each family name."""
    for family in FAMILIES:
        places = [
            place
            for rule in RULES.values()
            if rule.family == family
            for place in PLACE.finditer(rule.template)
        ]
        names = {name for place in places for name in (place["name"], place["last"]) if name}
        yield f"findings {family}", {name.removeprefix("expected.") for name in names}


NO_VALUES = frozenset(
    {"phyOffset", "uniqKey", "lastReadTimeMs", "lastTimerQueueOffset", "lastTimerLogFlushPos", "lz4", "zstd"}
)
"""Keys of other mappings: names of RocketMQ's fields and of codecs."""


def _keys() -> Iterator[tuple[str, set[str]]]:
    """The keys of all mappings that functions of the rules make: findings get their values from these."""
    root = Path(rocketfsck.verify.__file__).parent
    for path in sorted(set(root.glob("*/**/*.py")) - set(root.glob("rules/**/*.py"))):
        body = ast.parse(path.read_text("utf-8")).body
        functions = [node for node in body if not isinstance(node, ast.Assign | ast.AnnAssign)]
        names = {name for function in functions for node in ast.walk(function) for name in _keys_of(node)}
        if names - NO_VALUES:
            yield f"values of {path.relative_to(root)}", names - NO_VALUES


def _keys_of(node: ast.AST) -> Iterator[str]:
    keys: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        keys = node.keys
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        keys = [node.slice]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
        yield from (word.arg for word in node.keywords if word.arg)
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


@cache
def published() -> dict[str, set[str]]:
    """All names that people read, by where: made when a test asks, not while tests are collected."""
    return {**dict(_documents()), **dict(_columns()), **dict(_facts()), **dict(_keys())}


def test_names_are_known_and_in_snake_case() -> None:
    for place, found in published().items():
        names = {ENCODED.sub("", name) for name in found}
        assert names, place
        assert not [name for name in names if not SNAKE_CASE.fullmatch(name)], place
        assert not names - glossary().keys(), place


def test_the_glossary_has_no_other_names() -> None:
    used = {ENCODED.sub("", name) for names in published().values() for name in names}
    assert not [name for name, meaning in glossary().items() if name not in used and not meaning.fields]


def test_expressions_and_input_have_the_names_of_the_columns() -> None:
    columns = {column.name for column in load_kind("commitlog", DumpFilter(body="base64")).columns}
    own = {"offset", "content"}  # where the record is; the body unpacked
    assert FIELDS.keys() - columns == own
    taken = {ENCODED.sub("", name) for name in FIELDS_BY_NAME}
    assert taken - columns - {"body_hex", "schema_version"} == {
        "delay_level", "filter_bit_map", "items", "multi_dispatch",
    }  # fmt: skip


VAGUE = {"start", "end", "length", "position", "time", "oldest", "newest", "now", "log_end"}
"""Words that say neither of what a number is nor in what unit (section 8 of the design, ADR 0017)."""


def test_values_of_findings_say_what_they_are() -> None:
    places = {name for _, names in _facts() for name in names}
    assert VAGUE & places == {"start", "end"}, "half-open ranges of bytes of the file that `where` names"
    offsets = {name for name in places if name.endswith("offset")}
    assert offsets >= {"first_physical_offset", "queue_offset", "next_physical_offset"}
    assert not {"first_offset", "last_offset", "next_offset", "previous_offset", "stated_offset"} & offsets
