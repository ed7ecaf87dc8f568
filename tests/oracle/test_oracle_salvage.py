"""Salvaged stores under the real store code: every record that was saved is served at its queue offset.

The source is damaged in two files; the new store is read by its version as a consumer reads, stopped or
killed, and read again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.formats.magic import FENCE_TOPIC, is_in_consume_queue
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.salvage.salvage import find_records, write_store
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store.reading import FileReader

from tests.conftest import NIGHTLY, Directory, Document
from tests.oracle.broker import Job, Put, State, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import puts_not_served, rows_served
from tests.oracle.manifests import batch_topics_of, geometry_of, settings_of

pytestmark = pytest.mark.oracle

RUNS = (
    ("4.4.0-multiseg", "4.4.0"),
    ("4.9.8-multiseg", "4.9.8"),
    ("5.1.3-killed-restarted", "5.1.4"),
    ("5.3.3-multiseg", "5.3.3"),
    ("5.3.3-propcrc", "5.3.3"),
)
APPENDED = tuple(Put("Appended", b"after" * number, 0, {"KEYS": f"k{number}"}) for number in range(6))
DAMAGE_SIZE = 2500


def _messages(store: Path) -> list[Message]:
    found = []
    for path in sorted((store / "commitlog").iterdir()):
        with FileReader(path) as reader:
            found += list(read_messages(reader, int(path.name), ScanOptions()))
    return [m for m in found if not m.faults & Fault.BODY_CRC and m.topic_bytes != FENCE_TOPIC]


def _damage(store: Path, first: int = 1) -> None:
    """Zeros in the middle of two files (by number), from within a record to within another."""
    for path in sorted((store / "commitlog").iterdir())[first : first + 2]:
        with FileReader(path) as reader:
            found = list(read_messages(reader, int(path.name), ScanOptions()))
        if found:
            with path.open("r+b") as stream:
                stream.seek(found[len(found) // 2].pos + 10)
                stream.write(bytes(DAMAGE_SIZE))


Place = tuple[str, int, int]


def _places(messages: list[Message]) -> set[Place]:
    return {(m.topic, m.queue_id, m.physical_offset) for m in messages if is_in_consume_queue(m.sys_flag)}


def _served(state: State) -> set[Place]:
    """What a consumer gets that starts at the least offset and goes on where it is told to."""
    return {(*queue, row[1]) for queue, rows in rows_served(state).items() for row in rows}


@pytest.mark.parametrize(
    ("run", "layout"),
    [
        pytest.param(run, layout, id=f"{'-by-'.join(run)}-{layout}")
        for number, run in enumerate(RUNS)
        for turn, layout in enumerate(("keep", "pack"))
        if NIGHTLY or turn == number % 2
    ],
)
def test_what_was_salvaged_is_served(
    run: tuple[str, str],
    layout: str,
    needs_broker: Needs,
    store_dir: Directory,
    manifest: Document,
    tmp_path: Path,
) -> None:
    name, version = run
    needs_broker(version)
    source = Path(shutil.copytree(store_dir(name), tmp_path / "source"))
    _damage(source)
    options = SalvageOptions(layout="keep" if layout == "keep" else "pack", version=version, sync=False)
    salvage = find_records([source], options)
    saved = write_store(salvage, tmp_path / "stopped").path
    expected = _places(_messages(saved))
    assert len(expected) > len(_places(_messages(store_dir(name)))) // 2
    assert salvage.story.placement.name == layout
    document = manifest(name)
    jobs = [
        Job(
            Path(shutil.copytree(saved, tmp_path / ending)) if ending == "killed" else saved,
            geometry_of(document),
            keys=(("Appended", "k3"),),
            append=APPENDED,
            kill=ending == "killed",
            batch_topics=batch_topics_of(document),
            settings=settings_of(document),
        )
        for ending in ("killed", "stopped")
    ]
    answers = run_jobs(version, jobs)
    again = [Job(job.store, job.geometry, settings=job.settings) for job in jobs]
    for answer in (*answers, *run_jobs(version, again)):
        assert answer.loaded, answer.refusal
        assert expected <= _served(answer.final)
        assert puts_not_served(answer.final, APPENDED, answers[0].put) == []
        assert not any(topic.encode() == FENCE_TOPIC for topic, _ in answer.final.queues)


@pytest.mark.parametrize("run", [run for run in RUNS if "multiseg" in run[0]], ids="-by-".join)
def test_what_brokers_skip_is_foretold(
    run: tuple[str, str], needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """Behind a hole of a queue, a broker delivers nothing more of the file that begins at offset 0."""
    name, version = run
    needs_broker(version)
    source = Path(shutil.copytree(store_dir(name), tmp_path / "source"))
    _damage(source, 0)
    salvage = find_records([source], SalvageOptions(layout="keep", version=version, sync=False))
    saved = write_store(salvage, tmp_path / "new").path
    document = manifest(name)
    expected = _places(_messages(saved))
    (answer,) = run_jobs(version, [Job(saved, geometry_of(document), settings=settings_of(document))])
    skipped = expected - _served(answer.final)
    assert len(skipped) == salvage.head().skipped_by_brokers_count > 0
    assert {offset < document["geometry"]["mappedFileSizeCommitLog"] for _, _, offset in skipped} == {True}
