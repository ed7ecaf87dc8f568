"""Predicted starts against real ones: damaged stores, with and without `abort`, under the real code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.query.serving.broker import BrokerView
from rocketfsck.store import open_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import NIGHTLY, Directory, Document
from tests.oracle.broker import VERSIONS, Answer, Job, Key, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.manifests import batch_topics_of, geometry_of, live_of, settings_of, whole_answers
from tests.oracle.starts import Predicted, differences, predict, write_conf

pytestmark = pytest.mark.oracle

STORES = {
    "4.4.0": "4.4.0-multiseg",
    "4.9.8": "4.9.8-multiseg",
    "5.1.4": "5.1.3-basic",
    "5.3.3": "5.3.3-multiseg",
    "5.4.0": "5.3.3-multiseg",
    "5.5.0": "5.3.3-multiseg",  # an upgrade
}
"""By the version that starts: the store that is damaged."""
NEWEST = "5.3.3-multiseg"

FAULTS = (
    "torn-tail", "boundary-lost", "blank-early", "stale-tail", "garbage-tail", "physical-offset", "body-flip",
    "record-malformed", "sys-flag", "negative-field", "queue-offset-repeated", "missing-segment",
    "segment-renamed", "short-segment", "empty-segment", "stray-file", "commitlog-gone", "zero-segment",
    "first-segment-missing", "queue-behind", "dangling-tail", "unit-order", "queue-hole", "queue-shift",
    "partial-unit", "empty-last-file", "unit-invalid", "missing-queue", "missing-all-queues", "ghost-queue",
    "kind-twice", "index-truncated", "index-ahead", "index-gone", "empty-files", "checkpoint-zeroed",
    "checkpoint-future", "bit-flip:area=commitlog", "zero-page:area=commitlog",
    "torn-write:area=consumequeue",
)  # fmt: skip
SETTINGS = ("messageDelayLevel", "flushDiskType")


@dataclass(frozen=True, slots=True)
class Case:
    version: str
    fault: str
    seed: int
    abort: bool

    def __str__(self) -> str:
        return f"{self.version}-{self.fault}-{self.seed}-{'killed' if self.abort else 'stopped'}"


CASES = [
    Case(version, fault, seed, abort)
    for place, version in enumerate(VERSIONS)
    for seed, fault in enumerate(FAULTS)
    for abort in (False, True)
    if NIGHTLY or (place + seed + 2 * abort) % (2 * len(VERSIONS)) < 1
]
"""By day a fault meets one version with `abort` or without; nightly all with both."""

KeyAnswers = dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]
"""What the index gives for a key, and which messages a query returns, by physical offset."""
Outcome = tuple[Predicted, Answer | None, Path, KeyAnswers]


def key_answers(root: Path, version: str, conf: Path, keys: Iterable[Key]) -> KeyAnswers:
    """The answers of a broker that has started on a store; none where it does not start."""
    with BrokerView(open_store(root, broker_conf=conf), version, state="started") as view:
        try:
            return {
                (topic, key): (
                    view.index_query_offset(topic, key).offsets, view.query_message(topic, key)
                )
                for topic, key in keys
            }  # fmt: skip
        except StoreError:
            return {}


@pytest.fixture(scope="module")
def outcome(
    needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Case], Outcome | None]:
    """Runs all cases of a version at once: the prediction, what the real code said, what it left."""
    place = tmp_path_factory.mktemp("starts")

    @cache
    def of_version(version: str) -> dict[Case, Outcome]:
        needs_broker(version)
        name = STORES.get(version, NEWEST)
        document = manifest(name)
        live = live_of(document)
        keys = sorted(whole_answers(live, "indexQueryOffset")) if live is not None else []
        conf = write_conf(document, place / f"{version}.conf")
        predicted: dict[Case, tuple[Predicted, Path, KeyAnswers]] = {}
        for case in CASES:
            if case.version == version:
                root = place / str(case).replace("/", "-").replace(":", "-")
                try:
                    damage_store(
                        store_dir(name), root, [case.fault], case.seed, broker_conf=conf, write_truth=False
                    )
                except UsageError:  # the store has no place for this fault
                    continue
                if case.abort:
                    (root / "abort").touch()
                start = predict(root, version, conf)
                asked = {} if start.hangs else key_answers(root, version, conf, keys)
                predicted[case] = start, root, asked
        chosen = [case for case, (start, _, _) in predicted.items() if not start.hangs]
        settings = {key: value for key, value in settings_of(document).items() if key in SETTINGS}
        jobs = [
            Job(
                predicted[case][1],
                geometry_of(document),
                keys=tuple(keys),
                batch_topics=batch_topics_of(document),
                settings=settings,
            )
            for case in chosen
        ]
        answers = dict(zip(chosen, run_jobs(version, jobs), strict=True))
        return {
            case: (start, answers.get(case), root, asked) for case, (start, root, asked) in predicted.items()
        }

    return lambda case: of_version(case.version).get(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_real_start_is_as_predicted(case: Case, outcome: Callable[[Case], Outcome | None]) -> None:
    found = outcome(case)
    if found is None:
        pytest.skip("the store has no place for this fault")
    predicted, answer, root, _ = found
    if answer is None:
        pytest.skip(f"it never ends: {predicted.start.refusals[0].reason}")
    assert differences(predicted, answer, root) == []
    shutil.rmtree(root)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_keys_are_answered_as_predicted(case: Case, outcome: Callable[[Case], Outcome | None]) -> None:
    found = outcome(case)
    if found is None or found[1] is None or (state := found[1].before) is None:
        pytest.skip("nobody answers")
    predicted = found[3]
    assert predicted.keys() == state.keys.keys()
    for key, (indexed, served) in predicted.items():
        answer = state.keys[key]
        assert (key, indexed) == (key, answer.indexed)
        assert (key, len(served)) == (key, len(answer.served)), (indexed, served, answer)
        if case.fault != "physical-offset":  # the harness reads the field, where the record itself is served
            pairs = zip(served, answer.served, strict=True)
            assert all(other in (-1, offset) for offset, other in pairs), key
