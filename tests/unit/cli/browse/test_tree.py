"""The files as a tree: every file is in it once, below its family, its topic and its queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.cli.browse.model.files import FileRow, Shelf
from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.browse.model.tree import (
    FAMILIES,
    Folder,
    all_keys,
    end_of,
    file_tree,
    folder_counts,
    line_text,
    tree_lines,
    unfolded_at_first,
)
from rocketfsck.engine import LocalEngine
from rocketfsck.store import open_store
from rocketfsck.verify import check_store

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive
from tests.unit.cli.browse.stores import sparse_store

STORES = (
    "5.5.0-tiered",
    "5.5.0-compaction",
    "5.5.0-timer",
    "5.5.0-dledger",
    "5.5.0-rocksdb-cq",
    "5.5.0-multipath",
)


def _names(root: Path) -> list[str]:
    tree = file_tree(Shelf(open_store(root)).rows)
    return ["  " * line.depth + line.name for line in tree_lines(tree, all_keys(tree))]


@pytest.mark.parametrize("name", STORES)
def test_every_file_is_in_the_tree_once(name: str, real_dir: Directory) -> None:
    rows = Shelf(open_store(real_dir(name))).rows
    tree = file_tree(rows)
    lines = tree_lines(tree, all_keys(tree))
    files = [line.what.key for line in lines if isinstance(line.what, FileRow)]
    assert sorted(files) == sorted(row.key for row in rows)
    assert len({folder.what.key for folder in lines if isinstance(folder.what, Folder)}) == len(lines) - len(
        files
    )
    assert [family.title for family in tree] == [
        title for title in FAMILIES if title in {f.title for f in tree}
    ]
    assert all(line_text(line, None, 78).isprintable() for line in lines)
    assert sum(family.size for family in tree) == sum(row.size for row in rows)


def test_files_are_called_by_their_places(real_dir: Directory, store_dir: Directory) -> None:
    names = _names(real_dir("5.5.0-compaction"))
    first = names.index("▾ compacted topics (10 files)")
    assert names[first + 3 : first + 6] == [
        "  ▾ KeptCompact (8 files)",
        "    ▾ queue 0 (4 files)",
        f"      compactionCq/{0:020}",
    ]
    assert "  ▾ KeptCompact (6 files)" in names
    assert "    ▾ queue 0 (3 files)" in names
    assert f"      {2000:020}" in names
    assert f"    0/{0:020}" in names
    assert "  ▾ Ext0 (2 files)" in _names(store_dir("4.9.8-cqext"))
    tiered = _names(real_dir("5.5.0-tiered"))
    assert tiered.count("  ▾ TierBulk0 (2 files)") == 1
    assert "      COMMIT_LOG/cfcd208400000000000000000000" in tiered
    assert any(name.startswith("▾ RocksDB databases (") for name in tiered)
    assert "  rocksdbstore  RocksDB index" in tiered


def test_folders_have_the_counts_of_their_files(restart_dir: Directory) -> None:
    shelf = Shelf(open_store(restart_dir("4.9.8-multiseg--flip-older-file")))
    findings = Findings(shelf, check_store(shelf.store, engine=LocalEngine(1)))
    counts = folder_counts(file_tree(shelf.rows), findings)
    assert {key: found.said for key, found in counts.items()} == {("commit log",): "1E 5i", ("index",): "6i"}


def test_folders_unfold(restart_dir: Directory) -> None:
    async def script(at: Driver) -> None:
        assert at.cursor.split()[-1] == f"commitlog/{0:020}"
        assert "▸ Seg0" not in at.text
        while "consume queues" not in at.cursor:
            await at.press("down")
        assert at.cursor.endswith("▾ consume queues (24 files)")
        await at.press("enter")
        assert at.cursor.endswith("▸ consume queues (24 files)")
        await at.press("enter", "down")
        assert at.cursor.endswith("▾ Seg0 (12 files)")
        await at.press("down", "enter")
        assert at.cursor.endswith("▸ queue 0 (4 files)")
        await at.press("up", "enter")
        assert at.cursor.endswith("▸ Seg0 (12 files)")
        await at.press("enter", "down", "enter", "down", "enter")
        assert at.lines[0].startswith(f" consumequeue/Seg0/0/{0:020}: consume queue file")
        await at.press("backspace")
        assert at.cursor.endswith(f"    {0:020}")
        await at.press("c")
        assert any(
            line.split()[:1] == ["E"] and "1E 5i     ▾ commit log (5 files)" in line for line in at.lines
        )

    drive(restart_dir("4.9.8-multiseg--flip-older-file"), script, size=(80, 50))


def test_many_files_are_folded(tmp_path: Path) -> None:
    sparse_store(tmp_path / "store", 64)
    tree = file_tree(Shelf(open_store(tmp_path / "store")).rows)
    assert ("commit log",) not in unfolded_at_first(tree)
    assert ("consume queues", "Sparse") in unfolded_at_first(tree)

    async def script(at: Driver) -> None:
        assert at.cursor.endswith("▸ commit log (64 files)")
        assert "64.0 GiB" in at.cursor
        await at.press("enter", "end", "home", "down")
        assert at.cursor.endswith(f"commitlog/{0:020}")

    drive(tmp_path / "store", script)


def test_of_a_long_name_the_end_is_shown() -> None:
    assert end_of("abcdef", 6) == "abcdef"
    assert end_of("abcdefg", 6) == "…cdefg"
