"""Topics that a broker deleted: their records stay in the log, and nothing is wrong."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.cli.show.start import headline
from rocketfsck.common.rulenames import RuleName
from rocketfsck.query.start.simulate import simulate_starts
from rocketfsck.query.start.verdict import predict_starts, start_classes, versions_of
from rocketfsck.repair.plan.basis import queues_of
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify.queues.looseunits import DeletedQueues
from rocketfsck.verify.report import Report
from rocketfsck.verify.run import check_store
from rocketfsck.writer import Kind, OutgoingMessage, WriteOptions, write_store

from tests.conftest import Directory


def topics_of(root: Path, **queues: int) -> None:
    """topics.json with these topics, of so many queues."""
    table = {
        name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6}
        for name, count in queues.items()
    }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def worst(report: Report) -> set[str]:
    return {rule for rule, count in report.counts.items() if count and report.severity_of(rule) > 0}


@pytest.mark.parametrize("store", ["5.5.0-deleted", "4.9.7-deleted", "5.5.0-deleted-rocksdb"])
def test_real_stores_with_deleted_topics_are_healthy(real_dir: Directory, store: str) -> None:
    opened = open_store(real_dir(store))
    report = check_store(opened)
    assert worst(report) == set()
    assert report.account is not None and report.account.count("removed") == 36
    verdict = judge_store(opened, report)
    assert verdict.state == "healthy"
    assert not make_plan(opened, report).actions
    for start in predict_starts(opened, start_classes(versions_of(opened))):
        assert start.harmless and start.reissued_count == 0


@pytest.mark.parametrize("store", ["5.5.0-deleted", "4.9.7-deleted", "5.5.0-deleted-rocksdb"])
def test_a_predicted_start_counts_no_deleted_message_as_out_of_reach(
    real_copy: Directory, store: str
) -> None:
    root = real_copy(store)
    opened = open_store(root)
    (start,) = simulate_starts(opened, [str(opened.dialect.version)])
    assert start.losses.by_queue_count == start.losses.deleted_count == 36
    assert headline(start).endswith("starts on this store and loses nothing")
    if store == "5.5.0-deleted":  # what is missing besides is said
        shutil.rmtree(root / "consumequeue" / "TryOrder" / "0")
        opened = open_store(root)
        (start,) = simulate_starts(opened, [str(opened.dialect.version)])
        assert start.losses.deleted_count == 36 and "no unit" in headline(start)
    for path in (root / "config").glob("topics*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    opened = open_store(root)
    (start,) = simulate_starts(opened, [str(opened.dialect.version)])
    assert start.losses.deleted_count == 0 and "no unit" in headline(start)


def test_without_topics_nothing_tells_that_a_queue_was_deleted(real_dir: Directory, tmp_path: Path) -> None:
    for number, text in enumerate((None, "", "{", '{"topicConfigTable":{"Other":{"topicName":"Other"}}}')):
        root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / str(number)))
        for path in (root / "config").glob("topics.json*"):
            path.unlink()
        if text is not None:
            (root / "config" / "topics.json").write_text(text)
        report = check_store(open_store(root))
        assert report.counts.get(RuleName.QUEUE_MISSING, 0) > 0


def test_one_lost_queue_of_a_topic_is_not_deleted(store_dir: Directory, tmp_path: Path) -> None:
    """Its topic is listed with that many queues: nobody deleted it."""
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    topics = sorted({path.parent for path in (root / "consumequeue").glob("*/*")})
    topics_of(root, **{path.name: 64 for path in topics})
    shutil.rmtree(sorted(topics[0].iterdir())[0])
    report = check_store(open_store(root))
    assert report.counts.get(RuleName.QUEUE_MISSING) == 1


def test_a_topic_made_again_with_queues_that_have_no_message_yet(real_dir: Directory, tmp_path: Path) -> None:
    """What its former life had in such a queue was deleted with the rest."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    table = json.loads((root / "config" / "topics.json").read_text())
    table["topicConfigTable"]["TryBack"].update(readQueueNums=3, writeQueueNums=3)
    (root / "config" / "topics.json").write_text(json.dumps(table))
    opened = open_store(root)
    report = check_store(opened)
    assert worst(report) == set()
    assert not make_plan(opened, report).actions
    for start in predict_starts(opened, start_classes(versions_of(opened))):
        assert start.reissued_count == 0


