"""`--body` and `--body-decoder` of dump and query."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli
from tests.unit.reader.test_decoders import GOOD


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.py"
    path.write_text(GOOD, "utf-8")
    return shlex.join([sys.executable, str(path)])


def test_dump(cli: Cli, store_dir: Directory, good: str) -> None:
    store = store_dir("5.3.3-basic")
    shown = cli("dump", store, "--topic", "GammaOrder", "--key", "double", "--body-decoder", good)
    assert shown.code == 0, shown.err
    assert "    body: GammaOrder:6:spaces\n" in shown.out
    rows = cli("dump", store, "--body-decoder", good, "--format", "jsonl").rows()
    records = [row for row in rows if row["kind"] == "record"]
    texts = [row["body_decoded"] for row in records]
    assert sum(text is not None for text in texts) > 100
    for row in records:
        assert (row["body_decoded"] is None) == (row["body_b64"] is not None)
        assert (row["body_decoded"] is None) == (row["body_note"] is not None)
    packed = next(row for row in records if row["compression"] == "zlib" and row["body_decoded"])
    assert int(packed["body_decoded"].split(":")[1]) > packed["body_size"], "the decoder gets it unpacked"


def test_query(cli: Cli, store_dir: Directory, good: str) -> None:
    store = store_dir("5.3.3-basic")
    found = cli("query", "key", store, "GammaOrder", "double", "--body-decoder", good)
    assert found.code == 0, found.err
    assert "GammaOrder:6:spaces" in found.out


def test_a_decoder_that_dies_leaves_the_bodies(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("5.3.3-basic")
    shown = cli("dump", store, "--key", "double", "--body-decoder", "false")
    assert shown.code == 0
    assert "body: the decoder failed: the program ended" in shown.out
    assert "    body: spaces\n" in shown.out


def test_options_that_contradict(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("5.3.3-basic")
    for words in (
        ("--body", "decoded"),
        ("--body", "hex", "--body-decoder", "json"),
        ("--body-decoder", "none!"),
    ):
        assert cli("dump", store, *words).code == 16
