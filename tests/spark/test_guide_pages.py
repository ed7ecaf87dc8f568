"""Pages of the guide that are notebooks: their Python runs, block by block, and prints what stands below it.

    <!-- damaged: broker-a 4.9.8-multiseg 3 missing-segment … -->     /data/brokers/broker-a: seed, faults
    ```python … ```            a block, and what it prints, if that is shown: ```text … ```

/data stands for a directory of the test. Written anew with ROCKETFSCK_TRANSCRIPTS=write.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck import iter_messages, open_store
from rocketfsck.cli.app import run

from tests.conftest import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
WRITE = os.environ.get("ROCKETFSCK_TRANSCRIPTS") == "write"
PAGES = ("lost-messages", "sql")
SHOWN = "/data"
_DAMAGED = re.compile(r"^<!-- damaged: (\S+) (\S+) (\d+) (.+) -->$", re.MULTILINE)
_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)

_CHANGED = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")


def _prepare(text: str, directory: Path, store_dir: Directory) -> None:
    (directory / "brokers").mkdir()
    for name, store, seed, faults in _DAMAGED.findall(text):
        chosen = [part for fault in faults.split() for part in ("--fault", fault)]
        into = directory / "brokers" / name
        assert run(["damage", str(store_dir(store)), "--into", str(into), "--seed", seed, *chosen]) == 0


def _replay(text: str, directory: Path) -> str:
    """The page with what its blocks print now."""
    names: dict[str, Any] = {}

    def answer(block: re.Match[str]) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block["code"].replace(SHOWN, str(directory)), "page", "exec"), names)
        printed = said.getvalue().replace(str(directory), SHOWN).strip("\n")
        lines = [line.rstrip() for line in printed.split("\n")]
        if block["shown"] is None:
            assert not printed, f"prints what is not shown: {block['code']}"
            return block[0]
        return f"```python\n{block['code']}```\n\n```text\n" + "\n".join(lines) + "\n```\n"

    return _BLOCK.sub(answer, text)


@pytest.mark.parametrize("page", PAGES)
def test_page(spark: SparkSession, store_dir: Directory, tmp_path: Path, page: str) -> None:
    assert spark
    before = {name: spark.conf.get(name) for name in _CHANGED}
    path = GUIDE / f"{page}.md"
    text = path.read_text("utf-8")
    _prepare(text, tmp_path, store_dir)
    try:
        now = _replay(text, tmp_path)
    finally:
        spark.catalog.clearCache()
        for name, value in before.items():
            spark.conf.set(name, str(value))
    if WRITE:
        path.write_text(now, "utf-8")
    assert now == text


def test_the_messages_that_the_page_counts_are_those_that_are_gone(
    store_dir: Directory, tmp_path: Path
) -> None:
    """By what was in the logs before the damage, without a look at the queues."""
    text = (GUIDE / "lost-messages.md").read_text("utf-8")
    _prepare(text, tmp_path, store_dir)
    gone = 0
    for name, store, _, _ in _DAMAGED.findall(text):
        left = set(_messages(tmp_path / "brokers" / name))
        gone += sum(message not in left for message in _messages(store_dir(store)))
    assert re.findall(r"^(\d+) messages$", text, re.MULTILINE) == [str(gone)]


def _messages(root: Path) -> list[tuple[str, int, int]]:
    found = iter_messages(open_store(root), max_body_size=0)
    return [(message.topic, message.queue_id, message.queue_offset) for message in found]