def test_where_all_queues_begin_again_they_were_lost(real_dir: Directory, tmp_path: Path) -> None:
    """A broker that stopped in order and lost all queues begins all of them with 0: nothing was removed then.

    No repair lets one record of a place take the unit of the other."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    for topic in (root / "consumequeue").iterdir():
        if topic.name != "TryBack":
            shutil.rmtree(topic)
    opened = open_store(root)
    report = check_store(opened)
    deleted = {
        (finding.where.topic, finding.where.queue_id)
        for finding in report.findings
        if finding.rule == RuleName.QUEUE_DELETED
    }
    assert not deleted & {("TryBack", 0), ("TryBack", 1)}
    assert report.counts.get(RuleName.RECORD_WITHOUT_UNIT, 0) > 0
    built = [action for action in make_plan(opened, report).actions if action.name == "rebuild-queue"]
    for queues in (queues_of(action) for action in built):
        assert queues is not None and not {("TryBack", 0), ("TryBack", 1)} & {*queues}


@pytest.mark.parametrize(
    ("version", "first", "is_removed"),
    [("5.3.3", "", True), ("4.9.8", "", True), ("5.1.4", "", False), ("5.3.3", "Lost", False)],
    ids=["5.3.3", "4.9.8", "5.1.4", "another topic is lost"],
)
def test_the_first_topic_of_a_store_made_again(
    tmp_path: Path, version: str, first: str, is_removed: bool
) -> None:
    """No other queue is as old. A broker that lost all queues dispatches the log again, but up to 4.4.0 and
    from 5.0.0 to 5.2.0: those begin every queue again."""
    names = [first or "Again", *["Again"] * 6, *["Stays"] * 3, *["Again"] * 4]
    messages = [OutgoingMessage(name, b"x" * 50, 1000 + at) for at, name in enumerate(names)]
    options = WriteOptions(version=version, geometry=Geometry(65536, 1000, 920, 4096, 64, 500), sync=False)
    root = tmp_path / "store"
    write_store(root, messages, options)
    topics_of(root, Again=1, Stays=1, **({first: 1} if first else {}))
    (queue,) = (root / "consumequeue" / "Again" / "0").iterdir()
    used = 20 * names.count("Again")
    units = queue.read_bytes()[used - 80 : used]
    queue.write_bytes(units.ljust(1000, b"\0"))
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        for number in range(4):
            log.seek(int.from_bytes(units[20 * number : 20 * number + 8], "big") + QUEUE_OFFSET_POS)
            log.write(number.to_bytes(8, "big"))
    if first:
        shutil.rmtree(root / "consumequeue" / first)
    opened = open_store(root, version=version)
    report = check_store(opened)
    assert (RuleName.RECORD_WITHOUT_UNIT not in report.counts) is is_removed
    assert (judge_store(opened, report, version=version).state == "healthy") is is_removed


QUEUE_OFFSET_POS = 20
"""Where the queueOffset of a record is."""


@pytest.mark.parametrize(
    ("lost", "removed_count", "unreachable_count"),
    [("consumequeue/TryBack", 36, 13), ("consumequeue", 26, 93)],
    ids=["the topic's queues", "all queues"],
)
def test_the_log_tells_of_an_earlier_life_where_the_queues_are_lost(
    real_dir: Directory, tmp_path: Path, lost: str, removed_count: int, unreachable_count: int
) -> None:
    """Its queue offsets begin again while those of other topics go on: what came before was removed. Without
    a queue, and without another topic that goes on there, nothing tells."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    shutil.rmtree(root / lost)
    account = check_store(open_store(root)).account
    assert account is not None and account.lost_count == 0
    assert (account.count("removed"), account.unreachable_count) == (removed_count, unreachable_count)


LIFE, AGAIN = [0, 9, 0, 500, 10, 0], [0, 4, 1000, 1500, 5, 0]
ON = [10, 14, 1000, 1500, 5, 0]


