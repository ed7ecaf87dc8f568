"""What commands say of documents that are too long to be parsed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketfsck.common.documents import LIMITS, DocumentKind

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

STORE = "STORE"


@pytest.mark.parametrize(
    ("kind", "words", "code"),
    [
        ("baseline", ("check", STORE, "--baseline"), 16),
        ("check state", ("check", STORE, "--resume"), 16),
        ("plan", ("apply",), 8),
        ("report", ("plan", STORE, "--report"), 8),
        ("report", ("page",), 8),
    ],
)
def test_commands_name_file_size_and_limit(
    cli: Cli, restart_dir: Directory, tmp_path: Path, kind: DocumentKind, words: tuple[str, ...], code: int
) -> None:
    path = tmp_path / "known.json"
    path.touch()
    os.truncate(path, LIMITS[kind] + 1)
    store = restart_dir("4.9.8-basic--torn-tail")
    ended = cli(*(store if word == STORE else word for word in words), path)
    assert ended.code == code
    said = " ".join(ended.err.split())
    assert f"known.json: has {LIMITS[kind] + 1:,} bytes" in said
    assert f"at most {LIMITS[kind]:,}" in said
    assert "Traceback" not in said
