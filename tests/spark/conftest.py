"""What all tests here share: one embedded Spark session, one cluster; both made when a test wants them.

Without pyspark they are skipped with the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketfsck.cli.app import run

from tests.spark.cluster import QUICK_JAVA, Cluster, standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = "pyspark is not installed: pip install 'rocketfsck[spark]'"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    pytest.importorskip("pyspark", reason=NO_SPARK)
    from rocketfsck.engine.spark import open_session

    places = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))  # workers find kernels of tests, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own sockets and subprocesses
        session = open_session("local[2]", conf={"spark.driver.defaultJavaOptions": QUICK_JAVA})
        yield session
        session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone master and two workers of one core each, in processes of their own."""
    pytest.importorskip("pyspark", reason=NO_SPARK)
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def many_segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 16 segments, some of which are damaged, one missing, one no log at all. Never alter it."""
    root = tmp_path_factory.mktemp("many") / "store"
    sizes = ["--size", "12MiB", "--commitlog-file-size", "768KiB", "--slots", "5000", "--entries", "20000"]
    options = ["--synth", "mixed", *sizes, "--no-sync", "--manifest", "none"]
    assert run(["write", *options, "--into", str(root)]) == 0
    segments = sorted((root / "commitlog").iterdir())
    for segment in segments[2:12:3]:
        with segment.open("r+b") as file:
            for pos in range(5000, 768 << 10, 150_007):
                file.seek(pos)
                file.write(b"\xda\xa3\x20\xa7" * 16)
    segments[4].write_bytes(bytes(range(256)) * 3072)
    segments[9].unlink()
    (root / "index").iterdir().__next__().write_bytes(b"\xff" * 4096)
    return root
