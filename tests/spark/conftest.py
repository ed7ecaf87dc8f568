"""One embedded Spark session for all tests here; without pyspark they are skipped with the reason."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'rocketfsck[spark]'")
    from rocketfsck.engine.spark import open_session

    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # kernels of tests are found by workers, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own sockets and subprocesses
        session = open_session("local[2]")
        yield session
        session.stop()
