"""Stores whose commit log is DLedger's, as released brokers wrote them: the log is read like a plain one."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages, read_columns
from rocketfsck.errors import UsageError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.dledger import DLEDGER_ENTRY, ENTRY_HEADER_SIZE, INDEX_UNIT_SIZE
from rocketfsck.pipeline.tail.place import log_of
from rocketfsck.query.counts import count_log
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.heal.plan import plan_heal
from rocketfsck.repair.heal.records import heal_stores
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import Store, open_store
from rocketfsck.store.model import OtherKind
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES

from tests.cases.test_repairs import tree
from tests.conftest import Directory, Document

STORES = {"4.9.7-dledger-mixed": 328, "5.5.0-dledger": 257}
"""Records in the log, those included that came after the broker was asked."""
Altered = Callable[[int, bytes], Store]


def opened(real_dir: Directory, real_manifest: Document, name: str) -> Store:
    return open_store(real_dir(name), version=real_manifest(name)["brokerVersion"])


@pytest.fixture
def altered(real_dir: Directory, tmp_path: Path) -> Altered:
    """Gives the store of 5.5.0 with other bytes at a place of its log."""

    def alter(place: int, data: bytes) -> Store:
        root = tmp_path / "store"
        shutil.copytree(real_dir("5.5.0-dledger"), root, ignore=shutil.ignore_patterns("timerwheel"))
        with (root / "dledger-n0/data" / f"{0:020d}").open("r+b") as stream:
            stream.seek(place)
            stream.write(data)
        return open_store(root)

    return alter


def test_messages_of_lost_data_files_are_lost(real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-dledger"), root, ignore=shutil.ignore_patterns("timerwheel"))
    (root / "dledger-n0/data" / f"{0:020d}").unlink()
    store = open_store(root)
    report = check_store(store)
    assert report.account is not None and report.account.lost_count == 257
    assert "ST019" in {finding.rule for finding in report.findings}  # a broker deletes all queues then
    assert "find the commit log first" in judge_store(store, report).advice


def third_entry(store_dir: Path) -> tuple[int, int]:
    """Where the third entry of the log begins and ends."""
    data = (store_dir / "dledger-n0/data" / f"{0:020d}").read_bytes()
    pos = 0
    for _ in range(2):
        pos += DLEDGER_ENTRY.parse(data[pos : pos + ENTRY_HEADER_SIZE])["size"]
    return pos, pos + DLEDGER_ENTRY.parse(data[pos : pos + ENTRY_HEADER_SIZE])["size"]


def serious(store: Store) -> list[Finding]:
    report = check_store(store, CheckOptions(level="full"))
    return [finding for finding in report.findings if RULES[finding.rule].severity > Severity.INFO]


@pytest.mark.parametrize("name", STORES)
def test_nothing_is_wrong_and_all_of_dledger_is_checked(
    name: str, real_dir: Directory, real_manifest: Document
) -> None:
    store = opened(real_dir, real_manifest, name)
    report = check_store(store, CheckOptions(level="full"))
    assert report.worst in (None, Severity.INFO), [finding.rule for finding in report.findings]
    assert not [item for item in report.not_checked if "dledger" in item.what]
    assert report.checked["commitlog"].record_count == STORES[name]
    assert len({file.relative for file in store.all_files()}) == len(list(store.all_files()))


@pytest.mark.parametrize("name", STORES)
def test_every_record_is_read(name: str, real_dir: Directory, real_manifest: Document) -> None:
    store = opened(real_dir, real_manifest, name)
    messages = list(iter_messages(store))
    assert len(messages) == STORES[name]
    assert sum(batch.num_rows for batch in read_columns(store)) == STORES[name]
    assert not any(message.faults for message in messages)
    assert sum(tally.message_count for tally in count_log(store).topics.values()) == STORES[name]
    stated = {
        message["startOffset"]
        for queue in real_manifest(name)["live"]["queues"]
        for pull in queue["getMessage"]
        for message in pull.get("messages", ())
    }
    assert stated <= {message.physical_offset for message in messages}


@pytest.mark.parametrize("name", STORES)
def test_queues_are_built_as_the_broker_wrote_them(
    name: str, real_dir: Directory, real_manifest: Document, tmp_path: Path
) -> None:
    store = opened(real_dir, real_manifest, name)
    rebuild_store(store, tmp_path / "new", RebuildOptions(queues=True, index=False, checkpoint=False))
    for queue in store.queues:
        for file in queue.files:
            assert (tmp_path / "new" / file.relative).read_bytes() == file.path.read_bytes()


def test_the_divided_offset(real_dir: Directory) -> None:
    store = open_store(real_dir("4.9.7-dledger-mixed"))
    assert [(file.start_offset, file.in_entries) for file in store.commitlog.files] == [
        (0, False),
        (262144, True),
    ]
    assert store.commitlog.directories == (store.root / "commitlog",)
    assert ("DLedger keeps the commit log", "below 262144 the commit log is plain") in {
        (note.what, note.why) for note in store.notes
    }


def test_settings_decide(real_dir: Directory, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("enableDLegerCommitLog=false\n")
    store = open_store(real_dir("4.9.7-dledger-mixed"), broker_conf=conf)
    assert [file.in_entries for file in store.commitlog.files] == [False]
    assert any(other.kind is OtherKind.DLEDGER_DATA for other in store.others)


def test_a_plain_log_that_reaches_into_dledger_s_is_the_log(real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("4.9.7-dledger-mixed"), root)
    shutil.copy(root / "commitlog" / f"{0:020d}", root / "commitlog" / f"{262144:020d}")
    store = open_store(root)
    assert not store.has_entries
    assert len(store.commitlog.files) == 2
    assert "the files of commitlog/ overlap those of DLedger" in [note.why for note in store.notes]


@pytest.mark.parametrize(
    ("at", "data", "rules"),
    [
        (0, struct.pack(">i", 77), {"CL001", "XR032"}),
        (4, struct.pack(">i", 77), {"XR032"}),
        (8, struct.pack(">q", 77), {"XR032"}),
        (16, struct.pack(">q", 77), {"XR032"}),
        (24, struct.pack(">q", 77), {"XR033"}),
        (40, struct.pack(">i", 77), {"XR039"}),
        (44, struct.pack(">i", 77), {"XR032"}),
        (48 + 100, b"zz", {"CL004"}),
    ],
)
def test_one_damage_of_each_kind(
    altered: Altered, real_dir: Directory, at: int, data: bytes, rules: set[str]
) -> None:
    start, end = third_entry(real_dir("5.5.0-dledger"))
    found = serious(altered(start + at, data))
    assert {finding.rule for finding in found} >= rules
    for finding in found:
        if finding.where.file.startswith("dledger-n0/data"):
            assert finding.where.start is not None
            assert start <= finding.where.start < end


def test_no_repair_changes_the_log_of_dledger(altered: Altered, real_dir: Directory) -> None:
    start, _ = third_entry(real_dir("5.5.0-dledger"))
    store = altered(start + 52, b"zzzz")
    plan = make_plan(store, check_store(store, CheckOptions(level="full")))
    assert {item.rule for item in plan.unanswered} >= {"CL001", "XR010"}
    assert not [
        action.name
        for action in plan.actions
        if action.target.startswith(("commitlog", "dledger", "checkpoint"))
    ]


def test_logs_of_dledger_are_not_healed(real_dir: Directory) -> None:
    for name in STORES:
        store = open_store(real_dir(name))
        with pytest.raises(UsageError, match="works without --heal"):
            heal_stores(store, store, SalvageOptions())
        with pytest.raises(UsageError, match="works without --heal"):
            plan_heal(store, store)


@pytest.mark.parametrize("name", STORES)
def test_a_log_of_dledger_is_not_followed(name: str, real_dir: Directory) -> None:
    with pytest.raises(UsageError, match="not as a stream"):
        log_of(open_store(real_dir(name)))


def lose_all(root: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)


def lose_a_topic(root: Path) -> None:
    shutil.rmtree(min(root.glob("consumequeue/*Order")))


def lose_units(root: Path) -> None:
    with min(root.glob("consumequeue/*Order/0/*")).open("r+b") as stream:
        stream.seek(3 * UNIT_SIZE)
        stream.write(bytes(2 * UNIT_SIZE))


def lose_an_index_file(root: Path) -> None:
    min(root.glob("index/*")).unlink()


@pytest.mark.parametrize(
    ("lose", "repairs"),
    [
        (lose_all, ["rebuild-queue", "rebuild-index"]),
        (lose_a_topic, ["rebuild-queue"]),
        (lose_units, ["rebuild-queue"]),
        (lose_an_index_file, ["rebuild-index"]),
    ],
)
@pytest.mark.parametrize("name", STORES)
def test_lost_queues_and_indexes_are_made_anew_beside_the_log(
    name: str,
    lose: Callable[[Path], None],
    repairs: list[str],
    real_dir: Directory,
    real_manifest: Document,
    tmp_path: Path,
) -> None:
    """Units come out as the broker wrote them, above and below the divided offset; DLedger's files, the
    checkpoint and abort stay as they are; undo gives back what there was."""
    root, source = tmp_path / "store", real_dir(name)
    shutil.copytree(source, root, ignore=shutil.ignore_patterns("timerwheel"))
    original = tree(root)
    lose(root)
    damaged = tree(root)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=101\nmaxIndexNum=400\n")
    version = real_manifest(name)["brokerVersion"]

    def checked() -> tuple[Store, Report]:
        store = open_store(root, version=version, broker_conf=conf)
        return store, check_store(store, CheckOptions(level="full"))

    store, before = checked()
    plan = make_plan(store, before)
    assert [action.name for action in plan.actions] == repairs
    applied = apply_plan(plan, settings=store.settings)
    assert not applied.fresh
    assert not applied.problem
    after = checked()
    assert after[1].worst in (None, Severity.INFO), [finding.rule for finding in after[1].findings]
    assert make_plan(*after).actions == ()
    mended = tree(root)
    for file in original:
        if not file.startswith("index/"):
            assert mended[file][0] == original[file][0], file
        if not file.startswith(("index/", "consumequeue/")):
            assert mended[file] == original[file], file
    assert {file.partition("/")[0] for file in mended} == {file.partition("/")[0] for file in original}
    undo(root)
    assert tree(root) == damaged


def test_queues_are_not_made_of_entries_that_are_not_agreed_on(real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("4.9.7-dledger-mixed"), root)
    lose_a_topic(root)
    (root / "dledger-n0/checkpoint").write_text("committedIndex=143\nendIndex=144\n")
    store = open_store(root)
    report = check_store(store, CheckOptions(level="full"))
    plan = make_plan(store, report)
    assert plan.actions == ()
    (reason,) = {item.reason for item in plan.unanswered if item.rule == "XR002"}
    assert "not yet agreed on by the group" in reason
    assert "rebuild-queue" in reason
    forced = make_plan(store, report, only=["rebuild-queue"])
    assert [action.name for action in forced.actions] == ["rebuild-queue"]
    (root / "dledger-n0/checkpoint").unlink()
    store = open_store(root)
    assert make_plan(store, check_store(store, CheckOptions(level="full"))).actions == ()


def test_zeroed_units_in_the_middle_of_the_index(real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-dledger"), root, ignore=shutil.ignore_patterns("timerwheel"))
    with (root / "dledger-n0/index" / f"{0:020d}").open("r+b") as stream:
        stream.seek(50 * INDEX_UNIT_SIZE)
        stream.write(bytes(3 * INDEX_UNIT_SIZE))
    (found,) = serious(open_store(root))
    assert (found.rule, found.count, found.found["index"]) == ("XR032", 3, 50)
    assert (found.where.start, found.where.end) == (50 * INDEX_UNIT_SIZE, 51 * INDEX_UNIT_SIZE)
    assert "the unit is empty" in str(found.found["reason"])
