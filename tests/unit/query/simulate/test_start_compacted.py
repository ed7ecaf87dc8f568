"""What a start makes of compacted logs: a store of a 5.5.0 broker, damaged, and what that broker's code did.

The code of 5.5.0 was run over the same copies: `load` gave what `loads` says, and the queue answered a pull
or did not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store

from tests.conftest import Directory

LOG, UNITS = "compaction/compactionLog/KeptCompact/0", "compaction/compactionCq/KeptCompact/0"
FIRST, SECOND = f"{0:020d}", f"{55200:020d}"


def start_of(root: Path, version: str = "5.5.0") -> Start:
    return simulate_start(open_store(root), version)


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda root: os.truncate(root / name, size)


def zeros(name: str, pos: int = 0) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        data = (root / name).read_bytes()
        (root / name).write_bytes(data[:pos] + bytes(len(data) - pos))

    return run


REFUSED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no log file": (
        lambda root: (root / LOG / FIRST).unlink(),
        f"{UNITS}/{FIRST}",
        "consumeQueue file mismatch with log file",
    ),
    "no unit file": (
        lambda root: (root / UNITS / FIRST).unlink(),
        f"{LOG}/{FIRST}",
        "log file mismatch with consumeQueue file",
    ),
    "a log file that was to be deleted": (
        lambda root: shutil.copy(root / LOG / FIRST, root / LOG / f"{FIRST}.delete"),
        f"{LOG}/{FIRST}.delete",
        f'exception: For input string: "{FIRST}.delete"',
    ),
    "a unit file that was to be deleted": (
        lambda root: shutil.copy(root / UNITS / FIRST, root / UNITS / f"{FIRST}.delete"),
        f"{UNITS}/{FIRST}.delete",
        f'exception: For input string: "{FIRST}.delete"',
    ),
    "an empty last log file": (cut(f"{LOG}/{SECOND}", 0), f"{UNITS}/{SECOND}", "mismatch with log file"),
}
NOT_SERVED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory of units": (lambda root: shutil.rmtree(root / UNITS), LOG),
    "no directory of the log": (lambda root: shutil.rmtree(root / LOG), UNITS),
    "a short log file": (cut(f"{LOG}/{SECOND}", 20_000), f"{LOG}/{SECOND}"),
    "a short unit file": (cut(f"{UNITS}/{SECOND}", 4_000), f"{UNITS}/{SECOND}"),
    "units of zeros": (zeros(f"{UNITS}/{SECOND}"), f"{LOG}/{SECOND}"),
    "fewer units than records": (zeros(f"{UNITS}/{SECOND}", 46 * 10), f"{LOG}/{SECOND}"),
}


@pytest.mark.parametrize("version", ["5.1.0", "5.1.1", "5.5.0"])
def test_a_sound_store_loses_nothing(version: str, real_dir: Directory) -> None:
    start = start_of(real_dir("5.5.0-compaction"), version)
    assert (start.loads, start.ignored) == (True, ())


@pytest.mark.parametrize("name", REFUSED)
def test_a_broker_does_not_start(name: str, real_copy: Directory) -> None:
    root = real_copy("5.5.0-compaction")
    damage, file, why = REFUSED[name]
    damage(root)
    (refusal,) = start_of(root).refusals
    assert refusal.file == file
    assert why in refusal.reason
    assert start_of(root, "5.0.0").loads
    conf = root.parent / "broker.conf"
    conf.write_text("enableCompaction=false\n")
    assert simulate_start(open_store(root, broker_conf=conf), "5.5.0").loads


@pytest.mark.parametrize("name", NOT_SERVED)
def test_a_queue_is_not_served_or_loses_its_end(name: str, real_copy: Directory) -> None:
    root = real_copy("5.5.0-compaction")
    damage, file = NOT_SERVED[name]
    damage(root)
    start = start_of(root)
    assert (start.loads, start.harmful) == (True, True)
    assert [item.file for item in start.ignored] == [file]


def test_a_wrong_length_is_fatal_for_the_first_version(real_copy: Directory) -> None:
    root = real_copy("5.5.0-compaction")
    cut(f"{LOG}/{SECOND}", 20_000)(root)
    (refusal,) = start_of(root, "5.1.0").refusals
    assert "load log exception" in refusal.reason
    assert start_of(root, "5.1.1").loads


def test_nothing_of_a_compacted_topic(real_copy: Directory) -> None:
    root = real_copy("5.5.0-compaction")
    shutil.rmtree(root / "compaction")
    assert [item.file for item in start_of(root).ignored] == [
        "consumequeue/KeptCompact/0",
        "consumequeue/KeptCompact/1",
    ]


def test_a_log_file_that_no_unit_reaches_is_deleted(real_copy: Directory) -> None:
    root = real_copy("5.5.0-compaction")
    shutil.copy(root / LOG / SECOND, root / LOG / f"{55200 + 27600:020d}")
    assert [item.file for item in start_of(root).files if item.change == "deleted"] == [
        f"{LOG}/{55200 + 27600:020d}"
    ]
