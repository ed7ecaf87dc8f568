"""Commit log files that are there twice: as copies under other names, or at the end of other files."""

from __future__ import annotations

import shutil

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.arguments import FileParts
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.verdict import judge_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.report import Report

from tests.unit.repair.repairs.conftest import Patient, Patients, bad, names

STORE = "4.9.8-multiseg"


def logs_of(sick: Patient) -> list[str]:
    """The names of the commit log files, in order."""
    return sorted(path.name for path in sick.file("commitlog").iterdir())


def copy_as_next(sick: Patient, original: str) -> str:
    """Copy a commit log file under the next name; gives that."""
    files = logs_of(sick)
    size = sick.file(f"commitlog/{files[0]}").stat().st_size
    name = f"{int(files[-1]) + size:020}"
    shutil.copy2(sick.file(f"commitlog/{original}"), sick.file(f"commitlog/{name}"))
    return name


def found_above_info(report: Report) -> dict[str, int]:
    return {rule: n for rule, n in report.counts.items() if report.severity_of(rule) > Severity.INFO}


@pytest.mark.parametrize("name", [STORE, "5.3.3-multiseg", "4.4.0-multiseg"])
def test_a_copy_is_one_finding_and_goes(name: str, patient: Patients) -> None:
    sick = patient(name)
    first, *_ = logs_of(sick)
    copy = copy_as_next(sick, first)
    report = sick.check()
    assert found_above_info(report) == {"ST054": 1}
    (finding,) = [item for item in report.findings if item.rule == "ST054"]
    assert (finding.where.file, finding.where.physical_offset) == (f"commitlog/{copy}", int(copy))
    assert finding.found["original"] == f"commitlog/{first}"
    assert [item.fault_class for item in report.diagnoses] == ["C6"]
    assert report.account is not None and report.account.count("lost") == 0
    assert judge_store(sick.open(), report).state == "damaged"
    plan, after = sick.mend()
    assert names(plan) == ["move-copied-segment"] and plan.actions[0].preen
    assert not bad(after) and sick.aside() == {f"commitlog/{copy}"}


def test_several_copies_and_empty_files_after_them(patient: Patients) -> None:
    sick = patient(STORE)
    first, second, *_ = logs_of(sick)
    copies = [copy_as_next(sick, first), copy_as_next(sick, second)]
    with sick.file(f"commitlog/{copy_as_next(sick, first)}").open("r+b") as stream:
        size = stream.seek(0, 2)
        stream.truncate(0)
        stream.truncate(size)
    report = sick.check()
    assert found_above_info(report) == {"ST054": 2}
    plan, after = sick.mend()
    assert names(plan) == ["move-copied-segment"] * 3
    assert not bad(after) and len(sick.aside()) == 3
    assert {f"commitlog/{copy}" for copy in copies} < sick.aside()


def test_a_copy_that_records_follow_stays(patient: Patients) -> None:
    """The copy took the place of a file in the middle: what was there is lost, and the place is needed."""
    sick = patient(STORE)
    first, second, *_ = logs_of(sick)
    shutil.copy2(sick.file(f"commitlog/{first}"), sick.file(f"commitlog/{second}"))
    report = sick.check()
    assert report.counts["ST054"] == 1
    assert not any(
        item.where.file == f"commitlog/{second}" for item in report.findings if item.rule != "ST054"
    )
    assert report.account is not None and report.account.count("lost") > 0
    plan = sick.plan()
    assert "move-copied-segment" not in names(plan)
    (left,) = [item for item in plan.unanswered if item.rule == "ST054"]
    assert "the log continues after the copy" in left.reason


def test_a_file_that_differs_from_the_one_it_came_from_is_no_copy(patient: Patients) -> None:
    sick = patient(STORE)
    first, *_ = logs_of(sick)
    copy = copy_as_next(sick, first)
    sick.put(f"commitlog/{copy}", 5000, b"\x55" * 32)
    report = sick.check()
    assert "ST054" not in report.counts and report.counts["CL006"]
    assert "move-copied-segment" not in names(sick.plan())


def test_a_file_under_its_own_name_is_no_copy(patient: Patients) -> None:
    assert "ST054" not in patient(STORE).check().counts


