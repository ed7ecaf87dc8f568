"""Documents beside stores: what is too large is refused before anything of it is parsed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.repair.plan.document import read_plan
from rocketfsck.verify.baseline import Baseline, read_baseline
from rocketfsck.verify.documents import LIMITS, Document, demand_small, read_bytes, read_document, read_kept


@pytest.fixture(autouse=True)
def nothing_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.loads", lambda *_, **__: pytest.fail("it was parsed"))


def long_file(path: Path, kind: Document) -> Path:
    path.touch()
    os.truncate(path, LIMITS[kind].byte_count + 1)
    return path


@pytest.mark.parametrize("kind", ["journal", "baseline"])
def test_more_bytes_than_any_of_the_kind(tmp_path: Path, kind: Document) -> None:
    path = long_file(tmp_path / "long.json", kind)
    with pytest.raises(StoreError, match=f"more than {LIMITS[kind].byte_count:,} bytes") as caught:
        read_document(path, kind)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("kind", LIMITS)
def test_more_values_than_any_of_the_kind(kind: Document) -> None:
    data = b"[" + b"0," * LIMITS[kind].value_count + b"0]"
    assert len(data) < LIMITS[kind].byte_count
    with pytest.raises(StoreError, match=f"a {kind} has at most"):
        demand_small(data, kind, "x.json")
    demand_small(data[: len(data) // 2], kind, "x.json")


def test_a_baseline_and_a_plan_say_so(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[" * (LIMITS["plan"].value_count + 1))
    with pytest.raises(UsageError, match="a baseline has at most"):
        read_baseline(path)
    with pytest.raises(StoreError, match="a plan has at most"):
        read_plan(path)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("/dev/null/x"), Path("a\0b")):
        with pytest.raises(RocketfsckError, match="cannot be read"):
            read_bytes(path, "report")
    with pytest.raises(UsageError, match="cannot be read"):
        read_kept(Baseline, tmp_path / "none", "baseline")


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"[1, 2]",))
    writer.start()
    assert read_bytes(pipe, "plan") == b"[1, 2]"
    writer.join()
