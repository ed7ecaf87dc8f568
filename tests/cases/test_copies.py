"""Parts of a store from an older copy of it, or from another store, as people mix them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.checkpoint import CHECKPOINT_SIZE
from rocketfsck.formats.dialect import parse_version
from rocketfsck.query.start.verdict import predict_each, start_classes, verdict_of
from rocketfsck.repair.verdict import Verdict, judge_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import describe
from rocketfsck.writer import WriteOptions, write_store
from rocketfsck.writer.synth import parse_mix
from rocketfsck.writer.synth.plan import make_plan
from rocketfsck.writer.synth.stories import Storyteller

OPTIONS = WriteOptions(version="5.3.3", geometry=Geometry(65536, 1200, 920, 4096, 64, 250), sync=False)
BEGIN = 1_700_000_000_000
HOUR_MS = 3_600_000
ORIGINS = frozenset(
    {
        RuleName.QUEUES_OLDER,
        RuleName.LOG_OLDER,
        RuleName.LOG_FILE_OLDER,
        RuleName.LOG_FILE_FOREIGN,
        RuleName.INDEX_FOREIGN,
        RuleName.QUEUES_FOREIGN,
        RuleName.LOG_FOREIGN,
    }
)


def _write(path: Path, seed: int, start_time: int, count: int, *, append: bool = False) -> None:
    plan = make_plan(
        seed, parse_mix("plain,body=200:400,keys=1,topics=3,queues=2,rate=10"), OPTIONS, start_time
    )
    story = Storyteller(plan, OPTIONS).tell()
    write_store(path, itertools.islice(story, count), OPTIONS, append=append)


@dataclass(frozen=True, slots=True)
class Copies:
    """A store of six commit log files, an older copy of it, and another store as large."""

    newer: Path
    older: Path
    other: Path


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    place = tmp_path_factory.mktemp("copies")
    found = Copies(place / "newer", place / "older", place / "other")
    _write(found.newer, 1, BEGIN, 400)
    shutil.copytree(found.newer, found.older)
    _write(found.newer, 2, BEGIN + HOUR_MS, 300, append=True)
    _write(found.other, 3, BEGIN, 700)
    return found


def _put(part: str, source: Path, store: Path) -> None:
    """Put a file or a directory of another store in the place of this one's."""
    target = store / part
    if target.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source / part, target)
    else:
        shutil.copy2(source / part, target)


def _logs(store: Path) -> list[str]:
    return sorted(f"commitlog/{path.name}" for path in (store / "commitlog").iterdir())


def _queues(copies: Copies, store: Path) -> None:
    _put("consumequeue", copies.older, store)


def _queues_and_index(copies: Copies, store: Path) -> None:
    _put("consumequeue", copies.older, store)
    _put("index", copies.older, store)


def _log(copies: Copies, store: Path) -> None:
    _put("commitlog", copies.older, store)


def _open_file(copies: Copies, store: Path) -> None:
    """A copy that leaves files alone that are there already, as `rsync --ignore-existing`."""
    _put(_logs(copies.older)[-1], copies.older, store)


def _middle_file(copies: Copies, store: Path) -> None:
    _put(_logs(store)[1], copies.other, store)


def _foreign_index(copies: Copies, store: Path) -> None:
    _put("index", copies.other, store)


def _foreign_queues(copies: Copies, store: Path) -> None:
    _put("consumequeue", copies.other, store)


def _foreign_log(copies: Copies, store: Path) -> None:
    _put("commitlog", copies.other, store)


Mix = Callable[[Copies, Path], None]
CASES: dict[str, tuple[Mix, str, str, str]] = {
    "older-queues": (_queues, RuleName.QUEUES_OLDER, " before the log", ""),
    "older-queues-and-index": (_queues_and_index, RuleName.QUEUES_OLDER, " before the log", ""),
    "older-log": (_log, RuleName.LOG_OLDER, "59 min 50 s before", "newer copy of the commit log"),
    "older-file": (_open_file, RuleName.LOG_FILE_OLDER, "an older copy", "newer copy of commitlog/"),
    "another's-file": (_middle_file, RuleName.LOG_FILE_FOREIGN, "another store's", "the right commitlog/"),
    "another's-index": (_foreign_index, RuleName.INDEX_FOREIGN, "the index is another store's", ""),
    "another's-queues": (
        _foreign_queues,
        RuleName.QUEUES_FOREIGN,
        "queues are another store's",
        "find out first",
    ),
    "another's-log": (_foreign_log, RuleName.LOG_FOREIGN, "log is another store's", "the right commit log"),
}
"""How the store was mixed, the rule, a part of its sentence, and of the advice; "" for no advice."""