def append(sick: Patient, to: int, *numbers: int) -> tuple[str, list[bytes]]:
    """Append files to another one, all by their numbers; gives its name, and what all files held."""
    files = logs_of(sick)
    contents = [sick.file(f"commitlog/{name}").read_bytes() for name in files]
    with sick.file(f"commitlog/{files[to]}").open("ab") as stream:
        for number in numbers:
            stream.write(contents[number])
    return f"commitlog/{files[to]}", contents


def mended_logs(sick: Patient) -> list[bytes]:
    return [path.read_bytes() for path in sorted(sick.mended("commitlog").iterdir())]


@pytest.mark.parametrize(
    ("to", "numbers"), [(1, (2,)), (0, (4,)), (3, (1, 2)), (-1, (0,))], ids=["next", "later", "two", "last"]
)
def test_appended_files_that_are_there_are_cut_off(
    to: int, numbers: tuple[int, ...], patient: Patients
) -> None:
    sick = patient(STORE)
    sound = sick.check()
    name, contents = append(sick, to, *numbers)
    report = sick.check()
    assert found_above_info(report) == {"ST001": 1, "ST056": 1}
    (finding,) = [item for item in report.findings if item.rule == "ST056"]
    assert (finding.where.file, finding.found["file_count"]) == (name, len(numbers))
    assert report.account == sound.account
    plan, after = sick.mend()
    assert names(plan) == ["split-segment"] and plan.actions[0].preen and not plan.unanswered
    assert not bad(after) and mended_logs(sick) == contents


@pytest.mark.parametrize(("to", "number"), [(1, 2), (2, 0), (0, 3)], ids=["next", "earlier", "later"])
def test_an_appended_file_that_is_missing_gets_its_name(to: int, number: int, patient: Patients) -> None:
    sick = patient(STORE)
    files = logs_of(sick)
    name, contents = append(sick, to, number)
    sick.file(f"commitlog/{files[number]}").unlink()
    report = sick.check()
    assert report.counts["ST056"] == 1
    plan, after = sick.mend()
    assert names(plan) == ["split-segment"] and plan.actions[0].preen
    assert not bad(after) and mended_logs(sick) == contents
    assert sick.mended(name).stat().st_size == len(contents[to])


def test_appended_bytes_that_are_no_other_file_stay(patient: Patients) -> None:
    sick = patient(STORE)
    name, contents = append(sick, 1, 2)
    sick.put(name, len(contents[1]) + 5000, b"\x55" * 16)
    report = sick.check()
    assert report.counts["ST001"] == 1 and "ST056" not in report.counts
    assert "split-segment" not in names(sick.plan())


def test_a_name_that_is_taken_is_not_given_twice(patient: Patients) -> None:
    sick = patient(STORE)
    files = logs_of(sick)
    append(sick, 1, 2)
    sick.file(f"commitlog/{files[2]}").unlink()
    sick.file(f"commitlog/{files[2]}").symlink_to("nowhere")
    plan = sick.plan()
    assert "split-segment" not in names(plan)
    (left,) = [item for item in plan.unanswered if item.rule == "ST056"]
    assert "move that file away first" in left.reason


def test_a_file_that_is_not_as_the_plan_says_is_not_split(patient: Patients) -> None:
    sick = patient(STORE)
    name, contents = append(sick, 1, 2)
    size = len(contents[1])
    for parts in (FileParts(size, ()), FileParts(size, ("commitlog/other",)), FileParts(0, ("", ""))):
        with pytest.raises(StoreError, match="no longer has"):
            sick.act(Action("split-segment", name, "", parts))


def test_messages_of_a_file_that_is_overwritten_by_a_copy_of_another_are_lost(patient: Patients) -> None:
    sick = patient("5.3.3-multiseg")
    files = sorted(path.name for path in sick.file("commitlog").iterdir())
    before = sick.check().account
    sick.file(f"commitlog/{files[1]}").write_bytes(sick.file(f"commitlog/{files[0]}").read_bytes())
    after = sick.check().account
    assert before is not None and after is not None
    assert after.count("lost", "certain") == after.lost_count > 100
    assert after.lost_count == before.fates.served_count - after.fates.served_count
