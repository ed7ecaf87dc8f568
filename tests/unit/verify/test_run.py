"""A check from a store to a report: what is in it, what is left out, the same for any number of jobs."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketfsck.verify as public
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store import open_store
from rocketfsck.store.model import Stray, StrayReason
from rocketfsck.verify.diagnoses import continue_command
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.report import Coverage, Report
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.resume import write_baseline
from rocketfsck.verify.tasks.task import is_aggregate

from tests.conftest import Directory
from tests.unit.verify.storemaker import NOW, Maker

DAMAGED = "4.9.8-ghosttail"


@pytest.fixture
def damaged(store_dir: Directory) -> Path:
    return store_dir(DAMAGED)


def check(root: Path, **options: object) -> Report:
    return check_store(open_store(root), CheckOptions(now_timestamp=NOW, **options))  # type: ignore[arg-type]


def without_time(report: Report) -> Report:
    return dataclasses.replace(report, seconds=0.0)


def test_a_sound_store(store_dir: Directory) -> None:
    report = check(store_dir("4.9.8-basic"))
    assert report.exit_code == 0
    assert report.coverage.complete
    assert report.checked["commitlog"].record_count == 182
    assert report.checked["config"].file_count == len(list((store_dir("4.9.8-basic") / "config").iterdir()))
    assert report.checked["consumequeue"].unit_count >= 182
    assert report.checked["index"].entry_count > 0
    assert report.next_commands == ()
    assert (report.store.dialect, report.store.geometry["commitlog_file_size"]) == ("4.9.8", 131072)
    assert report.store.live is False
    (regions,) = report.regions.values()
    assert sum(region.byte_count for region in regions) == 131072


def test_the_report_of_a_damaged_store_survives_json_and_says_what_next(damaged: Path) -> None:
    report = check(damaged)
    assert report.exit_code == 4
    assert report.worst is Severity.ERROR
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert report.diagnoses
    assert any(command.startswith("rocketfsck explain ") for command in report.next_commands)
    order = [public.RULES[finding.rule].severity for finding in report.findings]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("name", ["4.9.8-ghosttail", "4.9.8-killed", "5.1.3-expired"])
def test_any_number_of_jobs_gives_the_same_report(store_dir: Directory, name: str) -> None:
    store, options = open_store(store_dir(name)), CheckOptions(now_timestamp=NOW)
    one = check_store(store, options, engine=LocalEngine(1))
    assert without_time(check_store(store, options, engine=LocalEngine(4))) == without_time(one)
    assert without_time(check_store(store, dataclasses.replace(options, jobs=3))) == without_time(one)


def test_select_and_ignore(damaged: Path) -> None:
    whole = check(damaged)
    assert set(check(damaged, select=("XR004", "CQ")).counts) == {"XR004", "CQ002"}
    assert set(check(damaged, ignore=("XR",)).counts) == {
        rule for rule in whole.counts if not rule.startswith("XR")
    }


def test_data_files_are_not_read_for_rules_of_names_alone(damaged: Path) -> None:
    report = check(damaged, select=("ST001", "ST010"))
    assert report.coverage.task_count == 0
    assert report.exit_code == 0


def test_a_baseline_suppresses_what_it_knows_and_nothing_else(damaged: Path, tmp_path: Path) -> None:
    whole = check(damaged)
    path = tmp_path / "known.json"
    write_baseline(path, [finding for finding in whole.findings if finding.rule.startswith("XR")])
    rest = check(damaged, baseline=path)
    assert {rule for rule in rest.counts if rule.startswith("XR")} == set()
    assert rest.suppressed == sum(count for rule, count in whole.counts.items() if rule.startswith("XR"))
    write_baseline(path, whole.findings)
    assert check(damaged, baseline=path).exit_code == 0


def test_few_findings_are_kept_and_all_are_counted(damaged: Path) -> None:
    whole, few = check(damaged), check(damaged, detail_limit=1)
    assert few.counts == whole.counts
    assert len(few.findings) < len(whole.findings)
    assert any(is_aggregate(finding) for finding in few.findings)


def test_levels_do_more_and_say_what_they_left_out(damaged: Path) -> None:
    quick, cross, full = (check(damaged, level=level) for level in ("quick", "cross", "full"))
    (reason,) = (item.reason for item in quick.not_checked if not item.what)
    assert "belong to a higher level than quick" in reason
    assert not any(item.what == "" for item in full.not_checked)
    read = [report.checked["commitlog"].byte_count for report in (quick, cross, full)]
    assert read == sorted(read)
    assert cross.exit_code == full.exit_code == 4


def test_a_subset_says_what_to_run_next(damaged: Path) -> None:
    report = check(damaged, subset=Subset.parse("1/2"))
    assert not report.coverage.complete
    assert "the rest may hold damage" in report.coverage.statement
    assert report.next_commands[-1] == f"rocketfsck check --subset 2/2 {damaged}"


def test_subsets_with_a_state_file_add_up_to_the_whole(damaged: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = check(damaged, subset=Subset.parse("1/2"), resume=state)
    assert f"--resume {state}" in first.next_commands[-1]
    rest = check(damaged, resume=state)
    assert without_time(rest) == without_time(check(damaged))
    again = check(damaged, resume=state)
    assert without_time(again) == without_time(rest)


def test_the_last_of_all_parts_with_a_state_file_is_the_whole(damaged: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    for part in ("1/3", "2/3"):
        assert not check(damaged, subset=Subset.parse(part), resume=state).coverage.complete
    last = check(damaged, subset=Subset.parse("3/3"), resume=state)
    assert last.coverage.complete
    assert without_time(last) == without_time(check(damaged))


def test_continue_command(tmp_path: Path) -> None:
    half = Coverage(2, 1, 2, 1)
    root = tmp_path / "the store"
    (root / "commitlog").mkdir(parents=True)
    (root / "abort").touch()
    store = open_store(root)
    assert continue_command(store, CheckOptions(), Coverage(2, 2, 2, 2)) is None
    assert continue_command(store, CheckOptions(), half) == f"rocketfsck check '{root}'"
    options = CheckOptions(level="quick", subset=Subset(number=2, total=2), resume=Path("s t"))
    assert continue_command(store, options, half) == (
        f"rocketfsck check --level quick --resume 's t' '{root}'"
    )


def test_commands_repeat_what_was_told_of_the_store(store_dir: Directory, tmp_path: Path) -> None:
    conf, log = tmp_path / "my broker.conf", tmp_path / "log $1"
    conf.write_text("mappedFileSizeCommitLog=131072\n")
    source = store_dir(DAMAGED)
    log.mkdir()
    for file in (source / "commitlog").iterdir():
        (log / file.name).write_bytes(file.read_bytes())
    store = open_store(source, broker_conf=conf, version="4.9.8", commitlog_paths=[log], delay_levels="1s 5s")
    options = CheckOptions(
        now_timestamp=NOW,
        select=("CL", "XR"),
        ignore=("XR003",),
        subset=Subset.parse("1/2"),
        max_duration=90.0,
        resume=tmp_path / "state",
        jobs=1,
    )
    report = check_store(store, options)
    stated = ["--broker-conf", str(conf), "--broker-version", "4.9.8"]
    expected = ["rocketfsck", "check", "--select", "CL,XR", "--ignore", "XR003", "--subset", "2/2"]
    expected += ["--max-duration", "90", "--resume", str(tmp_path / "state"), "--jobs", "1"]
    expected += ["--delay-levels", "1s 5s", *stated, "--commitlog-path", str(log), str(source)]
    assert shlex.split(report.next_commands[-1]) == expected
    whole = check_store(store, CheckOptions(now_timestamp=NOW))
    plan = [
        "rocketfsck",
        "plan",
        "--delay-levels",
        "1s 5s",
        *stated,
        "--commitlog-path",
        str(log),
        str(source),
    ]
    assert shlex.split(whole.next_commands[-1]) == plan
    dumps = [shlex.split(item.next_command) for item in whole.diagnoses if item.next_command]
    assert dumps
    for words in dumps:
        if words[1] == "simulate":
            assert words[2:6] == ["--as-broker", "4.9.8", "--broker-conf", str(conf)]
            continue
        at = words.index("--broker-conf")
        assert words[at : at + 4] == stated
        assert ("--commitlog-path" in words) == (words[-1] == str(source))


def test_parts_of_a_check_say_that_they_do_not_add_up(damaged: Path, tmp_path: Path) -> None:
    def apart(**options: object) -> list[str]:
        reasons = [item.reason for item in check(damaged, **options).not_checked]
        return [reason for reason in reasons if "needs the files of other parts" in reason]

    (reason,) = apart(subset=Subset.parse("1/2"))
    assert "the same --resume FILE" in reason
    (reason,) = apart(subset=Subset.parse("1/2"), resume=tmp_path / "state")
    assert "holds every part" in reason
    assert apart(subset=Subset.parse("2/2"), resume=tmp_path / "state") == []
    assert apart() == []
    assert apart(subset=Subset.parse("1/2"), level="quick") == []


def test_a_commit_log_alone_is_checked_alone(store_dir: Directory) -> None:
    report = check(store_dir("4.9.8-basic") / "commitlog")
    assert report.exit_code == 0
    assert not {"XR002", "XR031", "CP006"} & set(report.counts)
    assert any("a directory of commit log files" in item.reason for item in report.not_checked)
    whole = check(store_dir("4.9.8-basic"))
    assert not any("a directory of commit log files" in item.reason for item in whole.not_checked)


def test_a_file_that_goes_away_is_said_and_the_rest_is_checked(store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    store = open_store(root)
    gone = sorted((root / "commitlog").iterdir())[1]
    gone.unlink()
    report = check_store(store, CheckOptions(now_timestamp=NOW))
    assert report.exit_code & 8
    (entry,) = [item for item in report.not_checked if item.operational]
    assert entry.what == f"commitlog/{gone.name}"
    assert report.coverage.done_count == report.coverage.task_count - 1
    assert report.checked["commitlog"].file_count == 4


@pytest.mark.parametrize("what", ["checkpoint", "config/topics.json", "lock"])
def test_small_files_that_go_away_are_said(store_copy: Directory, what: str) -> None:
    root = store_copy("4.9.8-basic")
    store = open_store(root)
    (root / what).unlink()
    report = check_store(store, CheckOptions(now_timestamp=NOW))
    assert [item.what for item in report.not_checked if item.operational] == [what]
    assert report.exit_code == 8


def test_an_error_in_the_driver_is_operational(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[Finding]:
        yield Finding("ST021", Where(), {"root": "x"})
        raise StoreError("went away")

    monkeypatch.setattr("rocketfsck.verify.run.check_layout", fail)
    report = check(damaged)
    assert report.exit_code == 12
    assert [item.reason for item in report.not_checked if item.operational] == ["went away"]
    assert report.counts["ST021"] == 1


def test_what_is_listed_and_not_read_is_said(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.checkpoint()
    maker.file("transaction/redolog", b"x")
    report = check(maker.root)
    assert [item.what for item in report.not_checked] == ["transaction"]
    assert all("this version does not check the content" in item.reason for item in report.not_checked)
    assert report.exit_code == 0


def test_unreadable_entries_are_operational(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-basic"))
    stray = Stray(store.root / "index", "index", StrayReason.UNREADABLE, "index", 0, "Permission denied")
    report = check_store(dataclasses.replace(store, strays=(stray,)), CheckOptions(now_timestamp=NOW))
    assert report.exit_code == 8
    assert [(item.what, item.reason) for item in report.not_checked] == [("index", "Permission denied")]


def test_the_clock_is_used_where_none_is_given(store_dir: Directory) -> None:
    report = check_store(open_store(store_dir("4.9.8-basic")))
    assert report.started_timestamp > NOW
    assert report.exit_code == 0


def test_wrong_names_are_usage_errors_before_anything_is_read(damaged: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check(damaged, select=("nothing",))
    with pytest.raises(UsageError):
        check(damaged, baseline=tmp_path / "none")


def test_the_package_gives_its_public_names_and_no_others() -> None:
    assert public.check_store is check_store
    assert public.CheckOptions is CheckOptions
    with pytest.raises(AttributeError):
        public.nothing  # noqa: B018
    assert "rocketfsck.verify.run" in sys.modules
