"""Versions and their traits: the table of reference 0.4, row by row."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import (
    ALL_VERSION_NAMES,
    ALL_VERSIONS,
    Version,
    dialect_for,
    dialect_of,
    lineage_of,
    nearest_examined,
    parse_version,
    runs_of,
    versions_with,
    when,
)
from rocketfsck.formats.versions import VERSIONS, BrokerTraits


def _names(**traits: Any) -> set[str]:
    return {str(version) for version in versions_with(**traits)}


def _span(first: str, last: str = ALL_VERSION_NAMES[-1]) -> set[str]:
    """The versions from one to another in the order of the list; without `last`, to the newest."""
    return set(ALL_VERSION_NAMES[ALL_VERSION_NAMES.index(first) : ALL_VERSION_NAMES.index(last) + 1])


PREVIEW = {"5.0.0-PREVIEW"}
ALPHA = {"5.0.0-ALPHA"}
FROM_500 = _span("5.0.0")
COMMON = _span("4.0.0", "4.9.0")
LATE_4 = _span("4.9.1", "4.9.8")


@pytest.mark.parametrize(
    ("traits", "versions"),
    [
        ({"ipv6_hosts": True}, _span("4.6.0")),
        ({"v2_allowed": True}, _span("5.1.0")),
        ({"trailing_separator": True}, COMMON | PREVIEW | _span("5.2.0")),
        ({"property_parser": "split"}, COMMON | PREVIEW),
        ({"property_crc": True}, _span("5.2.0")),
        ({"property_crc": True, "property_crc_zero_valid": False}, _span("5.2.0", "5.3.1")),
        ({"stale_blank_filler": True}, COMMON | PREVIEW),
        ({"counts_entries_in_hash_slot_count": True}, _span("4.0.0", "4.7.0")),
        ({"max_physic_offset_is_end": False}, _span("4.0.0", "4.4.0")),
        ({"dispatch_restart": "commitlog end"}, _span("4.0.0", "4.4.0") | _span("5.0.0", "5.3.1")),
        ({"dispatch_restart": "consumequeue end"}, _span("4.5.1", "4.9.8") | PREVIEW | ALPHA),
        ({"dispatch_restart": "recovery"}, _span("5.3.2")),
        ({"clean_scan_start": "third last file"}, _span("4.0.0", "5.3.1")),
        ({"clean_scan_start": "consumequeue"}, {"5.3.2", "5.3.3"}),
        ({"clean_scan_start": "first record"}, _span("5.3.4")),
        ({"wrong_size_fatal": False}, _span("4.0.0", "4.4.0") | {"4.9.2"}),
        ({"load_order": "path"}, _span("4.0.0", "4.9.1") | PREVIEW),
        ({"directories_skipped": True}, _span("5.1.0")),
        ({"empty_last_file_deleted": True}, _span("5.1.3")),
        ({"abort_has_pid": True}, FROM_500),
        ({"unique_key_has_low_pid": False}, {"4.6.0", "4.6.1"}),
        ({"half_topic": False}, _span("4.0.0", "4.2.0")),
        ({"batch_queues": True}, ALPHA | FROM_500),
        ({"timer_wheel": True}, FROM_500),
        ({"compaction": True}, _span("5.1.0")),
        ({"rocksdb_consumequeue": True}, _span("5.2.0")),
        ({"compression_types": True}, _span("4.9.4", "4.9.8") | FROM_500),
        ({"multi_dispatch": True}, _span("4.9.3", "4.9.8") | ALPHA | FROM_500),
        ({"multi_path_commitlog": True}, _span("4.9.2", "4.9.8") | ALPHA | FROM_500),
        ({"min_offset_by_search": True}, FROM_500),
        ({"dledger": False}, _span("4.0.0", "4.4.0")),
        ({"lock_file": False}, {"4.0.0", "4.1.0"}),
        ({"queue_truncation": "abnormal"}, _span("4.0.0", "4.3.1")),
        ({"queue_truncation": "if ahead"}, _span("4.3.2", "5.3.3")),
        ({"queue_truncation": "after dispatch"}, _span("5.3.4")),
        ({"empty_log_destroys_queues": "abnormal"}, _span("4.0.0", "4.4.0")),
        ({"half_record_recovered": True}, _span("4.0.0", "4.3.1")),
        ({"tag_entries": True}, _span("5.4.0")),
        ({"message_database": True}, _span("5.4.0")),
        ({"recovery_file_limit": 10}, _span("5.4.0")),
        ({"recovery_mark": "offset"}, _span("5.5.0")),
        ({"logics_timestamp_at_flush": True}, _span("5.5.0")),
    ],
)  # fmt: skip
def test_boundaries(traits: dict[str, Any], versions: set[str]) -> None:
    assert _names(**traits) == versions


def test_checkpoint_fields() -> None:
    assert {str(v): len(dialect_for(str(v)).checkpoint_fields) for v in ALL_VERSIONS} == (
        dict.fromkeys(COMMON | LATE_4 | PREVIEW | ALPHA, 3)
        | dict.fromkeys(("5.0.0", "5.1.0"), 4)
        | dict.fromkeys(_span("5.1.1", "5.4.0"), 5)
        | dict.fromkeys(_span("5.5.0"), 6)
    )


def _allowed(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    return isinstance(value, hint)


def test_rows_have_traits_with_values_that_these_can_have() -> None:
    hints = get_type_hints(BrokerTraits)
    for name, row in VERSIONS.items():
        for trait, value in row.items():
            assert _allowed(hints[trait], value), (name, trait)


def test_a_row_says_what_changes() -> None:
    for version in ALL_VERSIONS[1:]:
        before = dialect_of(lineage_of(version)[-2])
        for trait in VERSIONS[str(version)]:
            assert getattr(dialect_of(version), trait) != getattr(before, trait), (str(version), trait)


@pytest.mark.parametrize(
    ("trait", "value", "words"),
    [
        ("v2_allowed", True, "from 5.1.0 on"),
        ("multi_dispatch", True, "from 4.9.3 and 5.0.0-ALPHA on"),
        ("kept_files", "config/messageRequestMode.json", "from 5.0.0-PREVIEW and 5.0.0-ALPHA on"),
        ("counts_entries_in_hash_slot_count", True, "up to 4.7.0"),
        ("trailing_separator", True, "up to 4.9.0, by 5.0.0-PREVIEW and from 5.2.0 on"),
        ("trailing_separator", False, "by 4.9.1 to 4.9.8 and 5.0.0-ALPHA to 5.1.4"),
        ("recovery_file_limit", 11, "never"),
    ],
)
def test_when_versions_have_a_value(trait: str, value: object, words: str) -> None:
    assert when(trait, value, "by") == words


def test_runs_are_of_neighbours() -> None:
    named = [parse_version(name) for name in ("4.5.2", "4.5.1", "4.6.1", "5.9.0", "5.9.1")]
    assert [[str(version) for version in run] for run in runs_of(named)] == [
        ["4.5.1", "4.5.2"], ["4.6.1"], ["5.9.0"], ["5.9.1"],
    ]  # fmt: skip
    assert len(runs_of(named[:3], among=sorted(named))) == 1


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
    with pytest.raises(UsageError, match=rf"the newest( known is)? {re.escape(ALL_VERSION_NAMES[-1])}$"):
        parse_version(text)


def _descends(version: str, ancestor: str) -> bool:
    return parse_version(version).descends_from(parse_version(ancestor))


def test_lines_part_at_490() -> None:
    assert _descends("4.9.8", "4.9.1")
    assert not _descends("5.3.3", "4.9.1")
    assert _descends("5.3.3", "4.9.0")
    assert not _descends("5.0.0-PREVIEW", "5.0.0-ALPHA")
    assert _descends("5.0.0", "5.0.0-ALPHA")
    assert not _descends("5.0.0-ALPHA", "5.0.0")
    assert [parse_version(text).line for text in ("4.9.0", "4.9.1", "5.0.0-PREVIEW", "5.0.0")] == [
        "common", "4.9", "preview", "5",
    ]  # fmt: skip


def test_versions_that_nobody_examined_have_their_ancestors_traits() -> None:
    newest = ALL_VERSION_NAMES[-1]
    for unknown, known in (("4.9.9", "4.9.8"), ("5.4.1", "5.4.0"), ("4.5.0", "4.4.0"), ("5.99.0", newest)):
        ours = dataclasses.replace(dialect_for(unknown), version=parse_version(known))
        assert ours == dialect_for(known)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("4.9.8", "4.9.8"),
        ("4.9.12", "4.9.8"),
        ("4.5.0", "4.4.0"),
        ("5.3.9", "5.3.4"),
        ("5.99.0", ALL_VERSION_NAMES[-1]),
    ],
)
def test_the_examined_version_that_stands_for_another(text: str, known: str) -> None:
    assert nearest_examined(parse_version(text)) == parse_version(known)


def test_versions_do_not_compare_with_other_things() -> None:
    with pytest.raises(TypeError):
        _ = parse_version("4.9.8") < "4.9.9"
