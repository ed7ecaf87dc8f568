"""Undo gives every byte back whatever a broker's start and work wrote; what is not verified is said.

A broker's writes are simulated on the store's own files, in place: everything that is not immutable by the
rules of the broker itself is overwritten.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.show.repair import undo_lines
from rocketfsck.cli.show.text import Palette
from rocketfsck.errors import StoreError
from rocketfsck.query.start.verdict import predict_each, start_classes, versions_of
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import sound_end, undo
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import Store, open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.damage import damage_store
from rocketfsck.writer.disk import fileops

from tests.conftest import Directory
from tests.unit.repair.core.plans import snapshot

DAMAGES = (
    ("body-crc", "queue-hole", "checkpoint-zeroed"),
    ("boundary-lost",),
    ("zero-segment", "chain-cycle"),
)


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


def repaired(
    store_copy: Directory, tmp_path: Path, *faults: str
) -> tuple[Path, dict[str, tuple[int, int, bytes]], Path]:
    """A store that was damaged and repaired: where it is, what it was before the repair, what was kept."""
    root = tmp_path / "here" / "store"
    root.parent.mkdir()
    damage_store(store_copy("4.9.8-multiseg"), root, faults, 7)
    before = snapshot(root)
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    done = apply_plan(plan, assume=[item.name for item in all_assumptions(plan.actions)])
    assert done.published, done.problem
    return root, before, Path(done.kept)


def _cuts(store: Store) -> list[int]:
    """Where the starts cut the log, after an orderly stop and after a kill."""
    return [
        item.start.cut_offset
        for abort in (None, store.lock)
        for item in predict_each(replace(store, abort=abort), start_classes(versions_of(store)), losses=False)
        if item.start is not None and item.start.cut_offset is not None
    ]


def work_of_a_broker(root: Path) -> None:
    """Write in place to all that a broker may write to: by where each start cuts, from there on."""
    store = open_store(root)
    cut = min(_cuts(store))
    log = {file.relative: file for file in store.commitlog.files}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            file = log.get(str(path.relative_to(root)))
            size = path.stat().st_size
            start = 0
            if file is not None and file.start_offset is not None:
                start = min(max(cut - file.start_offset, 0), size)
            elif re.search(r"/consumequeue/[^/]+/\d+/\d{20}$", str(path)):
                data = path.read_bytes()
                units = [data[at : at + 20] for at in range(0, size - 19, 20)]
                start = 20 * next((at for at, unit in enumerate(units) if not any(unit)), len(units))
            with path.open("r+b") as stream:
                stream.seek(start)
                stream.write(b"\xee" * (size - start))
    (root / "abort").touch()


@pytest.mark.parametrize("faults", DAMAGES, ids=" ".join)
def test_undo_after_a_broker_has_worked_gives_every_byte(
    store_copy: Directory, tmp_path: Path, faults: tuple[str, ...]
) -> None:
    root, before, _ = repaired(store_copy, tmp_path, *faults)
    work_of_a_broker(root)
    with pytest.raises(StoreError, match="changed since it was repaired"):
        undo(root)
    report = undo(root, force=True)
    assert report.not_restored == ()
    assert dict(snapshot(root)) == before
    assert any("bytes, names and times are restored" in line for line in undo_lines(report, Palette(False)))


def test_only_what_no_broker_writes_to_is_shared(store_copy: Directory, tmp_path: Path) -> None:
    root, _, kept = repaired(store_copy, tmp_path, "queue-hole")
    shared = {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.samefile(kept / "store" / path.relative_to(root))
    }
    assert shared and all(re.match(r"(commitlog|consumequeue/.*)/\d{20}$", name) for name in shared)
    log = sorted(path.name for path in (root / "commitlog").iterdir())
    assert {f"commitlog/{name}" for name in log[:-2]} <= shared
    assert not {f"commitlog/{name}" for name in log[-2:]} & shared


def test_where_nothing_is_predicted_the_sound_beginning_is_shared(store_copy: Directory) -> None:
    store = open_store(store_copy("4.9.8-multiseg"))
    report = check_store(store, CheckOptions(jobs=1))
    files = store.commitlog.files
    last = next(file for file in files if any(r.kind == "zero" for r in report.regions[file.relative]))
    assert sound_end(files, report.regions) == last.start_offset
    assert sound_end(files, {}) == 0


def test_a_kept_store_that_changed_is_never_called_restored(store_copy: Directory, tmp_path: Path) -> None:
    root, before, kept = repaired(store_copy, tmp_path, "queue-hole")
    name = sorted(path.name for path in (kept / "store" / "commitlog").iterdir())[1]
    with (kept / "store" / "commitlog" / name).open("r+b") as stream:  # shared: gone in both
        stream.write(bytes(3000))
    with pytest.raises(StoreError, match=rf"kept store changed since: commitlog/{name}; of the messages in"):
        undo(root)
    report = undo(root, force=True)
    assert f"commitlog/{name}" in report.not_restored
    assert report.messages.lost_count > 0 and report.messages.kept_count > 0
    assert report.messages.lost_count == sum(item.count for item in report.messages.lost)
    lines = " ".join(undo_lines(report, Palette(False)))
    assert (
        "not all is as before the repair" in lines and "are restored" not in lines and "in neither" in lines
    )
    assert {key for key, value in snapshot(root).items() if before[key] != value} == {f"/commitlog/{name}"}


def test_messages_that_only_the_present_store_has_are_counted(store_copy: Directory, tmp_path: Path) -> None:
    root, _, kept = repaired(store_copy, tmp_path, "queue-hole")
    last = sorted((kept / "store" / "commitlog").iterdir())[-1]  # a copy: the present one is sound
    with last.open("r+b") as stream:
        stream.write(bytes(500))
    with pytest.raises(StoreError, match=r"[1-9]\d* only in the present one, and 0 in neither"):
        undo(root)


def test_what_is_kept_of_the_repaired_store_is_its_own(store_copy: Directory, tmp_path: Path) -> None:
    root, _, _ = repaired(store_copy, tmp_path, "queue-hole")
    with (root / "checkpoint").open("r+b") as stream:
        stream.write(b"\xee" * 8)
    report = undo(root, force=True)
    assert report.kept and not report.kept_is_shared
    assert not Path(report.kept, "checkpoint").samefile(root / "checkpoint")
    assert not any(path.samefile(root / "index" / path.name) for path in Path(report.kept, "index").iterdir())


def test_in_place_says_what_is_not_as_before(store_copy: Directory, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    damage_store(store_copy("4.9.8-multiseg"), root, ["queue-hole"], 7)
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    apply_plan(plan, in_place=True, assume=[item.name for item in all_assumptions(plan.actions)])
    with (root / "checkpoint").open("r+b") as stream:
        stream.write(b"\xee" * 8)
    report = undo(root, force=True)
    assert report.not_restored == ("checkpoint",)
    assert "checkpoint" in " ".join(undo_lines(report, Palette(False)))
