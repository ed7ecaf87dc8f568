"""Damage of generated stores: a check finds what was promised, and nothing that it does not explain."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings

from rocketfsck.engine import LocalEngine
from rocketfsck.store import open_store
from rocketfsck.testing import breaches
from rocketfsck.testing.conformance import PlannedStore
from rocketfsck.testing.strategies import START_TIMESTAMP, PlannedDamage, damages, stores
from rocketfsck.verify import CheckOptions, check_store, describe
from rocketfsck.writer.damage import DamageError

NOW = START_TIMESTAMP + 86_400_000


def _check(planned: PlannedStore, damage: PlannedDamage) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target, conf = (Path(folder) / name for name in ("store", "copy", "broker.conf"))
        planned.write(source)
        conf.write_text(planned.broker_conf)
        try:
            report = damage.apply(source, target, version=planned.version, broker_conf=conf)
        except DamageError:
            reject()
        paths = [target / path for path in report.commitlog_paths]
        store = open_store(target, version=planned.version, broker_conf=conf, commitlog_paths=paths)
        found = check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))
        act = report.acts[0]
        missing = [
            promise
            for promise in act.must_find
            if not any(promise.is_kept_by(finding.rule, finding.where) for finding in found.findings)
        ]
        assert not missing, act.note
        unrelated = [finding for finding in breaches(found) if finding.rule not in act.related]
        assert not unrelated, (act.note, [describe(finding) for finding in unrelated])


@given(stores(config=True, min_size=3), damages())
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
def test_damage_of_any_store_is_found(planned: PlannedStore, damage: PlannedDamage) -> None:
    _check(planned, damage)


@pytest.mark.nightly
@given(stores(config=True, min_size=10, max_size=60), damages())
@settings(deadline=None, max_examples=3000, suppress_health_check=list(HealthCheck))
def test_damage_of_thousands_of_stores_is_found(planned: PlannedStore, damage: PlannedDamage) -> None:
    _check(planned, damage)
