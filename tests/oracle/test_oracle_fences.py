"""Fences in the log of stores that brokers wrote: the real code walks over them and serves what is behind.

Records are taken out of the first file, of its start, its middle and its end, and the room is filled. The
units of the records that are gone stay where they are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketfsck.formats.magic import FENCE_TOPIC
from rocketfsck.formats.record import decode_host
from rocketfsck.repair.log import filler_records
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store.reading import FileReader

from tests.conftest import Directory, Document
from tests.oracle.broker import Job, Put, State, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import Row, puts_not_served, rows_served
from tests.oracle.manifests import geometry_of, settings_of

pytestmark = pytest.mark.oracle

RUNS = (
    ("4.4.0-multiseg", "4.4.0"),
    ("4.9.8-multiseg", "4.9.8"),
    ("4.9.8-multiseg", "5.1.4"),
    ("5.3.3-multiseg", "5.3.3"),
    ("5.3.3-propcrc", "5.3.3"),
)
APPENDED = tuple(
    Put("Appended", b"after the fence" * number, 0, {"KEYS": f"k{number}"}) for number in range(6)
)
STORE_HOST = decode_host(bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]))


@dataclass(frozen=True, slots=True)
class Fenced:
    """A copy of a store with fences, and the physical offsets of the records that they replace."""

    store: Path
    lost: frozenset[int]


def _messages(path: Path) -> list[Message]:
    with FileReader(path) as reader:
        return list(read_messages(reader, int(path.name), ScanOptions()))


def _fence(store: Path, version: str, *, only_middle: bool = False) -> Fenced:
    """Take out the first record, two in the middle and the last of the first file; or those two."""
    path = min((store / "commitlog").iterdir())
    found = _messages(path)
    middle = found[len(found) // 2 : len(found) // 2 + 2]
    lost = set()
    for gone in (middle,) if only_middle else (found[:1], middle, found[-1:]):
        start, end = gone[0].pos, gone[-1].pos + gone[-1].total_size
        when = gone[0].store_timestamp
        fence = b"".join(
            filler_records(
                int(path.name) + start,
                end - start,
                version=version,
                store_timestamp=when,
                store_host=STORE_HOST,
            )
        )
        with path.open("r+b") as stream:
            stream.seek(start)
            stream.write(fence)
        lost |= {message.physical_offset for message in gone}
    return Fenced(store, frozenset(lost))


def _rows(state: State, lost: Iterable[int]) -> dict[tuple[str, int], list[Row]]:
    """What the queues served, without what stands where records were lost and what a test appended."""
    gone = set(lost)
    rows = {
        queue: [row for row in found if row[1] not in gone]
        for queue, found in rows_served(state).items()
        if queue[0] != "Appended"
    }
    return {queue: found for queue, found in rows.items() if found}


def _jobs(
    run: tuple[str, str], store_dir: Directory, manifest: Document, place: Path, names: Sequence[str]
) -> list[Job]:
    document = manifest(run[0])
    return [
        Job(
            Path(shutil.copytree(store_dir(run[0]), place / name)),
            geometry_of(document),
            keys=(("Appended", "k3"),),
            append=APPENDED,
            settings=settings_of(document),
            kill=name == "killed",
        )
        for name in names
    ]


@pytest.mark.parametrize("run", RUNS, ids="-by-".join)
def test_what_is_behind_a_fence_is_served(
    run: tuple[str, str], needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    version = run[1]
    needs_broker(version)
    jobs = _jobs(run, store_dir, manifest, tmp_path, ("untouched", "stopped", "killed"))
    fenced = [_fence(job.store, version) for job in jobs[1:]]
    assert len(fenced[0].lost) == 4
    untouched, *answers = run_jobs(version, jobs)
    expected = _rows(untouched.final, fenced[0].lost)
    # what was stopped and what was killed, once more
    answers += run_jobs(version, [Job(job.store, job.geometry, settings=job.settings) for job in jobs[1:]])
    assert expected
    for answer in answers:
        assert answer.loaded, answer.refusal
        assert answer.final.max_offset == untouched.final.max_offset
        assert _rows(answer.final, fenced[0].lost) == expected
        assert puts_not_served(answer.final, APPENDED, untouched.put) == []
        assert not any(topic.encode() == FENCE_TOPIC for topic, _ in answer.final.queues)
    assert answers[0].final.keys["Appended", "k3"].served == untouched.final.keys["Appended", "k3"].served


@pytest.mark.parametrize("run", [run for run in RUNS if run[1] in ("4.9.8", "5.3.3")], ids="-by-".join)
def test_a_queue_that_the_broker_rebuilds_closes_ranks(
    run: tuple[str, str], needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """Versions that make consume queues anew from the log make none of the fence, and put every unit behind
    it where the lost one was: the guide says so, and to rebuild the queues before."""
    version = run[1]
    needs_broker(version)
    (job,) = _jobs(run, store_dir, manifest, tmp_path, ("rebuilt",))
    before = {
        row.physical_offset: row for path in (job.store / "commitlog").iterdir() for row in _messages(path)
    }
    fenced = _fence(job.store, version, only_middle=True)
    shutil.rmtree(job.store / "consumequeue")
    (answer,) = run_jobs(version, [job])
    assert answer.loaded, answer.refusal
    places = [(queue, row[0], row[1]) for queue, rows in rows_served(answer.final).items() for row in rows]
    assert before.keys() - fenced.lost <= {place[2] for place in places}
    assert not fenced.lost & {place[2] for place in places}
    assert not any(topic.encode() == FENCE_TOPIC for topic, _ in answer.final.queues)
    lost = [before[offset] for offset in fenced.lost]
    for queue, served_offset, physical_offset in places:
        if physical_offset not in before:
            continue  # appended by the test
        gone = sum((m.topic, m.queue_id) == queue and m.physical_offset < physical_offset for m in lost)
        assert served_offset == before[physical_offset].queue_offset - gone


def test_a_broker_that_demands_property_crcs_takes_a_fence(
    needs_broker: Needs, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """With forceVerifyPropCRC a record without the property ends the log; so does one whose CRC is wrong."""
    needs_broker("5.3.3")
    jobs = _jobs(("5.3.3-propcrc", "5.3.3"), store_dir, manifest, tmp_path, ("fenced", "without"))
    fenced = [_fence(job.store, "5.3.3", only_middle=True) for job in jobs]
    path = min((jobs[1].store / "commitlog").iterdir())
    with path.open("r+b") as stream:  # one digit of the first fence's CRC
        data = stream.read()
        at = data.index(b"__CRC32#", data.index(FENCE_TOPIC)) + 9
        stream.seek(at)
        stream.write(bytes([data[at] ^ 1]))
    forced = [replace(job, append=(), settings={**job.settings, "forceVerifyPropCRC": True}) for job in jobs]
    for job in forced:
        (job.store / "abort").write_bytes(b"1")
    kept, cut = run_jobs("5.3.3", forced)
    last = max(message.physical_offset for message in _messages(path))
    assert kept.loaded
    assert kept.final.max_offset > last
    assert cut.final.max_offset == min(fenced[1].lost)
