"""Files of timers and databases that are gone once the store is open, and timer units of other records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.dtypes import TIMER_UNIT_DTYPE
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.formats.timer import TIMER_LOG_UNIT_SIZE, TIMER_TOPIC
from rocketfsck.store import open_store
from rocketfsck.verify.databases.messages import check_database_files
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.timers import check_timers

from tests.conftest import Directory

NOW = 1_900_000_000_000
LOG = "timerlog/" + offset_to_filename(0)


@pytest.mark.parametrize("file", ["CURRENT", "MANIFEST-000005", "000004.log"])
def test_a_database_file_that_vanishes_is_no_finding(file: str, real_copy: Directory) -> None:
    """A broker removes files of its databases while it runs: what was listed may be gone."""
    root = real_copy("5.5.0-rocksdb-cq")
    store = open_store(root)
    assert list(check_database_files(store)) == []
    (root / "consumequeue" / file).unlink()
    (item,) = check_database_files(store)
    assert isinstance(item, NotChecked)
    assert (item.what, item.operational) == ("consumequeue", True)
    assert file in item.reason


def test_a_timer_log_that_vanishes_is_no_finding(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    context = Context(open_store(root), "full", NOW)
    (root / LOG).unlink()
    (item,) = (item for item in check_timers(context, None) if isinstance(item, NotChecked))
    assert item.operational
    assert LOG in item.reason


def _last_unit(root: Path) -> tuple[int, int]:
    """The physical offset and the size of the record that the timer log's last unit is of: it still waits."""
    data = (root / LOG).read_bytes()
    rows = np.frombuffer(data, TIMER_UNIT_DTYPE, len(data) // TIMER_LOG_UNIT_SIZE)
    last = rows[np.count_nonzero(rows["size"]) - 1]
    return int(last["offsetPy"]), int(last["sizePy"])


def test_a_unit_of_a_record_of_another_topic(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    offset, size = _last_unit(root)
    log = root / "commitlog" / offset_to_filename(0)
    with log.open("r+b") as stream:
        stream.seek(offset)
        record = stream.read(size)
        at = record.index(TIMER_TOPIC.encode())
        stream.seek(offset + at)
        stream.write(b"R")
    context = Context(open_store(root), "full", NOW)
    found = [
        item
        for item in check_timers(context, None)
        if isinstance(item, Finding) and item.where.physical_offset == offset
    ]
    topics = [item for item in found if item.found.get("field") == "topic"]
    assert len(topics) == 1
    assert topics[0].rule == "TM013"
    assert topics[0].found["value"] == "R" + TIMER_TOPIC[1:]
    assert topics[0].expected == {"value": TIMER_TOPIC}
