"""The simulated fleet: the real planner on stores that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketfsck.pipeline.fleet import stages

from benchmarks.fleet import GIB, TIB, Described, Machines, Rates, made_up, simulate

CLUSTER = Machines(cores=64)


def test_the_fleet_has_the_size_that_was_asked_for() -> None:
    stores = made_up(200, 100 * TIB)
    assert len(stores) == 200
    assert 0.9 < sum(store.byte_count for store in stores) / (100 * TIB) < 1.2
    assert made_up(200, 100 * TIB) == stores
    assert sum(stores[0].weights()) > stores[0].byte_count


def test_no_time_is_less_than_the_work_and_cores_are_busy() -> None:
    stores = made_up(50, 100 * TIB)
    found = simulate(stores, CLUSTER)
    work = sum(sum(store.weights()) for store in stores) / GIB * Rates().byte_seconds
    assert work < found.work_seconds < 1.05 * work
    assert found.seconds >= found.work_seconds / CLUSTER.cores
    assert found.busy > 0.9
    assert found.task_count < sum(len(store.weights()) for store in stores)
    assert found.dollars_a_tib > 0


def test_small_stores_are_a_task_each() -> None:
    found = simulate([Described(1, 32, 1)] * 300, CLUSTER)
    assert (found.task_count, found.group_count) == (300, 0)
    assert found.held_size == 0


def test_what_the_driver_holds_does_not_grow_with_stores() -> None:
    stores = made_up(400, 400 * 8 * TIB)
    held = {count: simulate(stores[:count], CLUSTER).held_size for count in (10, 400)}
    assert held[400] <= 1.5 * held[10]
    assert held[400] <= stages.HELD_SIZE


def test_the_driver_is_the_limit_of_a_task_for_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, many = made_up(20, 100 * TIB), Machines(cores=4096)
    shared = simulate(stores, many)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 1)
    monkeypatch.setattr(stages, "MOST_WEIGHT", 1)
    plain = simulate(stores, many)
    monkeypatch.undo()
    assert plain.task_count > 100_000 > shared.task_count
    assert plain.driver_seconds > shared.driver_seconds
    slow = simulate(stores, replace(many, link_rate=1e9))
    assert slow.seconds > shared.seconds
