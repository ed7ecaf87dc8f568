"""The comparison of verdicts and truth by itself: no broker is asked."""

from __future__ import annotations

import pytest

from rocketfsck.query.start.verdict import StartVerdict

from tests.oracle.handmade import DAMAGES
from tests.oracle.verdicts import Fit, Message, Truth, confusion, differences, fit_of

ONE: Message = (("T", 0), (0, 100, "a"))
TWO: Message = (("T", 0), (100, 100, "b"))
BOTH = frozenset({ONE, TWO})
HARMLESS = Truth(BOTH, frozenset({ONE}), BOTH)
TAKES = Truth(BOTH, BOTH, frozenset({ONE}))
DESTROYS = Truth(BOTH, frozenset({ONE}), frozenset({ONE}), frozenset({"b"}))
REFUSED = Truth(BOTH, BOTH, None)


@pytest.mark.parametrize(
    ("may_start", "truth", "fit"),
    [
        (True, HARMLESS, "right"),
        (True, TAKES, "rosier"),
        (True, DESTROYS, "rosier"),
        (True, REFUSED, "rosier"),
        (False, HARMLESS, "darker"),
        (False, TAKES, "right"),
        (False, REFUSED, "right"),
        (None, TAKES, "unsaid"),
    ],
)
def test_a_first_line_fits_what_happened(may_start: bool | None, truth: Truth, fit: Fit) -> None:
    assert fit_of(may_start, truth) == fit


def test_a_stop_is_not_too_dark_where_the_start_takes_something_else() -> None:
    assert fit_of(False, HARMLESS, takes_more=True) == "right"
    assert fit_of(True, TAKES, takes_more=True) == "rosier"


def test_numbers_are_compared() -> None:
    start = StartVerdict("5.3.3", (), covered=True, loads=True, cut_count=1)
    assert differences(start, TAKES) == []
    assert differences(start, HARMLESS) == ["taken: said 1, was 0"]
    assert differences(start, REFUSED) == ["loads: said True, was False"]
    assert differences(StartVerdict("5.3.3", (), covered=False, loads=False), TAKES) == []


def test_confusion_counts_what_was_said_by_what_happened() -> None:
    table = confusion([("lost", "takes"), ("lost", "takes"), ("healthy", "harmless")]).splitlines()
    assert [line.split() for line in table[1:]] == [["healthy", "1", "0", "0"], ["lost", "0", "2", "0"]]


def test_there_are_many_damages() -> None:
    assert len(DAMAGES) >= 40
