"""Parts of stores under the real store code: every message is served at its queue offset.

The part is read by its version as a consumer reads, from the least queue offset on; messages are put; the
store is stopped or killed, and read again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.commands.convert import ExtractCommand, extract
from rocketfsck.commands.shared import WantedTimes
from rocketfsck.store import Store, open_store

from tests.conftest import Directory, Document
from tests.oracle.broker import Job, Put, QueueName, State, run_jobs
from tests.oracle.conftest import Needs
from tests.oracle.judging import puts_not_served
from tests.oracle.manifests import batch_topics_of, geometry_of, settings_of

pytestmark = pytest.mark.oracle

RUNS = (
    ("4.4.0-multiseg", "4.4.0", ("Seg1",)),
    ("4.9.8-multiseg", "4.9.8", ("Seg1",)),
    ("5.0.0-innerbatch", "5.0.0", ("Ib", "Plain0")),
    ("5.1.3-expired", "5.1.4", ("Exp0",)),
    ("5.3.3-multiseg", "5.3.3", ("Seg0",)),
)
APPENDED = tuple(Put("Appended", b"after" * number, 0, {"KEYS": f"k{number}"}) for number in range(6))

Said = dict[QueueName, dict[int, tuple[str, str | None]]]
"""By queue and queue offset: the topic and the unique key of a message."""


def _messages(store: Store, topics: tuple[str, ...], times: WantedTimes) -> Said:
    found: Said = {}
    for m in iter_messages(store):
        inside = (times.begin or 0) <= m.store_timestamp < (times.end or 1 << 62)
        if m.topic in topics and inside:
            key = (m.properties or {}).get("UNIQ_KEY")
            found.setdefault((m.topic, m.queue_id), {})[m.queue_offset] = (m.topic, key)
    return found


def _served(state: State, topics: tuple[str, ...]) -> Said:
    found: Said = {}
    for name, queue in state.queues.items():
        for message in queue.messages:
            if name[0] in topics and message.status == "FOUND":
                assert message.fields is not None
                key = (message.fields["properties"] or {}).get("UNIQ_KEY")
                offset = int(message.fields["recordQueueOffset"])
                found.setdefault(name, {})[offset] = (message.fields["topic"], key)
    return found


@pytest.mark.parametrize("window", [False, True], ids=["whole", "window"])
@pytest.mark.parametrize(("name", "version", "topics"), RUNS, ids=[run[0] for run in RUNS])
def test_what_was_cut_out_is_served(
    name: str,
    version: str,
    topics: tuple[str, ...],
    window: bool,
    needs_broker: Needs,
    store_dir: Directory,
    manifest: Document,
    tmp_path: Path,
) -> None:
    needs_broker(version)
    source = open_store(store_dir(name))
    stored = sorted(m.store_timestamp for m in iter_messages(source) if m.topic in topics)
    times = WantedTimes(stored[len(stored) // 3], stored[2 * len(stored) // 3]) if window else WantedTimes()
    command = ExtractCommand(
        path=source.root, into=tmp_path / "stopped", topics=topics, times=times, no_sync=True
    )
    made = extract(command)
    assert made.exit_code == 0
    expected = _messages(source, topics, times)
    bounds = {(q.topic, q.queue_id): (q.first_queue_offset, q.end_queue_offset) for q in made.queues}
    document = manifest(name)
    jobs = [
        Job(
            Path(shutil.copytree(made.into, tmp_path / ending)) if ending == "killed" else made.into,
            geometry_of(document),
            append=APPENDED,
            kill=ending == "killed",
            batch_topics=batch_topics_of(document),
            settings=settings_of(document),
        )
        for ending in ("killed", "stopped")
    ]
    answers = run_jobs(version, jobs)
    again = [
        Job(job.store, job.geometry, batch_topics=job.batch_topics, settings=job.settings) for job in jobs
    ]
    for answer in (*answers, *run_jobs(version, again)):
        assert answer.loaded, answer.refusal
        state = answer.final
        assert _served(state, topics) == expected
        found = {queue: (state.queues[queue].min_offset, state.queues[queue].max_offset) for queue in bounds}
        assert found == bounds
        assert puts_not_served(state, APPENDED, answers[0].put) == []
