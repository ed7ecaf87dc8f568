"""What is rebuilt on Spark is what is rebuilt in process, byte for byte, whatever dies."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import Outcome
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.store import open_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.spark.kernels import DyingInTheEnd
from tests.unit.pipeline.rebuilding import assert_same, tree
from tests.unit.repair.build.making import make_store, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize(
    ("name", "partitions"),
    [("4.9.8-multiseg", 1), ("4.9.8-multiseg", 3), ("4.9.8-multiseg", 16), ("5.0.0-innerbatch", 3)],
)
def test_a_few_stores(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, name: str, partitions: int
) -> None:
    assert_same(open_store(store_dir(name)), tmp_path, engines=[SparkEngine(spark, partitions)])


@pytest.mark.nightly
@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(spark: SparkSession, store_dir: Directory, tmp_path: Path, name: str) -> None:
    engines = [SparkEngine(spark, count) for count in (1, 3, 16)]
    assert_same(open_store(store_dir(name)), tmp_path, engines=engines)


@pytest.mark.nightly
@pytest.mark.parametrize("name", RESTART_NAMES)
def test_stores_after_an_accident(
    spark: SparkSession, restart_dir: Directory, tmp_path: Path, name: str
) -> None:
    engines = [SparkEngine(spark, count) for count in (1, 3, 16)]
    assert_same(open_store(restart_dir(name)), tmp_path, engines=engines)


@dataclass(frozen=True)
class _DyingEngine:
    """Of every stage a worker dies in the end of a task."""

    engine: SparkEngine
    folder: Path

    @property
    def job_count(self) -> int:
        return self.engine.job_count

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert deadline is None
        yield from self.engine.run(DyingInTheEnd(kernel, self.folder), tasks)


def test_workers_that_die_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Keys go across the small index files, which go across commit log files."""
    sent = [
        message(number, "AB"[number % 2], number % 3, properties={"KEYS": "a b c" if number % 4 else ""})
        for number in range(60)
    ]
    died = tmp_path / "died"
    died.mkdir()
    done = assert_same(make_store(tmp_path, sent), tmp_path, engines=[_DyingEngine(SparkEngine(spark), died)])
    assert done.index is not None
    assert len(done.index.files) > 10
    assert sorted(path.name for path in died.iterdir()) == [
        "build_part IndexTask",
        "build_part QueueTask",
        "read_segment SegmentTask",
    ]


def test_the_command(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert spark
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    said = []
    for engine, more in (("local", []), ("spark", ["--work-dir", str(scratch)])):
        into = tmp_path / "built"
        line = ["rebuild", "all", str(store_dir("4.9.8-multiseg")), "--into", str(into), "--no-sync"]
        capfd.readouterr()
        assert run([*line, "--engine", engine, *more]) == 0
        said.append((capfd.readouterr().out, tree(into)))
        into.rename(tmp_path / engine)
    assert said[0] == said[1]
    assert list(scratch.iterdir()) == []


def test_the_guides_example(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the session that is active."""
    assert spark
    text = (Path(__file__).parents[2] / "docs" / "guide" / "spark.md").read_text("utf-8")
    section = text.split("\n## Rebuilding\n")[1].split("\n## ")[0]
    lines = section.split("```pycon\n")[1].split("```")[0]
    example = doctest.DocTestParser().get_doctest(lines, {}, "spark.md", "spark.md", 0)
    assert len(example.examples) > 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").symlink_to(store_dir("4.9.8-basic"))
    assert doctest.DocTestRunner().run(example).failed == 0
    assert (tmp_path / "rebuilt-on-spark" / "index").is_dir()
