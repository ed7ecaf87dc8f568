"""What is said of tiered storage when a start is predicted, or repairs are planned."""

from __future__ import annotations

import shutil
from pathlib import Path

from rocketfsck.query import simulate_start
from rocketfsck.store import open_store

from tests.conftest import Directory


def test_the_prediction_leaves_tiered_storage_out(real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-tiered"), root)
    found = simulate_start(open_store(root), "5.5.0")
    assert any(note.startswith("tiered storage") for note in found.notes)
    shutil.rmtree(root / "tiered")
    assert not any("tiered" in note for note in simulate_start(open_store(root), "5.5.0").notes)
