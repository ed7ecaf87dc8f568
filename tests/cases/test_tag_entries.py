"""Index entries for tags, as brokers from 5.4.0 on write them, and the checkpoint's logicsPhysicalOffset.

Stores of real 5.5.0 brokers (tests/data/real), one of them written by 5.3.3 before, and what those brokers
answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import versions_with
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, entry_pos
from rocketfsck.formats.javatext import index_hash, tag_index_hash
from rocketfsck.query import BrokerView, find_by_key
from rocketfsck.query.answers import Outcome
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding

from tests.conftest import Directory, Document

NOW = 1_900_000_000_000
UPGRADED = "5.5.0-upgraded"
TAGGED = ("5.5.0-full-killed", "5.5.0-compaction", "5.5.0-timer", UPGRADED)
REBUILT = ("5.5.0-batchcq", "5.5.0-long", "5.5.0-timer", "5.5.0-compaction")
HEADERS = ("5.5.0-compaction", "5.5.0-pop-kv-killed", "5.5.0-timer")


def check(root: Path, version: str | None = None) -> Report:
    return check_store(open_store(root, version=version), CheckOptions(now_timestamp=NOW))


def of(report: Report, *rules: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.rule in rules]


@pytest.mark.parametrize("name", TAGGED)
def test_a_broker_answers_by_tags(name: str, real_dir: Directory, real_manifest: Document) -> None:
    stated = real_manifest(name)["restart"]["byTag"]
    with BrokerView(open_store(real_dir(name)), "5.5.0", state="running") as broker:
        found = [broker.query_message(row["topic"], row["tag"], by_tags=True) for row in stated]
    assert [list(offsets) for offsets in found] == [row["offsets"] for row in stated]
    assert any(found)


@pytest.mark.parametrize("name", ["5.5.0-full-killed", "5.5.0-long", UPGRADED])
def test_a_broker_answers_by_key(name: str, real_dir: Directory, real_manifest: Document) -> None:
    live = real_manifest(name)["live"]
    with BrokerView(open_store(real_dir(name)), "5.5.0", state="running") as broker:
        for row in live["queryMessage"]:
            offsets = broker.query_message(row["topic"], row["key"], row["maxNum"])
            assert [offset for offset in offsets if offset < live["maxPhyOffset"]] == row["offsets"]


def test_an_older_broker_has_no_query_by_tags(real_dir: Directory) -> None:
    store = open_store(real_dir(UPGRADED))
    with (
        BrokerView(store, "5.3.4", state="running") as broker,
        pytest.raises(UsageError, match=r"brokers have it from 5\.4\.0 on"),
    ):
        broker.query_message("LaterOrder", "new", by_tags=True)


def sent(manifest: dict[str, Any], topic: str, tag: str) -> list[int]:
    rows = [*manifest["before"]["messages"], *manifest["messages"]]
    return [row["queueOffset"] for row in rows if (row["topic"], row.get("tags")) == (topic, tag)]


@pytest.mark.parametrize(
    ("topic", "tag"), [("UpOrder", "shipped"), ("LaterOrder", "new"), ("UpUnicode", "ярлык")]
)
def test_all_messages_are_found_whatever_the_index_has(
    topic: str, tag: str, real_dir: Directory, real_manifest: Document
) -> None:
    store = open_store(real_dir(UPGRADED))
    wanted = sorted(sent(real_manifest(UPGRADED), topic, tag))
    answer = find_by_key(store, topic, tag, tag=True)
    assert sorted(found.message.queue_offset for found in answer.found) == wanted
    by_index = find_by_key(store, topic, tag, tag=True, via="index")
    assert len(by_index.found) == (len(wanted) if topic.startswith("Later") else 0)
    assert len(answer.hidden) == len(wanted) - len(by_index.found)
    assert find_by_key(store, topic, tag).outcome is Outcome.NOT_FOUND  # it is no key


def test_the_command(real_dir: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(real_dir(UPGRADED))
    assert run(["query", "key", root, "LaterOrder", "new", "--type", "tag"]) == 0
    assert capsys.readouterr().out.count("LaterOrder") >= 7
    assert run(["query", "key", root, "LaterOrder", "new", "--type", "tag", "--as-broker", "4.9.8"]) == 16
    assert run(["query", "key", root, "LaterOrder", "new"]) == 4


def test_entries_of_two_brokers_in_one_file(real_dir: Directory) -> None:
    store = open_store(real_dir(UPGRADED))
    assert len(store.indexes) == 1
    assert store.dialect_evidence.versions == versions_with(tag_entries=True)
    report = check(real_dir(UPGRADED))
    (finding,) = of(report, "XR041")
    assert finding.found == {"record_count": 33, "first_physical_offset": 207, "last_physical_offset": 11527}
    assert not of(report, "XR020", "XR021", "XR024", "XR035", "XR042", "ST045")
    assert not of(check(real_dir("5.5.0-long")), "XR041", "XR042")


def test_an_index_that_is_built_has_entries_for_all_tags(real_copy: Directory) -> None:
    root = real_copy(UPGRADED)
    plan = make_plan(open_store(root), check(root), only=["rebuild-index"])
    assert plan.actions == ()  # what an older broker left out is no damage
    next((root / "index").iterdir()).unlink()
    plan = make_plan(open_store(root), check(root), only=["rebuild-index"])
    apply_plan(
        plan,
        assume=[item.name for action in plan.actions for item in action.assumptions if item.how == "assumed"],
    )
    assert not of(check(root), "XR020", "XR041", "XR042")
    found = find_by_key(open_store(root), "UpOrder", "shipped", tag=True, via="index").found
    assert len(found) == 8


@pytest.mark.parametrize("name", REBUILT)
def test_built_entries_are_the_brokers(name: str, real_dir: Directory, tmp_path: Path) -> None:
    store, into = open_store(real_dir(name)), tmp_path / "built"
    assert run(["rebuild", "index", str(store.root), "--into", str(into)]) in (0, 4)
    made = sorted((into / "index").iterdir())
    assert [path.read_bytes() for path in made] == [file.path.read_bytes() for file in store.indexes]


@pytest.mark.parametrize("name", HEADERS)
def test_a_start_puts_the_entries_that_the_broker_put(
    name: str, real_dir: Directory, real_manifest: Document
) -> None:
    stated = real_manifest(name)["restart"]["indexHeadersAfter"]
    start = simulate_start(open_store(real_dir(name)), "5.5.0")
    found = [
        (file.begin_physical_offset, file.end_physical_offset, file.entry_count + 1)
        for file in start.index.files
    ]
    assert found == [(row[1], row[2], row[4]) for row in stated]


def entries(root: Path) -> list[tuple[int, int, int, int]]:
    store = open_store(root)
    data = store.indexes[0].path.read_bytes()[entry_pos(0, store.geometry.slot_count) :]
    return list(ENTRY.packer().iter_unpack(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]))


def set_hash(root: Path, number: int, key_hash: int) -> None:
    store = open_store(root)
    with store.indexes[0].path.open("r+b") as file:
        file.seek(entry_pos(number, store.geometry.slot_count))
        file.write(key_hash.to_bytes(4, "big"))


def test_a_damaged_tag_entry_is_found_where_it_is(real_copy: Directory) -> None:
    root = real_copy(UPGRADED)
    wanted = tag_index_hash("LaterOrder", "new")
    number = next(number for number, entry in enumerate(entries(root)) if entry[0] == wanted)
    offset = entries(root)[number][1]
    set_hash(root, number, index_hash("LaterOrder", "nothing"))
    report = check(root)
    (finding,) = of(report, "XR024")
    assert finding.where.entry == number
    (missing,) = of(report, "XR042")
    assert (missing.where.physical_offset, missing.found["record_count"]) == (offset, 1)
    assert not of(report, "XR021", "XR035")
    plan = make_plan(open_store(root), report)
    assert [action.name for action in plan.actions] == ["rebuild-index"]


def put(root: Path, value: int) -> None:
    with (root / "checkpoint").open("r+b") as file:
        file.seek(40)
        file.write(value.to_bytes(8, "big", signed=True))


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (72765, []),
        (0, []),
        (72766, ["CP027"]),
        (1 << 40, ["CP028"]),
        (-1, ["CP009"]),
    ],
)
def test_the_offset_of_the_last_unit(value: int, rules: list[str], real_copy: Directory) -> None:
    root = real_copy("5.5.0-long")
    put(root, value)
    report = check(root)
    assert [finding.rule for finding in of(report, "CP008", "CP009", "CP026", "CP027", "CP028")] == rules
    assert not of(check(root, "5.4.0"), "CP009", "CP027", "CP028")
    plan = make_plan(open_store(root), report)
    assert [action.name for action in plan.actions] == (["write-checkpoint"] if rules else [])
    if rules:
        apply_plan(plan, assume=[item.name for item in plan.actions[0].assumptions if item.how == "assumed"])
        assert not of(check(root), "CP008", "CP009", "CP026", "CP027", "CP028")
        written = int.from_bytes((root / "checkpoint").read_bytes()[40:48], "big")
        assert written > 72765  # the newest record with a unit


@pytest.mark.parametrize(
    ("value", "version", "first"),
    [(72765, "5.5.0", 65536), (1, "5.5.0", 0), (72765, "5.4.0", 0)],
)
def test_a_recovery_after_a_crash_begins_by_that_offset(
    value: int, version: str, first: int, real_copy: Directory
) -> None:
    root = real_copy("5.5.0-long")
    (root / "abort").touch()
    checkpoint = bytearray((root / "checkpoint").read_bytes())
    checkpoint[0:16] = (1).to_bytes(8, "big") * 2  # times that no record is older than
    (root / "checkpoint").write_bytes(checkpoint)
    put(root, value)
    scan = simulate_start(open_store(root), version).scan
    assert scan is not None
    assert scan.start_offset == first