@pytest.mark.parametrize(
    ("rows", "former"),
    [
        ({("Again", 0): [LIFE, AGAIN], ("Other", 0): [LIFE, ON]}, [LIFE]),
        ({("Again", 0): [LIFE, AGAIN], ("Other", 0): [[0, 14, 0, 1500, 15, 0]]}, [LIFE]),
        ({("Again", 0): [LIFE, AGAIN], ("Other", 0): [LIFE, AGAIN]}, []),
        ({("Again", 0): [LIFE, AGAIN], ("Other", 0): [LIFE]}, []),
        ({("Again", 0): [LIFE, AGAIN], ("Again", 1): [LIFE, ON], ("Other", 0): [LIFE, ON]}, []),
        ({("Again", 0): [LIFE, AGAIN], ("Again", 1): [LIFE], ("Other", 0): [LIFE, ON]}, [LIFE]),
        ({("Again", 0): [LIFE, ON], ("Other", 0): [LIFE, ON]}, []),
    ],
    ids=["made again", "in one run", "all lost", "other ends", "one goes on", "one has no more", "goes on"],
)
def test_lives_of_a_topic_without_queues(
    tmp_path: Path, rows: dict[tuple[str, int], list[list[int]]], former: list[list[int]]
) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    missed = {name: np.array(ranges, np.int64) for name, ranges in rows.items()}
    queues = DeletedQueues(open_store(tmp_path), missed, lambda _: False)
    assert queues.former(("Again", 0)).tolist() == former
    assert queues.former(("Other", 0)).tolist() == []


def test_light_queues_are_in_no_table_of_topics(real_dir: Directory, tmp_path: Path) -> None:
    """Without them a broker may have written none; where no queue at all is left, they are lost, too."""
    root = Path(shutil.copytree(real_dir("5.3.3-killed-lmq"), tmp_path / "store"))
    light = sorted(path for path in (root / "consumequeue").iterdir() if path.name.startswith("%LMQ%"))
    for path in light:
        shutil.rmtree(path)
    assert RuleName.QUEUE_MISSING not in check_store(open_store(root)).counts
    shutil.rmtree(root / "consumequeue")
    missing = [f for f in check_store(open_store(root)).findings if f.rule == RuleName.QUEUE_MISSING]
    assert {path.name for path in light} <= {f.where.topic for f in missing}


def test_the_copy_of_topics_json_decides_where_the_file_is_missing(
    real_dir: Directory, tmp_path: Path
) -> None:
    """A broker loads the .bak then."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    topics = root / "config" / "topics.json"
    topics.rename(topics.with_name("topics.json.bak"))
    opened = open_store(root)
    report = check_store(opened)
    assert report.account is not None and report.account.count("removed") == 36
    assert report.account.unreachable_count == 0
    (start,) = predict_starts(opened, start_classes([opened.dialect.version]))
    assert start.reissued_count == 0


def test_a_topic_made_again_is_known_where_its_new_records_are_lost(
    real_dir: Directory, tmp_path: Path
) -> None:
    """The first unit leads behind all records of the queue that are left: those are of its earlier life."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    first = min(
        int.from_bytes((root / "consumequeue" / "TryBack" / number / f"{0:020}").read_bytes()[:8], "big")
        for number in ("0", "1")
    )
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(first)
        log.write(bytes(98304 - first))
    opened = open_store(root)
    report = check_store(opened)
    assert report.account is not None
    assert (report.account.count("removed"), report.account.unreachable_count) == (36, 0)
    assert report.account.lost_count == 13 + 15  # of TryBack, of TryGrow behind it
    (start,) = predict_starts(opened, start_classes([opened.dialect.version]))
    assert start.reissued_count == 0


def test_a_cut_takes_no_messages_of_deleted_topics(real_dir: Directory, tmp_path: Path) -> None:
    """They are behind the cut, too, and nobody misses them."""
    root = Path(shutil.copytree(real_dir("5.5.0-deleted"), tmp_path / "store"))
    units = [
        struct.unpack_from(">qi", data, pos)
        for path in (root / "consumequeue").glob("*/*/*")
        for data in [path.read_bytes()]
        for pos in range(0, len(data), 20)
    ]
    led_to = sorted({offset for offset, size in units if size})
    bad = led_to[2]
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(bad + 4)
        log.write(b"none")
    opened = open_store(root)
    (start,) = predict_starts(opened, start_classes([opened.dialect.version]))
    assert start.cut_count == len(led_to) - 3


HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.mark.parametrize("store", ["4.4.0-trans", "5.3.3-trans"])
def test_a_broker_that_deletes_a_topic_destroys_the_queue_of_half_messages(
    store_copy: Directory, store: str
) -> None:
    """Before 5.0.0 (DefaultMessageStore#cleanUnusedTopic): the directory of the topic stays, and is empty."""
    root = store_copy(store)
    queues = root / "consumequeue" / HALF
    counts = {path.name: len(list(path.iterdir())) for path in (root / "consumequeue").iterdir()}
    topics_of(root, **counts)
    offsets = root / "config" / "consumerOffset.json"
    offsets.write_text(json.dumps({"offsetTable": {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 1}}}))
    assert worst(check_store(open_store(root))) == set()
    for path in queues.iterdir():
        shutil.rmtree(path)
    opened = open_store(root)
    report = check_store(opened)
    assert worst(report) == set()
    assert report.counts["XR003"] == 1
    assert judge_store(opened, report).state == "healthy"
    assert not make_plan(opened, report).actions
    queues.rmdir()
    opened = open_store(root)
    report = check_store(opened)
    assert "XR002" in worst(report)
    assert judge_store(opened, report).state == "harmful"


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
@pytest.mark.parametrize(("kept_count", "removed_count"), [(12, 3), (10, 0), (0, 0)])
def test_half_messages_after_the_last_unit_of_all_queues_were_not_removed_with_a_topic(
    tmp_path: Path, version: str, kept_count: int, removed_count: int
) -> None:
    """The next start dispatches what comes after all units: it was lost with the units of other queues.

    But for the first record after the units, which 5.3.3 passes over: it is not removed either.
    """
    kinds = [Kind.NORMAL] * 10 + [Kind.HALF] * 3 + [Kind.NORMAL] * 2
    messages = [OutgoingMessage("T", b"x" * 50, 1000 + at, kind=kind) for at, kind in enumerate(kinds)]
    options = WriteOptions(version=version, geometry=Geometry(65536, 1000, 920, 4096, 64, 500), sync=False)
    root = tmp_path / "store"
    write_store(root, messages, options)
    topics_of(root, T=1, **{HALF: 1})
    (path,) = (root / "consumequeue" / "T" / "0").iterdir()
    path.write_bytes(path.read_bytes()[: 20 * kept_count].ljust(1000, b"\0"))
    shutil.rmtree(root / "consumequeue" / HALF / "0")
    opened = open_store(root, version=version)
    report = check_store(opened)
    assert report.account is not None
    left_count = len(kinds) - kept_count - removed_count
    assert report.account.count("removed") == removed_count
    assert report.account.unreachable_count == left_count
    (start,) = predict_starts(opened, start_classes([opened.dialect.version]))
    passed_over = version == "5.3.3" and kept_count == 10
    assert (start.added_count, start.deleted_count) == (left_count - passed_over, removed_count)


def ending_with_half_messages(root: Path, version: str) -> Path:
    """A store whose last records are of a deleted topic, and half messages whose queue went with it."""
    kept = [OutgoingMessage("T", b"x" * 50, 1000 + at) for at in range(10)]
    gone = [OutgoingMessage("Gone", b"x" * 50, 2000 + at) for at in range(4)]
    half = [OutgoingMessage("T", b"x" * 50, 3000 + at, kind=Kind.HALF) for at in range(3)]
    options = WriteOptions(version=version, geometry=Geometry(65536, 1000, 920, 4096, 64, 500), sync=False)
    write_store(root, [*kept, *gone, *half], options)
    topics_of(root, T=1, **{HALF: 1})
    for topic in ("Gone", HALF):
        shutil.rmtree(root / "consumequeue" / topic / "0")
    return root


@pytest.mark.parametrize(("version", "added_count"), [("4.4.0", 0), ("4.7.1", 7), ("4.9.8", 7)])
def test_half_messages_at_the_end_of_the_log_were_removed_with_a_topic(
    tmp_path: Path, version: str, added_count: int
) -> None:
    """As 4.9.7 leaves it: half messages came last, a topic was deleted, and the broker stopped cleanly.

    Its next start dispatches both again, because it begins after the last unit of all; 4.4.0 does not.
    """
    root = ending_with_half_messages(tmp_path / "store", version)
    opened = open_store(root, version=version)
    report = check_store(opened)
    assert worst(report) == set()
    assert report.account is not None and report.account.count("removed") == 7
    assert judge_store(opened, report).state == "healthy"
    assert not make_plan(opened, report).actions
    (start,) = predict_starts(opened, start_classes([opened.dialect.version]))
    assert start.harmless and start.added_count == added_count


@pytest.mark.parametrize("left", ["abort", "unit"])
def test_half_messages_at_the_end_were_lost_where_others_may_be(tmp_path: Path, left: str) -> None:
    """A killed broker had perhaps not dispatched them; and units of other queues were lost with theirs."""
    root = ending_with_half_messages(tmp_path / "store", "4.9.8")
    if left == "abort":
        (root / "abort").touch()
    else:
        (path,) = (root / "consumequeue" / "T" / "0").iterdir()
        path.write_bytes(path.read_bytes()[: 20 * 9].ljust(1000, b"\0"))
    assert "XR002" in worst(check_store(open_store(root, version="4.9.8")))
