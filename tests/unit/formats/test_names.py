"""The names that are shown: one for one thing, in snake case, made of RocketMQ's."""

from __future__ import annotations

import re

from rocketfsck.formats.layout import SHOWN_NAMES, registry, shown_name, shown_unit_name, shown_values

SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def test_every_field_of_a_layout_has_one() -> None:
    for layout in registry().values():
        shown = [shown_name(field.name) for field in layout.fields]
        assert all(map(SNAKE_CASE.fullmatch, shown)), layout.name
        assert len(set(shown)) == len(shown), layout.name


def test_a_unit_leads_to_a_physical_offset() -> None:
    assert [shown_unit_name(name) for name in ("offset", "size", "tagsCode")] == [
        "physical_offset",
        "size",
        "tags_code",
    ]


def test_values_keep_their_order() -> None:
    assert list(shown_values({"totalSize": 1, "queueId": 2, "bodyCRC": 3}).items()) == [
        ("size", 1),
        ("queue_id", 2),
        ("body_crc", 3),
    ]


def test_the_table_says_only_what_does_not_follow() -> None:
    made = {name: re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in SHOWN_NAMES}
    assert not [name for name, shown in SHOWN_NAMES.items() if made[name] == shown]
