"""Documents of every kind: one that is too long is refused before it is parsed, one that is not is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from rocketfsck.commands.certify import read_certificate
from rocketfsck.common.documents import LIMITS, VALUE_LIMIT, DocumentKind, parse_text
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.pipeline.fleet.records import RECORDS, read_record
from rocketfsck.repair.area.journal import MANIFESTS, find_areas, make_area, read_file, read_manifests
from rocketfsck.repair.build.files import STATE_NAME, ResumableDirectory
from rocketfsck.repair.plan.document import plan_text, read_plan
from rocketfsck.store.inuse import JOURNAL, unfinished_repair
from rocketfsck.store.reading import read_document
from rocketfsck.verify.since.state import KIND, SinceState, read_state, write_state
from rocketfsck.verify.tasks.resume import ResumeState, read_baseline
from rocketfsck.writer.disk.confined import open_root

from tests.unit.repair.core.test_plan_json import PLAN


def _baseline(path: Path) -> Any:
    return read_baseline(path)


def _check_state(path: Path) -> Any:
    return ResumeState(path, "x")


READERS: dict[DocumentKind, tuple[type[RocketfsckError], Callable[[Path], Any]]] = {
    "plan": (StoreError, read_plan),
    "report": (StoreError, lambda path: read_document(path, "report")),
    "baseline": (UsageError, _baseline),
    "check state": (UsageError, _check_state),
    "journal": (StoreError, lambda path: read_file(str(path), "journal")),
    "repair report": (StoreError, lambda path: read_file(str(path), "repair report")),
    "manifest": (StoreError, lambda path: read_file(str(path), "manifest")),
    "certificate": (StoreError, read_certificate),
}


@pytest.fixture
def unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: Any, **_more: Any) -> None:
        raise AssertionError("a document was parsed")

    monkeypatch.setattr(json, "loads", refuse)


def _long(path: Path, kind: DocumentKind, begin: bytes = b"") -> None:
    path.write_bytes(begin)
    os.truncate(path, LIMITS[kind] + 1)


def test_every_kind_has_a_limit() -> None:
    assert set(LIMITS) == set(get_args(DocumentKind))
    assert set(LIMITS) - set(READERS) == {"since state", "rebuild state", "rebuild record"}  # tested below
    assert all(1 << 20 <= limit <= 256 << 20 for limit in LIMITS.values())
    assert LIMITS["baseline"] > 2 * 21 * 1_000_000


@pytest.mark.usefixtures("unparsed")
@pytest.mark.parametrize("kind", READERS)
def test_a_long_document_is_not_parsed(tmp_path: Path, kind: DocumentKind) -> None:
    path = tmp_path / "document.json"
    _long(path, kind)
    error, read = READERS[kind]
    with pytest.raises(error, match=rf"document\.json: has {LIMITS[kind] + 1:,} bytes.*{LIMITS[kind]:,}"):
        read(path)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_only_regular_files_are_documents(tmp_path: Path, kind: DocumentKind, make: Any) -> None:
    make(tmp_path / "document.json")
    error, read = READERS[kind]
    with pytest.raises(error, match=r"document\.json: is a (directory|FIFO), not a regular file"):
        read(tmp_path / "document.json")


def test_documents_within_their_limits_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "document.json"
    path.write_text(plan_text(PLAN))
    monkeypatch.setitem(LIMITS, "plan", path.stat().st_size)
    assert read_plan(path) == PLAN
    monkeypatch.setitem(LIMITS, "plan", path.stat().st_size - 1)
    with pytest.raises(StoreError, match="may have at most"):
        read_plan(path)
    path.write_text(json.dumps({"schema_version": 1, "fingerprints": ["0" * 16]}))
    monkeypatch.setitem(LIMITS, "baseline", path.stat().st_size)
    assert read_baseline(path) == {"0" * 16}
    path.unlink()
    state = ResumeState(path, "x")
    state.save()
    monkeypatch.setitem(LIMITS, "check state", path.stat().st_size)
    ResumeState(path, "x")
    path.write_text("{}")
    for kind in ("report", "journal", "repair report", "manifest"):
        assert read_document(path, kind) == {}


@pytest.mark.usefixtures("unparsed")
def test_a_long_state_of_check_since_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _long(path, "since state", f'{{"kind": "{KIND}"'.encode())
    said = read_state(path, "x")
    assert (
        said == f"the state file has {LIMITS['since state'] + 1:,} bytes, more than {LIMITS['since state']:,}"
    )


def test_a_state_of_check_since_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, SinceState(KIND, 1, "0", "x", 0))
    assert read_state(path, "x") == "rocketfsck 0 wrote the state file"


def test_a_long_state_of_a_rebuild_is_refused_and_kept(tmp_path: Path) -> None:
    inputs = {"a": 1}
    path = tmp_path / "work"
    path.mkdir()
    with open_root(tmp_path):
        ResumableDirectory(path, inputs).save({"b": 2})
        assert ResumableDirectory(path, inputs).state == {"b": 2}
        (path / "queue").touch()
        _long(path / STATE_NAME, "rebuild state")
        with pytest.raises(StoreError, match=rf"{STATE_NAME}: has {LIMITS['rebuild state'] + 1:,} bytes"):
            ResumableDirectory(path, inputs)
    assert (path / "queue").exists()


@pytest.mark.usefixtures("unparsed")
def test_a_long_record_of_a_rebuild_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "built"
    target.mkdir()
    (tmp_path / RECORDS).mkdir()
    assert read_record(target) is None
    _long(tmp_path / RECORDS / f"built.{target.stat().st_ino}.json", "rebuild record")
    with pytest.raises(StoreError, match="may have at most 1,048,576"):
        read_record(target)


def test_long_documents_of_a_work_area(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    area = make_area(str(root), None, "beside", "aa")
    assert [found.journal for found in find_areas(str(root), None)] == [area.journal]
    assert unfinished_repair(root) is not None
    _long(Path(area.at(MANIFESTS)), "manifest")
    with pytest.raises(StoreError, match="may have at most"):
        read_manifests(area)
    _long(Path(area.at(JOURNAL)), "journal")
    assert unfinished_repair(root) is None


@pytest.mark.parametrize("mark", [b"[", b"{", b","])
def test_more_values_than_any_document(monkeypatch: pytest.MonkeyPatch, mark: bytes) -> None:
    """Short texts of many values would take a hundred times their room: they are counted, not parsed."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(UsageError, match=r"x\.json has 16,000,001 values"):
        parse_text(mark * (VALUE_LIMIT + 1), "x.json")
