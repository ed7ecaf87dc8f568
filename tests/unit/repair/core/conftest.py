"""A damaged store with what repairs it, for tests of apply and undo."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Directory

NAME = "4.9.8-multiseg"
OLD = 1_500_000_000_000_000_000


@pytest.fixture
def damaged(store_copy: Directory) -> Path:
    """A store with strays and a broken unit; `<store>.good` beside it has the sound one."""
    root = store_copy(NAME)
    shutil.copytree(root, f"{root}.good", symlinks=True)
    (root / "commitlog" / "notes.txt").write_text("stray")
    (root / "commitlog" / "odd.txt").write_text("stray")
    file = next(iter(sorted((root / "consumequeue").glob("Seg0/0/*"))))
    with file.open("r+b") as stream:
        stream.write(bytes(7) + b"\x77")
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            os.utime(f"{folder}/{name}", ns=(OLD, OLD))
    return root
