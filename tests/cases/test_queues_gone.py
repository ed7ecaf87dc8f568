"""Stores that lost all files of a kind of queue: nothing is left that tells their size; it must be given.

Then the queues are those of the broker, and every broker that the store may be of starts with them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.plan.law import assumed_names
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory, Document

CASES = [
    ("4.9.8-killed", "consumequeue"),
    ("5.0.0-innerbatch", "batchconsumequeue"),
    ("5.0.0-innerbatch", "consumequeue"),
    ("5.3.3-killed", "consumequeue"),
    ("5.3.3-propcrc", "consumequeue"),
]
SETTING = {"consumequeue": "consumequeue_file_size", "batchconsumequeue": "batch_file_size"}


def _files(root: Path, area: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in (root / area).rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(("name", "area"), CASES)
def test_queues_whose_size_nothing_tells(
    name: str, area: str, store_copy: Directory, manifest: Document, tmp_path: Path
) -> None:
    root = store_copy(name)
    queues = _files(root, area)
    for file in queues:
        (root / file).unlink()
    rest = {file: data for part in SETTING for file, data in _files(root, part).items()}
    plan = make_plan(open_store(root), check_store(open_store(root), CheckOptions(jobs=1)))
    with pytest.raises(UsageError, match=f"the plan makes assumptions: .*{SETTING[area]}="):
        apply_plan(plan)
    assert {file: data for part in SETTING for file, data in _files(root, part).items()} == rest

    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in manifest(name)["geometry"].items()))
    store = open_store(root, broker_conf=conf)
    report = apply_plan(make_plan(store, check_store(store, CheckOptions(jobs=1))), keep=False)
    assert report.published
    assert _files(root, area) == queues
    assert report.starts and all(item.after.harmless and not item.worse for item in report.starts)
    asked = [item.before for item in report.starts if item.before is not None]
    assert asked and json.dumps(report.to_json()["starts"])


def test_queues_and_topics_that_are_gone_come_back_one_after_the_other(store_copy: Directory) -> None:
    """What topics the store has shows only once it has queues again: that is no harm of the first repair."""
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    (root / "config" / "topics.json").unlink()
    done = []
    for _ in range(2):
        store = open_store(root, settings={"mappedFileSizeConsumeQueue": "1000"})
        plan = held_plan(make_plan(store, report := check_store(store)), store, report)
        result = apply_plan(plan, assume=assumed_names(plan.actions))
        assert not result.problem and not result.refused_actions
        done.append([action.split()[0] for action in result.actions])
    assert "rebuild-queue" in done[0] and "restore-config" in done[1]
    assert check_store(open_store(root)).exit_code == 0
