"""What is known once the tasks are done, and that nothing is claimed of what was not gone through."""

from __future__ import annotations

import dataclasses

from rocketfsck.verify.tasks.task import IndexFacts, Known, LogFacts, QueueEnd, gather

from tests.unit.verify.storemaker import NOW, knowing, log_facts, queue_facts

FILES = ["commitlog/00000000000000000000", "commitlog/00000000000000004096"]


def with_ends(start: int, *ends: QueueEnd) -> LogFacts:
    facts = log_facts(start)
    return dataclasses.replace(facts, queue_ends=ends)


def test_facts_come_in_any_order_and_end_in_store_order() -> None:
    known = gather(
        [
            log_facts(4096),
            queue_facts("T", 1, 0, 3),
            IndexFacts("index/x", 0, 0, 0, 0, 0, 1, full=False),
            log_facts(0),
        ],
        FILES,
        complete=True,
    )
    assert [log.start_offset if log else None for log in known.logs] == [0, 4096]
    assert known.queues["T", 1].max_offset == 3
    assert known.complete


def test_a_missing_file_leaves_a_hole_and_no_bounds() -> None:
    known = gather([log_facts(4096)], FILES, complete=False)
    assert known.logs[0] is None
    assert known.max_store_timestamp is None
    assert known.min_store_timestamp is None
    assert known.end_offset is None


def test_bounds_of_a_whole_log() -> None:
    known = knowing(
        logs=(log_facts(0, stored=NOW - 5), log_facts(4096, stored=NOW), log_facts(8192, all_zero=True))
    )
    assert known.max_store_timestamp == NOW
    assert known.min_store_timestamp == NOW - 5
    assert known.end_offset == log_facts(4096).end_offset
    assert Known().end_offset is None
    assert Known().max_store_timestamp is None


def test_a_queues_highest_end_of_all_files_counts() -> None:
    facts = [
        with_ends(0, QueueEnd("T", 0, 5), QueueEnd("U", 0, 1)),
        with_ends(4096, QueueEnd("T", 0, 4)),
    ]
    known = gather(facts, FILES, complete=True)
    assert known.queue_ends == {("T", 0): 5, ("U", 0): 1}


def test_evidence_that_a_queue_lost_units() -> None:
    known = knowing(queue_facts("T", 0, 0, 5), queue_facts("D", 0, 0, 5, damaged=True), T=5, Gone=1)
    assert not known.lost_units("T", 0)
    assert known.lost_units("D", 0)
    assert known.lost_units("Gone", 0)
    assert not known.lost_units("Unheard", 0)
    assert knowing(queue_facts("T", 0, 0, 5), T=6).lost_units("T", 0)
    assert not knowing(logs=(None,), Gone=1).lost_units("Gone", 0)
