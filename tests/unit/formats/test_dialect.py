"""Versions and their traits: the table of reference 0.4, row by row."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import (
    _HISTORY,
    ALL_VERSION_NAMES,
    ALL_VERSIONS,
    Dialect,
    Version,
    dialect_for,
    nearest_examined,
    parse_version,
    trait_history,
    versions_with,
)


def _names(**traits: Any) -> set[str]:
    return {str(version) for version in versions_with(**traits)}


def _span(first: str, last: str) -> set[str]:
    """The versions from one to another in the order of the list."""
    return set(ALL_VERSION_NAMES[ALL_VERSION_NAMES.index(first) : ALL_VERSION_NAMES.index(last) + 1])


PREVIEW = {"5.0.0-PREVIEW"}
ALPHA = {"5.0.0-ALPHA"}
FROM_500 = _span("5.0.0", "5.5.1")
COMMON = _span("4.0.0", "4.9.0")
LATE_4 = _span("4.9.1", "4.9.8")


@pytest.mark.parametrize(
    ("traits", "versions"),
    [
        ({"ipv6_hosts": True}, _span("4.6.0", "5.5.1")),
        ({"v2_allowed": True}, _span("5.1.0", "5.5.1")),
        ({"trailing_separator": True}, COMMON | PREVIEW | _span("5.2.0", "5.5.1")),
        ({"property_parser": "split"}, COMMON | PREVIEW),
        ({"property_crc": True}, _span("5.2.0", "5.5.1")),
        ({"property_crc": True, "property_crc_zero_valid": False}, _span("5.2.0", "5.3.1")),
        ({"stale_blank_filler": True}, COMMON | PREVIEW),
        ({"counts_entries_in_hash_slot_count": True}, _span("4.0.0", "4.7.0")),
        ({"max_physic_offset_is_end": False}, _span("4.0.0", "4.4.0")),
        ({"dispatch_restart": "commitlog end"}, _span("4.0.0", "4.4.0") | _span("5.0.0", "5.3.1")),
        ({"dispatch_restart": "consumequeue end"}, _span("4.5.1", "4.9.8") | PREVIEW | ALPHA),
        ({"dispatch_restart": "recovery"}, _span("5.3.2", "5.5.1")),
        ({"clean_scan_start": "third last file"}, _span("4.0.0", "5.3.1")),
        ({"clean_scan_start": "consumequeue"}, {"5.3.2", "5.3.3"}),
        ({"clean_scan_start": "first record"}, _span("5.3.4", "5.5.1")),
        ({"wrong_size_fatal": False}, _span("4.0.0", "4.4.0") | {"4.9.2"}),
        ({"load_order": "path"}, _span("4.0.0", "4.9.1") | PREVIEW),
        ({"directories_skipped": True}, _span("5.1.0", "5.5.1")),
        ({"empty_last_file_deleted": True}, _span("5.1.3", "5.5.1")),
        ({"abort_has_pid": True}, FROM_500),
        ({"unique_key_has_low_pid": False}, {"4.6.0", "4.6.1"}),
        ({"half_topic": False}, _span("4.0.0", "4.2.0")),
        ({"batch_queues": True}, ALPHA | FROM_500),
        ({"timer_wheel": True}, FROM_500),
        ({"compaction": True}, _span("5.1.0", "5.5.1")),
        ({"rocksdb_consumequeue": True}, _span("5.2.0", "5.5.1")),
        ({"compression_types": True}, _span("4.9.4", "4.9.8") | FROM_500),
        ({"multi_dispatch": True}, _span("4.9.3", "4.9.8") | ALPHA | FROM_500),
        ({"multi_path_commitlog": True}, _span("4.9.2", "4.9.8") | ALPHA | FROM_500),
        ({"min_offset_by_search": True}, FROM_500),
        ({"dledger": False}, _span("4.0.0", "4.4.0")),
        ({"lock_file": False}, {"4.0.0", "4.1.0"}),
        ({"queue_truncation": "abnormal"}, _span("4.0.0", "4.3.1")),
        ({"queue_truncation": "if ahead"}, _span("4.3.2", "5.3.3")),
        ({"queue_truncation": "after dispatch"}, _span("5.3.4", "5.5.1")),
        ({"empty_log_destroys_queues": "abnormal"}, _span("4.0.0", "4.4.0")),
        ({"half_record_recovered": True}, _span("4.0.0", "4.3.1")),
        ({"tag_entries": True}, _span("5.4.0", "5.5.1")),
        ({"message_database": True}, _span("5.4.0", "5.5.1")),
        ({"recovery_file_limit": 10}, _span("5.4.0", "5.5.1")),
        ({"recovery_mark": "offset"}, _span("5.5.0", "5.5.1")),
        ({"logics_timestamp_at_flush": True}, _span("5.5.0", "5.5.1")),
    ],
)  # fmt: skip
def test_boundaries(traits: dict[str, Any], versions: set[str]) -> None:
    assert _names(**traits) == versions


def test_checkpoint_fields() -> None:
    assert {str(v): len(dialect_for(str(v)).checkpoint_fields) for v in ALL_VERSIONS} == (
        dict.fromkeys(COMMON | LATE_4 | PREVIEW | ALPHA, 3)
        | dict.fromkeys(("5.0.0", "5.1.0"), 4)
        | dict.fromkeys(_span("5.1.1", "5.4.0"), 5)
        | dict.fromkeys(_span("5.5.0", "5.5.1"), 6)
    )


def test_every_trait_has_a_history_and_the_other_way_round() -> None:
    traits = {item.name for item in dataclasses.fields(Dialect)} - {"version"}
    assert set(_HISTORY) == traits
    for trait in traits:
        assert trait_history(trait)[0][1] == ("4.0.0",)
        for _, starts in trait_history(trait):
            assert set(starts) <= set(ALL_VERSION_NAMES)


def test_versions_are_in_order_and_have_their_names() -> None:
    assert list(ALL_VERSIONS) == sorted(ALL_VERSIONS)
    assert tuple(map(str, ALL_VERSIONS)) == ALL_VERSION_NAMES
    assert len(set(ALL_VERSIONS)) == len(ALL_VERSIONS)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.9.8", Version(4, 9, 8)),
        ("rocketmq-all-4.4.0", Version(4, 4, 0)),
        ("v5.1.3", Version(5, 1, 3)),
        ("rocketmq-4.0.0-incubating", Version(4, 0, 0)),
        ("5.0.0-alpha", Version(5, 0, 0, "ALPHA")),
        ("5.3.4-SNAPSHOT", Version(5, 3, 4, "SNAPSHOT")),
    ],
)
def test_version_texts(text: str, version: Version) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "5", "5.1", "5.1.x", "3.5.8", "5.0.0-RC1", "٥.1.0", "4.9.8.1", "9.9.9", "6.0.0", "4.10.0"]
)
def test_texts_that_are_no_version(text: str) -> None:
    with pytest.raises(UsageError):
        dialect_for(text)


@pytest.mark.parametrize("text", ["HEAD", "head", "5.x", "6.1.0"])
def test_a_text_that_is_no_version_is_answered_with_the_newest(text: str) -> None:
    with pytest.raises(UsageError, match=r"the newest( known is)? 5\.5\.1$"):
        parse_version(text)


def test_lines_part_at_490() -> None:
    assert parse_version("4.9.8").since("4.9.1")
    assert not parse_version("5.3.3").since("4.9.1")
    assert parse_version("5.3.3").since("4.9.0")
    assert not parse_version("5.0.0-PREVIEW").since("5.0.0-ALPHA")
    assert parse_version("5.0.0").since("5.0.0-ALPHA")
    assert not parse_version("5.0.0-ALPHA").since("5.0.0")
    assert [parse_version(text).line for text in ("4.9.0", "4.9.1", "5.0.0-PREVIEW", "5.0.0")] == [
        "common", "4.9", "preview", "5",
    ]  # fmt: skip


def test_versions_that_nobody_examined_have_their_ancestors_traits() -> None:
    for unknown, known in (("4.9.9", "4.9.8"), ("5.4.1", "5.4.0"), ("4.5.0", "4.4.0"), ("5.9.0", "5.5.1")):
        ours = dataclasses.replace(dialect_for(unknown), version=parse_version(known))
        assert ours == dialect_for(known)


@pytest.mark.parametrize(
    ("text", "known"),
    [("4.9.8", "4.9.8"), ("4.9.12", "4.9.8"), ("4.5.0", "4.4.0"), ("5.3.9", "5.3.4"), ("5.9.0", "5.5.1")],
)
def test_the_examined_version_that_stands_for_another(text: str, known: str) -> None:
    assert nearest_examined(parse_version(text)) == parse_version(known)


def test_versions_do_not_compare_with_other_things() -> None:
    with pytest.raises(TypeError):
        _ = parse_version("4.9.8") < "4.9.9"
