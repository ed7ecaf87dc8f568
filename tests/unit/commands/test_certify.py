"""Certificates: the same store gives the same hash, and every change of a file is seen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.commands import certify as module
from rocketfsck.commands.certify import CertifyAnswer, CertifyCommand, certify
from rocketfsck.commands.shared import StoreOptions
from rocketfsck.common.documents import to_document
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import Directory

STORE = "5.3.3-basic"
LOG = "commitlog/00000000000000000000"


def _write(answer: CertifyAnswer, path: Path) -> Path:
    path.write_text(json.dumps(to_document(answer.certificate)))
    return path


def _flip(path: Path, pos: int) -> None:
    """Change one bit; the size stays, and so does the time."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[pos] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_is_certified(store_dir: Directory) -> None:
    store = store_dir(STORE)
    one = certify(CertifyCommand(store)).certificate
    there = {str(path.relative_to(store)): path for path in store.rglob("*") if path.is_file()}
    assert {file.path for file in one.files} == {*there}
    assert {file.path: file.sha256 for file in one.files} == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()
    }
    assert one.byte_count == sum(path.stat().st_size for path in there.values())
    assert RuleName.RECORD_BODY_CRC in one.proven
    assert not {*one.found} & {*one.proven}
    assert sorted([*one.proven, *one.not_applicable, *one.found]) == sorted(RULES)
    assert (one.exit_code, one.may_start) == (EXIT_CLEAN, True)


@pytest.mark.parametrize(
    ("name", "rule", "is_proven"),
    [
        (STORE, RuleName.TIMER_UNIT_LINK, False),
        (STORE, RuleName.COMPACTION_UNIT, False),
        (STORE, RuleName.CHECKPOINT_MISSING, True),
        ("5.5.0-timer", RuleName.TIMER_UNIT_LINK, True),
        ("5.5.0-timer", RuleName.TIERED_UNIT, False),
        ("5.5.0-compaction", RuleName.COMPACTION_UNIT, True),
    ],
)
def test_nothing_is_proven_by_a_rule_that_had_nothing_to_look_at(
    any_dir: Directory, name: str, rule: RuleName, is_proven: bool
) -> None:
    one = certify(CertifyCommand(any_dir(name))).certificate
    assert (rule in one.proven, rule in one.not_applicable) == (is_proven, not is_proven)


def test_a_second_run_gives_the_same_hash(store_dir: Directory) -> None:
    first, second = (certify(CertifyCommand(store_dir(STORE))).certificate for _ in range(2))
    assert replace(second, created_timestamp=first.created_timestamp) == first
    assert len(first.sha256) == 64


def test_a_damaged_store_is_certified_as_what_it_is(store_copy: Directory) -> None:
    store = store_copy(STORE)
    _flip(store / LOG, 3300)
    answer = certify(CertifyCommand(store))
    assert answer.certificate.found[RuleName.RECORD_BODY_CRC] == 1
    assert RuleName.RECORD_BODY_CRC not in answer.certificate.proven
    assert answer.exit_code == EXIT_PROBLEMS


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (lambda _: None, "", ""),
        (lambda store: _flip(store / LOG, 3300), "changed", LOG),
        (lambda store: (store / "config" / "new.json").write_text("{}"), "added", "config/new.json"),
        (lambda store: (store / "link").symlink_to("gone"), "added", "link"),
        (lambda store: (store / "config" / "topics.json").unlink(), "removed", "config/topics.json"),
    ],
)
def test_whether_it_is_still_that_store(
    store_copy: Directory, tmp_path: Path, change: Callable[[Path], object], kind: str, name: str
) -> None:
    store = store_copy(STORE)
    path = _write(certify(CertifyCommand(store)), tmp_path / "certificate.json")
    change(store)
    answer = certify(CertifyCommand(store, against=path))
    found = {word: getattr(answer, word) for word in ("changed", "added", "removed")}
    assert {word: names for word, names in found.items() if names} == ({kind: (name,)} if kind else {})
    assert answer.exit_code == (EXIT_PROBLEMS if kind else EXIT_CLEAN)


def test_a_log_elsewhere_belongs_to_the_store(store_copy: Directory, tmp_path: Path) -> None:
    store, place = store_copy(STORE), tmp_path / "elsewhere"
    (store / "commitlog").rename(place)
    stated = StoreOptions(commitlog_paths=(place,))
    path = _write(certify(CertifyCommand(store, stated=stated)), tmp_path / "certificate.json")
    log = place / Path(LOG).name
    _flip(log, 3300)
    assert certify(CertifyCommand(store, against=path, stated=stated)).changed == (str(log),)


def test_a_certificate_that_was_changed_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    answer = certify(CertifyCommand(store_dir(STORE)))
    changed = replace(answer.certificate, state="damaged")
    path = _write(replace(answer, certificate=changed), tmp_path / "certificate.json")
    with pytest.raises(UsageError, match="its hash does not match"):
        certify(CertifyCommand(store_dir(STORE), against=path))


@pytest.mark.parametrize("text", ["[]", "{", '{"kind": "rocketfsck.certificate"}', '{"kind": "plan"}'])
def test_another_document_is_refused(store_dir: Directory, tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(UsageError):
        certify(CertifyCommand(store_dir(STORE), against=tmp_path / "other.json"))


def test_a_store_that_changes_meanwhile_is_not_certified(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, files = store_copy(STORE), module._files

    def and_change(*arguments: object) -> object:
        found = files(*arguments)  # type: ignore[arg-type]
        (store / "config" / "new.json").write_text("{}")
        return found

    monkeypatch.setattr(module, "_files", and_change)
    with pytest.raises(StoreError, match=r"changed while it was read \(config/new.json first\)"):
        certify(CertifyCommand(store))
