"""A store that was written is a sound one: a full check of it finds nothing above info.

A killed broker leaves what a kill leaves, and a check says so: the tables of rules below are all that it may.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Severity, check_store, describe, find_rule
from rocketfsck.writer import EndState, Event, Restart, WriteOptions, write_store

from tests.property.writer_strategies import START_TIME, broker_conf, stores

OF_A_KILL = {
    "CP001": "abort is there",
    "CP003": "the index file that was not full will be deleted",
    "CP005": "nothing was flushed yet, or long ago: the recovery scans the whole log",
    "CP017": "the checkpoint was never flushed",
}
OF_A_RESTART = {
    "XR020": "the index file that was not full is deleted; what the recovery does not reach stays out",
    "XR024": "a record whose keys were split over two files has some of them twice",
}
"""What a kill in between, and the start after it, leave for good."""

A_DAY = 86_400_000


def _allowed(options: WriteOptions, events: list[Event]) -> set[str]:
    allowed = set(OF_A_KILL) if options.end_state is EndState.KILLED else set()
    if any(isinstance(event, Restart) and event.killed for event in events):
        allowed |= set(OF_A_RESTART)
    return allowed


def _check(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with tempfile.TemporaryDirectory() as folder:
        root, settings_file = Path(folder) / "store", Path(folder) / "broker.conf"
        settings_file.write_text(broker_conf(options.geometry, message_index=options.message_index))
        write_store(root, events, options)
        opened = open_store(root, version=options.version, broker_conf=settings_file)
        report = check_store(opened, CheckOptions(jobs=1, now_timestamp=START_TIME + A_DAY))
        above = [finding for finding in report.findings if find_rule(finding.rule).severity > Severity.INFO]
        killed = options.end_state is EndState.KILLED
        wrong = [finding for finding in above if finding.rule not in _allowed(options, events)]
        assert not wrong, [f"{finding.rule} {finding.where.file}: {describe(finding)}" for finding in wrong]
        assert killed == any(finding.rule == "CP001" for finding in above)


@given(stores())
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_check_finds_nothing(store: tuple[WriteOptions, list[Event]]) -> None:
    _check(store)


@pytest.mark.nightly
@given(stores(events=False, max_size=60))
@settings(deadline=None, max_examples=3000, suppress_health_check=list(HealthCheck))
def test_check_finds_nothing_in_thousands(store: tuple[WriteOptions, list[Event]]) -> None:
    _check(store)
