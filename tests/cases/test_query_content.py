"""`query scan` finds words in compressed bodies, and says which bodies it could not read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from rocketfsck.cli.app import run

TEXT = b"somebody looks for these words " * 30


def _store(tmp_path: Path) -> str:
    bodies = [
        (0x101, lz4.frame.compress(TEXT)),
        (0x201, zstandard.ZstdCompressor().compress(TEXT)),
        (0x101, b"no frame at all"),
    ]
    rows = [
        {"topic": "T", "sys_flag": flag, "body_b64": base64.b64encode(body).decode()} for flag, body in bodies
    ]
    source = tmp_path / "messages.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert run(["write", str(source), "--into", str(tmp_path / "store")]) == 0
    return str(tmp_path / "store")


def test_what_is_beyond_the_limit_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word beyond the limit is not found, and the exit status says that not all was searched."""
    store = _store(tmp_path)
    words = ["query", "scan", store, 'content contains "no such words"']
    monkeypatch.setattr("rocketfsck.query.content.evaluate.content_of.__defaults__", (len(TEXT) - 1, None))
    assert run(words) & 8
    assert f"more than {len(TEXT) - 1} bytes come out of the body" in capsys.readouterr().err


def test_words_in_lz4_and_zstd_bodies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = _store(tmp_path)
    capsys.readouterr()
    arguments = ["query", "scan", store, 'content contains "these words"', "--format", "jsonl"]
    assert run(arguments) == 8, "one body could not be read"
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert [row["kind"] for row in rows[1:]] == ["message", "message", "unread"]
    assert rows[-1]["message_count"] == 1
    assert "the content of 1 message could not be searched as a whole" in captured.err
    assert run(["query", "scan", store, 'queue_offset < 2 and content contains "these words"']) == 0
    assert run(["query", "scan", store, 'content contains "other words"']) == 12