def _judged(root: Path) -> tuple[Report, Verdict]:
    store = open_store(root, version="5.3.3")
    report = check_store(store, CheckOptions(jobs=1, now_timestamp=BEGIN + 2 * HOUR_MS))
    return report, judge_store(store, report)


def test_a_file_that_has_the_place_of_a_later_one(copies: Copies, tmp_path: Path) -> None:
    """A copy of an earlier file after the last one: nothing is older for that."""
    store = Path(shutil.copytree(copies.newer, tmp_path / "store"))
    last = max((store / "commitlog").iterdir())
    shutil.copy(
        store / _logs(store)[0],
        last.with_name(f"{int(last.name) + OPTIONS.geometry.commitlog_file_size:020d}"),
    )
    report, verdict = _judged(store)
    assert not any(finding.rule in ORIGINS for finding in report.findings)
    assert (verdict.causes, verdict.may_start) == ((), True)
    assert verdict.account is not None
    assert verdict.account.lost_count == 0


@pytest.mark.parametrize("name", CASES)
def test_a_mixed_store_says_where_its_parts_come_from(name: str, copies: Copies, tmp_path: Path) -> None:
    mix, rule, says, advises = CASES[name]
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    mix(copies, store)
    report, verdict = _judged(store)
    found = [finding for finding in report.findings if finding.rule in ORIGINS]
    assert {finding.rule for finding in found} == {rule}
    assert says in describe(found[0])
    assert verdict.causes == tuple(describe(finding) for finding in found)
    assert advises in verdict.advice if advises else not verdict.advice
    assert report.diagnoses[0].fault_class in ("O2", "O3")
    assert all(
        "consequence" in diagnosis.text
        for diagnosis in report.diagnoses
        if diagnosis.fault_class in ("Q1", "Q2", "Q3", "I1", "I2", "I12", "C2")
    )


@pytest.mark.parametrize("part", ["newer", "older", "other"])
def test_whole_copies_say_nothing(part: str, copies: Copies) -> None:
    report, verdict = _judged(getattr(copies, part))
    assert not [finding for finding in report.findings if finding.rule in ORIGINS]
    assert verdict.state == "healthy" and verdict.causes == ()


def test_messages_that_another_store_s_file_has_replaced_are_lost(copies: Copies, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    sound, _ = _judged(store)
    _middle_file(copies, store)
    report, verdict = _judged(store)
    assert sound.account is not None and report.account is not None
    file = _logs(store)[1]
    in_file = {region.kind: region.record_count for region in sound.regions[file]}["records"]
    assert in_file - 3 <= report.account.lost_count + report.account.perhaps_lost_count <= in_file
    assert report.account.unreachable_count == 0
    assert verdict.state == "lost"
    assert verdict.prospect is not None and verdict.prospect.action_count == 0


def test_queues_that_a_kill_left_behind_are_no_older_copy(copies: Copies, tmp_path: Path) -> None:
    """A killed broker may not have flushed the last units: no earlier than the checkpoint says."""
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    _queues(copies, store)
    (store / "abort").touch()
    (store / "checkpoint").write_bytes(BEGIN.to_bytes(8, "big") * 2 + bytes(CHECKPOINT_SIZE - 16))
    report, _ = _judged(store)
    assert not [finding for finding in report.findings if finding.rule in ORIGINS]


def test_an_index_without_files_is_no_other_store_s(copies: Copies, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    for path in sorted((store / "index").iterdir())[:-1]:
        path.unlink()
    report, _ = _judged(store)
    assert not [finding for finding in report.findings if finding.rule in ORIGINS]


def test_queues_of_which_one_ends_early_are_no_older_copy(copies: Copies, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    _put("consumequeue/Topic0/0", copies.older, store)
    report, _ = _judged(store)
    assert RuleName.RECORD_WITHOUT_UNIT in {finding.rule for finding in report.findings}
    assert not [finding for finding in report.findings if finding.rule in ORIGINS]


def test_a_recovery_that_appends_over_the_end_of_a_file_hides_nothing(copies: Copies, tmp_path: Path) -> None:
    """A broker from 5.4.0 on dispatches while it recovers, then cuts the queues: older units stay."""
    store = tmp_path / "store"
    shutil.copytree(copies.newer, store)
    _queues(copies, store)
    (start,) = predict_each(open_store(store, version="5.5.0"), start_classes([parse_version("5.5.0")]))
    found = verdict_of(start)
    assert found.loads and found.lost_count == 0
    assert (found.reached_count or 0) + (found.reissued_count or 0) == 700
