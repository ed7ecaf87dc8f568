"""Windows of files are the very items that a walk over the whole file gives, wherever they begin."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.browse.model.files import OpenFile, Shelf
from rocketfsck.cli.dump.item import DumpFilter, Item
from rocketfsck.store import open_store

from tests.conftest import Directory

BROKERS = ("4.9.8-cqext", "4.9.8-ghosttail", "4.9.8-ipv6", "5.0.0-innerbatch", "5.3.3-multiseg")
DAMAGED = (
    "4.9.8-basic--torn-tail",
    "4.9.8-killed--index-truncated",
    "4.9.8-multiseg--flip-older-file",
)
REAL = ("5.5.0-timer", "5.5.0-compaction", "4.9.7-dledger-mixed")
MOST = 600
"""Items of a file that are compared one by one."""


def _said(item: Item) -> tuple[Any, ...]:
    """All that is shown of an item, but whether it is stale, which only a walk over the whole file tells."""
    values = {name: value for name, value in item.values.items() if name != "reason"}
    spans = (
        [] if item.spans is None else [(span.name, span.start, span.end, span.text) for span in item.spans()]
    )
    return item.kind, item.start, item.end, values, spans


def _opened(root: Path) -> Iterator[OpenFile]:
    shelf = Shelf(open_store(root))
    assert shelf.rows
    for row in shelf.rows:
        if row.target.database is None:
            file = shelf.open(row)
            yield file
            file.close()


def compare_pages(file: OpenFile, count: int = 37, *, entered: bool = True) -> None:
    """Forward and, if it may be `entered`, backward and from anywhere: the pages are the parts of `dump`'s
    items."""
    whole = [_said(item) for item in islice(file.kind.items(file.source, DumpFilter()), MOST + 1)]
    whole = [said for said in whole if said[1] < said[2]]
    is_short = len(whole) <= MOST
    forward: list[Any] = []
    pos = 0
    while page := file.pages.forward(pos, count):
        forward += map(_said, page)
        pos = page[-1].end
        if len(forward) >= len(whole):
            break
    assert forward[: len(whole)] == whole[: len(forward)]
    assert not is_short or forward == whole
    if not entered:
        return
    starts = random.Random(file.row.key).sample(whole, min(len(whole), 8))
    for _, start, end, *_ in starts:
        for at in (start, (start + end) // 2, end - 1):
            assert file.pages.locate(at) == start
    if not is_short or not whole:
        return
    backward: list[Any] = []
    pos = whole[-1][2]
    while page := file.pages.backward(pos, count):
        backward = [*map(_said, page), *backward]
        pos = page[0].start
    assert backward == whole
    assert file.pages.backward(0, count) == []


@pytest.mark.parametrize("name", BROKERS)
def test_pages_of_stores_of_brokers(name: str, store_dir: Directory) -> None:
    for file in _opened(store_dir(name)):
        compare_pages(file)


@pytest.mark.parametrize("name", DAMAGED)
def test_pages_of_damaged_stores(name: str, restart_dir: Directory) -> None:
    for file in _opened(restart_dir(name)):
        compare_pages(file)


@pytest.mark.parametrize("name", REAL)
def test_pages_of_everything_else(name: str, real_dir: Directory) -> None:
    for file in _opened(real_dir(name)):
        compare_pages(file, 11)


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_bytes_that_mean_nothing(seed: int, store_dir: Directory, tmp_path: Path) -> None:
    """Overwritten, zeroed and cut in places, in every file: the same answer from everywhere."""
    root = tmp_path / "store"
    shutil.copytree(store_dir("5.3.3-multiseg"), root)
    chance = random.Random(seed)
    for file in open_store(root).all_files():
        if file.size < 64 or not chance.randrange(2):
            continue
        data = bytearray(file.path.read_bytes())
        for _ in range(chance.randrange(1, 5)):
            at, size = chance.randrange(len(data)), chance.randrange(1, 600)
            piece = chance.choice((bytes(size), chance.randbytes(size), b"\x7f\xff\xff\xff"))
            data[at : at + len(piece)] = piece[: len(data) - at]
        if not chance.randrange(4):
            del data[chance.randrange(len(data)) :]
        file.path.write_bytes(data)
    for opened in _opened(root):
        compare_pages(opened, chance.choice((1, 7, 50)))
