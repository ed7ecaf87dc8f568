"""The table of named faults: each is declared once, above the function that does it."""

from __future__ import annotations

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.writer.damage import DAMAGES, DamageError, find_damage
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import Act, Change, DamageReport, Promise, PromisedPlace
from rocketfsck.writer.damage.run import MODULES, build_table


def test_a_fault_is_named_by_its_function_and_told_by_its_docstring() -> None:
    @damage("C1", RuleName.LOG_TORN_TAIL, "a record", RuleName.RECORD_MALFORMED, options={"at": "where"})
    def torn_twice(job: Job) -> None:
        """The last record was
        torn twice.

        What else there is to say is for readers of the code.
        """
        job.note = "torn"

    assert (torn_twice.name, torn_twice.fault_class) == ("torn-twice", "C1")
    assert torn_twice.summary == "the last record was torn twice"
    assert list(torn_twice.causes) == ["CL002"]
    assert list(torn_twice.may_also) == ["CL003"]
    assert (torn_twice.needs, torn_twice.options, torn_twice.alone) == ("a record", {"at": "where"}, False)


def test_names_that_are_not_utf_8_have_their_bytes_in_the_report() -> None:
    place, change = PromisedPlace(file="index/\udcff"), Change("write", "index/\udcff")
    act = Act("f", None, {}, "note", "", (change,), (Promise(("IX001",), place),), frozenset())
    said = DamageReport("a", "b\udcff", 0, (act,)).to_json()
    assert (said["source"], said["target_b64"]) == ("a", "Yv8=")
    (made,) = said["acts"]
    assert made["changes"][0]["file_b64"] == "aW5kZXgv/w=="
    assert made["must_find"][0]["where"] == {"file_b64": "aW5kZXgv/w=="}


def test_every_module_has_faults_and_every_fault_a_line() -> None:
    for module in MODULES:
        assert any(fault.apply.__module__ == module.__name__ for fault in DAMAGES.values())
    assert len(DAMAGES) >= 125
    stated = [fault.summary for fault in DAMAGES.values()]
    assert len(set(stated)) == len(stated)
    assert [text for text in stated if not text or text.endswith(".") or len(text) > 80] == []


def test_a_name_is_used_once() -> None:
    with pytest.raises(ValueError, match="two faults have the name torn-tail"):
        build_table([DAMAGES["torn-tail"], DAMAGES["torn-tail"]])


def test_a_name_that_is_no_fault_is_answered_by_the_nearest() -> None:
    with pytest.raises(DamageError, match="did you mean 'torn-tail'"):
        find_damage("torn-tale")
