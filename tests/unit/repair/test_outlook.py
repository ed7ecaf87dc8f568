"""The states of the account: the same messages now, after a start, after a plan."""

from __future__ import annotations

import pytest

from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.plan.model import Action, Loss, Notice
from rocketfsck.repair.state import after_start, fates_after, planned_fates
from rocketfsck.verify.finding import FateCount, Fates, MessageAccount

NOW = Fates(
    served_count=100,
    unreached_count=20,
    damaged_count=3,
    lost_count=5,
    perhaps_lost_count=2,
    replaced_count=1,
    removed_count=4,
)


def start(**counts: int) -> StartVerdict:
    return StartVerdict("5.3.3", ("5.3.3",), covered=True, loads=True, **counts)  # type: ignore[arg-type]


def test_an_account_gives_its_fates() -> None:
    account = MessageAccount(
        (
            FateCount("served", "unit leads to it", "certain", 7),
            FateCount("lost", "missing file", "certain", 2),
            FateCount("lost", "index entry", "at least", 3),
            FateCount("lost", "checkpoint", "perhaps", 1),
        )
    )
    assert account.fates == Fates(served_count=7, lost_count=5, perhaps_lost_count=1)
    assert account.fates.total_count == 13


def test_a_start_that_takes_nothing_changes_nothing() -> None:
    assert after_start(NOW, start(reached_count=103, cut_count=0)) == NOW


@pytest.mark.parametrize(
    ("counts", "served", "unreached", "lost"),
    [
        ({"reached_count": 50, "cut_count": 60}, 47, 13, 65),
        ({"reached_count": 90, "cut_count": 0, "lost_count": 13}, 87, 33, 5),
        ({"reached_count": 123, "cut_count": 0, "added_count": 20}, 120, 0, 5),
        ({"reached_count": 123, "cut_count": 0, "added_count": 4}, 104, 16, 5),
        ({"reached_count": 100, "astray_count": 20}, 97, 3, 25),
    ],
    ids=["cuts", "hides", "dispatches again", "fills no hole", "deletes files"],
)
def test_what_a_start_does_is_counted_among_the_same_messages(
    counts: dict[str, int], served: int, unreached: int, lost: int
) -> None:
    found = after_start(NOW, start(**counts))
    assert found is not None
    assert found.total_count == NOW.total_count
    assert (found.served_count, found.unreached_count, found.lost_count) == (served, unreached, lost)


def test_a_start_that_nobody_counted_has_no_state() -> None:
    assert after_start(NOW, start()) is None
    refused = StartVerdict("5.3.3", ("5.3.3",), covered=True, loads=False)
    assert after_start(NOW, refused) is None


def test_what_a_check_finds_no_more_is_lost() -> None:
    found = fates_after(NOW, Fates(served_count=121, damaged_count=2, replaced_count=4))
    assert found.total_count == NOW.total_count
    assert (found.lost_count, found.perhaps_lost_count) == (6, 2)


def test_messages_that_came_from_elsewhere_are_more() -> None:
    found = fates_after(NOW, Fates(served_count=150))
    assert (found.served_count, found.lost_count, found.total_count) == (150, 0, 150)


def test_a_plan_that_was_not_tried_is_what_its_actions_say() -> None:
    actions = [
        Action("rebuild-queue", "consumequeue/T/0", "", gains={"record": 20}),
        Action("flip-bit", "commitlog/0", "", gains={"record": 1}),
        Action("salvage-log", "commitlog/0", "", notices=(Notice("fillers-delivered", 4),)),
        Action("cut-log", "commitlog/1", "", losses=(Loss("record", 2, valid=False), Loss("record", 1))),
    ]
    found = planned_fates(NOW, actions)
    assert found.total_count == NOW.total_count
    assert (found.unreached_count, found.damaged_count, found.replaced_count) == (0, 2, 5)
    assert (found.served_count, found.lost_count) == (120, 2)
