"""Report pages on Spark: a survey of a store's files is the same, wherever they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketfsck.common.documents import to_document
from rocketfsck.engine.spark import SparkEngine

from tests.conftest import Directory
from tests.pagesamples import checked_page, damaged_copy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_page_is_the_same_on_spark(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    root = damaged_copy(store_dir("5.3.3-multiseg"), tmp_path / "store")
    here, there = checked_page(root), checked_page(root, SparkEngine(spark))
    assert there.map.damage.file
    assert to_document(replace(there, seconds=0.0)) == to_document(replace(here, seconds=0.0))
