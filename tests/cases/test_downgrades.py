"""What an older broker does not read of a store that a newer one wrote, and that each reads what it knows."""

from __future__ import annotations

import pytest

from rocketfsck.formats.dialect import parse_version
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.query.start.verdict import predict_starts
from rocketfsck.store import open_store

from tests.conftest import Directory

UNREAD: tuple[tuple[str, str, dict[str, int | None]], ...] = (
    ("5.5.0-timer", "4.9.7", {"never delivers 13 timer messages that wait": 13}),
    ("5.5.0-timer", "5.1.4", {}),
    ("5.5.0-rocksdb-all", "4.9.7", {"never delivers 29 timer messages that wait": 29}),
    ("5.5.0-rocksdb-all", "5.3.3", {"never delivers 29 timer messages that wait in RocksDB": 29}),
    (
        "5.5.0-rocksdb-cq",
        "4.9.7",
        {
            "does not read the consume queues in RocksDB": None,
            "does not read the topics, groups, and offsets in RocksDB": None,
        },
    ),
    ("5.5.0-batchcq", "4.9.7", {"does not read 1 batch queue": 1}),
    ("5.5.0-compaction", "4.9.7", {"does not read 2 compacted queues": 2}),
    ("5.5.0-compaction", "5.1.4", {}),
    ("5.5.0-tiered", "4.9.7", {"does not read 23 queues in tiered storage": 23}),
    ("5.5.0-dledger", "4.4.0", {"does not read the commit log of DLedger": None}),
    ("5.5.0-dledger", "4.9.7", {}),
    ("5.3.3-basic", "4.9.7", {}),
)


@pytest.mark.parametrize(("name", "version", "unread"), UNREAD)
def test_what_a_version_does_not_read(
    name: str, version: str, unread: dict[str, int | None], any_dir: Directory
) -> None:
    start = simulate_start(open_store(any_dir(name)), version)
    assert start.loads
    assert {item.what: item.count for item in start.unread_parts} == unread
    assert start.harmful or not unread


TAGS = "does not answer queries by tags from the index; no message is lost by that"
FIELDS = "does not read 1 field of the checkpoint; no message is lost by that"


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("5.5.0-tiered", "5.3.3", (TAGS, FIELDS)),
        ("5.5.0-tiered", "5.4.0", (FIELDS,)),
        ("5.5.0-tiered", "5.5.0", ()),
        ("5.5.0-long", "4.9.7", (TAGS, FIELDS)),
        ("5.3.3-basic", "5.1.4", ()),
    ],
)
def test_what_holds_no_message_is_a_note(
    name: str, version: str, said: tuple[str, ...], any_dir: Directory
) -> None:
    """A start is not worse for it, or a repair that writes it would be refused."""
    start = simulate_start(open_store(any_dir(name)), version)
    assert [note for note in start.notes if "no message is lost" in note] == [
        f"a {version} broker {clause}" for clause in said
    ]


@pytest.mark.parametrize("name", ["5.5.0-timer", "5.5.0-rocksdb-all", "5.5.0-rocksdb-cq", "5.5.0-tiered"])
def test_a_version_that_may_have_written_the_store_reads_all_of_it(name: str, any_dir: Directory) -> None:
    store = open_store(any_dir(name))
    found = predict_starts(store, [(version,) for version in store.dialect_evidence.versions])
    assert found and not any(verdict.unread_part_count for verdict in found)


def test_a_verdict_is_not_harmless(any_dir: Directory) -> None:
    (found,) = predict_starts(open_store(any_dir("5.5.0-timer")), [(parse_version("4.9.7"),)])
    assert found.unread_parts == ("never delivers 13 timer messages that wait",)
    assert found.unread_part_count == 1 and not found.harmless and found.takes()
