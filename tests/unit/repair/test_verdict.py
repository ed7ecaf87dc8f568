"""The verdict: what it is made from, and that what a check has read need not be read again."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.show.text import Palette
from rocketfsck.cli.show.verdict import headline_of, verdict_lines
from rocketfsck.common.rulenames import RuleName
from rocketfsck.query.start import verdict as starts
from rocketfsck.repair.advice import MISSING_CONFIG, MISSING_LAST, MISSING_LOG
from rocketfsck.repair.plan.model import Unanswered
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.state import check_status
from rocketfsck.repair.verdict import (
    COMPARES,
    judge_store,
    predicted,
    ranked,
    sound_end_of,
    urgent_classes,
)
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry, LiveState, LockState
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import severity_of
from rocketfsck.verify.run import check_store
from rocketfsck.writer import EndState, OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import REAL_NAMES, STORE_NAMES, Directory


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_sound_log_is_recovered_as_if_it_were_walked(store_dir: Directory, name: str) -> None:
    store = open_store(store_dir(name))
    report = check_store(store)
    end = sound_end_of(store, report)
    classes = starts.start_classes(starts.versions_of(store))
    walked = starts.predict_starts(store, classes, losses=False)
    assert starts.predict_starts(store, classes, losses=False, sound_end=end) == walked
    assert (end is not None) or store.abort is not None or name in ("4.9.8-ghosttail",)


def test_the_units_of_a_long_sound_queue_are_counted_by_halves(tmp_path: Path) -> None:
    messages = [OutgoingMessage("T", b"", 1_700_000_000_000 + number) for number in range(8_000)]
    write_store(
        tmp_path / "store", messages, WriteOptions(sync=False, geometry=Geometry(1 << 21, 20 * 5_000))
    )
    store = open_store(tmp_path / "store")
    end = sound_end_of(store, check_store(store))
    assert end is not None
    classes = starts.start_classes(starts.versions_of(store))
    walked = starts.predict_starts(store, classes, losses=False)
    assert starts.predict_starts(store, classes, losses=False, sound_end=end) == walked


@pytest.mark.parametrize("name", REAL_NAMES)
def test_every_part_of_a_released_brokers_store_is_checked(real_dir: Directory, name: str) -> None:
    report = check_store(open_store(real_dir(name)))
    assert report.not_checked == ()
    assert report.severity_counts[Severity.ERROR] == 0


def test_a_part_or_a_lower_level_is_not_trusted(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    assert sound_end_of(store, check_store(store, CheckOptions(level="cross"))) is None
    report = check_store(store)
    assert sound_end_of(store, report) is not None
    assert sound_end_of(store, replace(report, suppressed=1)) is None


def test_a_killed_broker_is_to_be_started(real_dir: Directory) -> None:
    """Its start takes index entries of earlier log files, and no message from a consumer."""
    store = open_store(real_dir("5.3.3-killed-lmq"))
    report = check_store(store)
    verdict = judge_store(store, report)
    assert all(start.lost_key_count for start in verdict.starts)
    assert (verdict.state, verdict.may_start, verdict.next_command) == ("unclean", True, None)
    assert check_status(report, verdict.state) == 0
    assert headline_of(verdict).endswith("in order and consumers lose nothing.")
    assert verdict.prospect is None, "a trial builds each queue that the start dispatches again: minutes"


@pytest.mark.parametrize(("left", "state"), [(1, "unclean"), (2, "damaged")])
def test_a_broker_killed_between_two_keys_of_a_record_is_to_be_started(
    tmp_path: Path, left: int, state: str
) -> None:
    """The last record has one of its two keys indexed. Where the one before lacks a key, it is damage."""
    keys = ["a b", "c d", "e f", "g"][: left + 2]
    messages = [
        OutgoingMessage("T", b"body", 1_700_000_000_000 + number, properties={"KEYS": text})
        for number, text in enumerate(keys)
    ]
    options = WriteOptions(sync=False, geometry=GEOMETRY, end_state=EndState.KILLED)
    write_store(tmp_path / "store", messages, options)
    (index,) = (tmp_path / "store" / "index").iterdir()
    data = bytearray(index.read_bytes())
    puts = [data[pos : pos + 20] for pos in _entries(data)]
    index.write_bytes(_index(data, puts[:-1] if left == 1 else [*puts[:-2], puts[-1]]))
    store = open_store(tmp_path / "store")
    report = check_store(store)
    assert report.counts[RuleName.KEY_UNINDEXED] == 1
    assert judge_store(store, report).state == state


@pytest.mark.parametrize(("left", "state"), [(1, "unclean"), (2, "damaged")])
def test_a_broker_killed_before_the_entry_of_tags_is_to_be_started(
    tmp_path: Path, left: int, state: str
) -> None:
    """The same where the entry of its tags is missing, which 5.4.0 puts after those of the keys."""
    messages = [
        OutgoingMessage("T", b"body", 1_700_000_000_000 + number, properties={"KEYS": "k", "TAGS": "x"})
        for number in range(3)
    ]
    options = WriteOptions(version="5.5.0", sync=False, geometry=GEOMETRY, end_state=EndState.KILLED)
    write_store(tmp_path / "store", messages, options)
    (index,) = (tmp_path / "store" / "index").iterdir()
    data = bytearray(index.read_bytes())
    puts = [data[pos : pos + 20] for pos in _entries(data)]
    each = len(puts) // len(messages)
    del puts[each * (len(messages) - left + 1) - 1]
    index.write_bytes(_index(data, puts))
    store = open_store(tmp_path / "store", version="5.5.0")
    report = check_store(store)
    assert report.counts[RuleName.TAGS_UNINDEXED] == 1
    assert judge_store(store, report).state == state


GEOMETRY = Geometry(65536, 400, slot_count=7, entry_count=20)


def _entries(data: bytearray) -> range:
    """Where the entries of an index file are."""
    (next_number,) = struct.unpack_from(">i", data, 36)
    first = 40 + 4 * GEOMETRY.slot_count
    return range(first + 20, first + 20 * next_number, 20)


def _index(data: bytearray, puts: list[bytearray]) -> bytes:
    """An index file with these entries, each linked anew; the rest is that of `data`."""
    slots = [0] * GEOMETRY.slot_count
    entries = bytearray(20)
    for number, put in enumerate(puts, start=1):
        slot = struct.unpack_from(">i", put)[0] % GEOMETRY.slot_count
        entries += put[:16] + struct.pack(">i", slots[slot])
        slots[slot] = number
    used = sum(slot > 0 for slot in slots)
    (end,) = struct.unpack_from(">q", puts[-1], 4)
    head = data[:24] + struct.pack(">qii", end, used, len(puts) + 1)
    made = head + struct.pack(f">{len(slots)}i", *slots) + entries
    return bytes(made + bytes(len(data) - len(made)))


@pytest.mark.parametrize(
    ("backup", "state"), [(None, "unclean"), (b"", "unclean"), (b'{"offsetTable":{"gro', "harmful")]
)
def test_a_broker_killed_while_it_wrote_a_config_file_is_to_be_started(
    real_copy: Directory, backup: bytes | None, state: str
) -> None:
    """From 5.4.0 on the file becomes the .bak before the next one is written. What cannot be read is lost."""
    root = real_copy("5.5.0-full-killed")
    file = root / "config" / "consumerOffset.json"
    kept = file.with_name("consumerOffset.json.bak")
    file.replace(kept)
    if backup is not None:
        kept.write_bytes(backup)
    store = open_store(root)
    report = check_store(store)
    assert report.counts[RuleName.CONFIG_MISSING] == 1
    assert judge_store(store, report).state == state


@pytest.mark.parametrize(
    ("version", "was_killed", "state"),
    [("5.5.0", True, "unclean"), ("5.5.0", False, "damaged"), ("5.1.0", True, "refused")],
)
def test_a_broker_killed_while_it_made_a_file_is_to_be_started(
    real_copy: Directory, version: str, was_killed: bool, state: str
) -> None:
    """The file has a name and no length yet: up to 5.1.2 a start is refused because of that."""
    root = real_copy("5.5.0-full-killed" if was_killed else "5.5.0-long")
    last = max((root / "commitlog").iterdir())
    (root / "commitlog" / f"{int(last.name) + last.stat().st_size:020}").touch()
    store = open_store(root, version=version)
    report = check_store(store)
    assert judge_store(store, report, version=version).state == state


def test_a_broker_without_its_topics_is_not_to_be_started(real_copy: Directory) -> None:
    """Other files in config/ show that its topics were there. Without config/, it may be elsewhere."""
    root = real_copy("5.5.0-full-killed")
    for path in (root / "config").glob("topics.json*"):
        path.unlink()
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert (verdict.state, verdict.may_start, verdict.unknown_topic_count) == ("harmful", False, 12)
    assert headline_of(verdict) == ("Do not start a broker: it would not know 12 topics that have queues.")
    shutil.rmtree(root / "config")
    store = open_store(root)
    report = check_store(store)
    verdict = judge_store(store, report)
    assert (verdict.state, verdict.may_start, verdict.unknown_topic_count) == ("unclean", True, 12)
    lines = " ".join(verdict_lines(verdict, report.store, Palette(colored=False), 200))
    assert "any version: does not know 12 topics that have queues" in lines


def test_a_start_that_leaves_messages_out_of_reach_is_no_normal_one(real_copy: Directory) -> None:
    """A queue that was there is gone, and the start goes through the last file of the log only."""
    root = real_copy("5.3.3-killed-lmq")
    shutil.rmtree(root / "consumequeue" / "TryOrder" / "0")
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert any(start.unreached_count for start in verdict.starts)
    assert verdict.state != "unclean"
    assert verdict.prospect is not None


@pytest.mark.parametrize("name", ["5.3.3-expired-rocksdb", "5.4.0-expired-rocksdb"])
def test_queues_in_rocksdb_that_expired_are_healthy(real_dir: Directory, name: str) -> None:
    """Delay offsets lie behind the rows that are left; messages that were not due yet are gone."""
    store = open_store(real_dir(name))
    report = check_store(store)
    assert report.counts[RuleName.DELAYED_EXPIRED] > 0 and not report.counts.get(RuleName.DELAY_OFFSET_RANGE)
    assert judge_store(store, report).state == "healthy"
    assert not make_plan(store, report).actions


def test_what_could_not_be_read_is_not_healthy(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    report = check_store(store)
    assert judge_store(store, report).state == "healthy"
    failed = replace(report, not_checked=(NotChecked("index", "cannot be read", operational=True),))
    verdict = judge_store(store, failed)
    assert (verdict.state, verdict.may_start) == ("unread", None)


def test_a_store_in_use_is_not_judged_by_a_start(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    held = replace(store, live=LiveState(LockState.HELD, "a test says so"))
    report = check_store(store)
    verdict = judge_store(held, report)
    assert (verdict.state, verdict.may_start, verdict.starts) == ("running", None, ())
    asked = judge_store(held, report, version="5.3.3")
    assert [start.version for start in asked.starts] == ["5.3.3"] and asked.state == "running"
    wanted = [item.version for item in predicted(store, report)]
    assert [item.version for item in predicted(held, report, while_running=True)] == wanted


def test_a_plan_that_cannot_be_made_is_said(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("5.3.3-multiseg"), tmp_path / "store", ["torn-tail"], 1, write_truth=False)
    store = open_store(tmp_path / "store")
    verdict = judge_store(store, replace(check_store(store), suppressed=1))
    assert verdict.prospect is None
    assert "baseline" in verdict.obstacle


def test_harm_puts_its_diagnosis_first(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(
        store_dir("4.9.8-multiseg"), tmp_path / "store", ["torn-tail", "missing-queue"], 1, write_truth=False
    )
    store = open_store(tmp_path / "store")
    report = check_store(store)
    verdict = judge_store(store, report)
    assert verdict.state == "harmful"
    order = [diagnosis.fault_class for diagnosis in ranked(report, verdict).diagnoses]
    assert order[: len(verdict.urgent)] == list(verdict.urgent)
    assert set(verdict.urgent) <= set(urgent_classes(verdict.starts))


def test_the_next_command_can_be_pasted(store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "the store"
    damage_store(store_dir("5.3.3-multiseg"), root, ["body-flip"], 1, write_truth=False)
    store = open_store(root)
    report = check_store(store)
    verdict = judge_store(store, report)
    assert verdict.prospect is not None
    reason = f"{COMPARES} with another copy"
    left = tuple(
        Unanswered(finding.fingerprint, finding.rule, "", reason)
        for finding in report.findings
        if severity_of(finding) > Severity.INFO
    )
    plan = replace(make_plan(store, report), actions=(), unanswered=left)
    assert judge_store(store, report, plan=plan).next_command == f"rocketfsck compare '{root}' REPLICA"


def test_a_renamed_file_is_not_harmless_to_start_on(store_dir: Directory, tmp_path: Path) -> None:
    """A start deletes the file, or does not see it: its messages are sound, and nowhere else."""
    for name, copy, state in (("renamed", False, "harmful"), ("copied", True, "damaged")):
        root = Path(shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / name))
        middle = sorted((root / "commitlog").iterdir())[1]
        data = middle.read_bytes()
        count = data.count(b"\xda\xa3\x20\xa7")
        (shutil.copy if copy else shutil.move)(middle, middle.with_name("99999999"))
        store = open_store(root)
        verdict = judge_store(store, check_store(store))
        assert verdict.state == state
        assert {start.astray_count for start in verdict.starts} == {0 if copy else count}


@pytest.mark.parametrize("cut", ["file", "half"])
def test_a_last_file_that_is_gone_is_to_be_looked_for(store_copy: Directory, cut: str) -> None:
    """The next thing is the file, not a repair; what is cut inside a file that is there is no lost file."""
    root = store_copy("5.3.3-multiseg")
    files = sorted((root / "commitlog").iterdir())
    while not files[-1].read_bytes().strip(b"\0"):
        files.pop().unlink()
    last = files[-1]
    if cut == "file":
        last.unlink()
    else:
        used = len(last.read_bytes().rstrip(b"\0"))
        with last.open("r+b") as stream:
            stream.seek(used // 2)
            stream.write(bytes(used - used // 2))
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert (verdict.advice == MISSING_LAST) is (cut == "file")
    assert verdict.next_command is not None
    assert verdict.next_command.startswith("rocketfsck compare" if cut == "file" else "rocketfsck fix")


@pytest.mark.parametrize("has_broker", [True, False])
def test_a_config_directory_that_is_gone_is_to_be_copied_back(
    store_copy: Directory, has_broker: bool
) -> None:
    """A store without a broker never had one: nothing is wrong with it, and its topics are unknown."""
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "config")
    if has_broker:
        (root / "timerwheel").write_bytes(bytes(7 * 24 * 3600 * 2 * 32))
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert verdict.may_start is not has_broker and verdict.unknown_topic_count > 0
    assert (verdict.advice == MISSING_CONFIG) is has_broker
    expected = (
        "Do not start a broker: it would" if has_broker else "Healthy: a broker may be started, but does"
    )
    assert (
        headline_of(verdict) == f"{expected} not know {verdict.unknown_topic_count} topics that have queues."
    )


def test_a_wrong_setting_is_to_be_set_right(store_copy: Directory, tmp_path: Path) -> None:
    """A repair would change the files to fit it."""
    root, conf = store_copy("5.3.3-multiseg"), tmp_path / "broker.conf"
    for size, is_wrong in ((262144, True), (131072, False)):
        conf.write_text(f"mappedFileSizeCommitLog={size}\n")
        store = open_store(root, broker_conf=conf)
        verdict = judge_store(store, check_store(store))
        assert ("set mappedFileSizeCommitLog=131072 first" in verdict.advice) is is_wrong
        if is_wrong:
            assert verdict.next_command == f"rocketfsck check --broker-conf {conf} {root}"


def test_topics_that_an_older_topics_json_lacks_are_said(store_copy: Directory) -> None:
    """A topics.json out of a backup: the store is sound, and consumers of the later topics get errors."""
    root = store_copy("5.3.3-multiseg")
    (root / "config").mkdir(exist_ok=True)
    topic = '{"topicName":"Seg0","readQueueNums":2,"writeQueueNums":2}'
    (root / "config" / "topics.json").write_text(f'{{"topicConfigTable":{{"Seg0":{topic}}}}}')
    report = check_store(open_store(root))
    verdict = judge_store(open_store(root), report)
    assert (verdict.state, verdict.unlisted_topic_count) == ("healthy", 2)
    lines = " ".join(verdict_lines(verdict, report.store, Palette(colored=False), 100))
    assert "does not know 2 topics that have queues: not in config/topics.json" in lines


@pytest.mark.parametrize("name", ["checkpoint", "lock"])
def test_a_directory_with_the_name_of_a_file_keeps_a_broker_from_starting(
    store_copy: Directory, name: str
) -> None:
    """A 5.5.0 broker refused it: java.io.RandomAccessFile opens no directory."""
    root = store_copy("5.3.3-multiseg")
    (root / name).unlink(missing_ok=True)
    (root / name).mkdir()
    verdict = judge_store(open_store(root), check_store(open_store(root)))
    assert verdict.state == "refused"
    assert {(start.loads, start.file) for start in verdict.starts} == {(False, name)}
    assert all("Is a directory" in start.reason for start in verdict.starts)


@pytest.mark.parametrize("gone", [("commitlog",), ("commitlog", "consumequeue")])
def test_a_commit_log_that_is_gone_is_to_be_found(store_copy: Directory, gone: tuple[str, ...]) -> None:
    root = store_copy("5.3.3-multiseg")
    for name in gone:
        shutil.rmtree(root / name)
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert (verdict.advice, verdict.next_command) == (MISSING_LOG, f"rocketfsck check {root}")


def test_an_unfinished_copy_is_to_be_copied_again(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    last, half = sorted((root / "commitlog").iterdir())[-2:]
    half.unlink()
    name = f".{last.name}.Xa81Zq"
    last.with_name(name).write_bytes(last.read_bytes()[:70_000])
    last.unlink()
    store = open_store(root)
    verdict = judge_store(store, check_store(store))
    assert f"commitlog/{name} is an unfinished copy" in verdict.advice
    assert verdict.next_command == f"rocketfsck check {root}"


def test_a_first_line_names_the_versions_that_do_harm_where_others_do_none(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    verdict = judge_store(store, check_store(store))
    fine = starts.StartVerdict("5.5.1", ("5.5.0", "5.5.1"), covered=True, loads=True, reached_count=9)
    harmful = replace(fine, version="5.4.0", alike=("5.4.0",), cut_count=27)
    said = headline_of(replace(verdict, state="harmful", starts=(harmful, fine)))
    assert said == (
        "Do not start a broker of 5.4.0: its start would lose 27 sound messages. "
        "A start of 5.5.0 to 5.5.1 loses nothing."
    )
    said = headline_of(replace(verdict, state="harmful", starts=(harmful,)))
    assert said == "Do not start a broker: its start would lose 27 sound messages."
