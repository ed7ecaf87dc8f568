"""Faults of whole consume queues (fault catalogue Q7, Q8, Q9, Q10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats import consumequeue, magic, smallfiles
from rocketfsck.formats.config import decode_config, encode_config
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import QUEUE_LOST, PromisedPlace
from rocketfsck.writer.damage.scenes import queue_directory

TOPICS = "config/topics.json"
GHOST = "GhostTopic"
_MISSED = (RuleName.QUEUE_MISSING, RuleName.QUEUE_DELETED)


def _queue_place(queue: ConsumeQueue) -> PromisedPlace:
    return PromisedPlace(queue_directory(queue), topic=queue.topic, queue_id=queue.queue_id)


def configured_topics(job: Job) -> Mapping[str, Any] | None:
    """The topics in topics.json; None where it is not there or cannot be read."""
    if not job.editor.exists(TOPICS):
        return None
    try:
        value = decode_config(job.editor.content(TOPICS))
    except FormatError:
        return None
    table = value.get("topicConfigTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        return None
    return {topic: config for topic, config in table.items() if isinstance(config, dict)}


def _has_records(job: Job, queue: ConsumeQueue) -> bool:
    """Whether the log holds a record that its dispatch put into this queue."""
    scene = job.queue(queue)
    for offset in reversed(scene.offsets().tolist()):
        record = job.record_at(offset)
        if record is not None and (record.topic, record.queue_id) == (queue.topic, queue.queue_id):
            return magic.is_in_consume_queue(record.sys_flag)
    return False


def _candidates(job: Job) -> list[ConsumeQueue]:
    return [
        queue
        for queue in job.store.queues
        if queue.kind == "file" and job.is_free(f"{queue_directory(queue)}/") and _has_records(job, queue)
    ]


def _known(job: Job, topic: str, *, others: bool) -> RuleName:
    """The rule for a queue that is missing: deleted topics are not missed."""
    topics = configured_topics(job)
    deleted = topics is not None and topic not in topics and not others
    return RuleName.QUEUE_DELETED if deleted else RuleName.QUEUE_MISSING


@damage("Q7", _MISSED, "a queue with records in the log", QUEUE_LOST)
def missing_queue(job: Job) -> None:
    """The directory of one queue is missing."""
    queue = job.choose(_candidates(job), "queue with records in the log")
    others = any(item.topic == queue.topic and item is not queue for item in job.store.queues)
    job.editor.remove_tree(queue_directory(queue))
    job.note = f"{queue_directory(queue)} removed"
    left = len(job.store.queues) > 1
    job.promise(_queue_place(queue), _known(job, queue.topic, others=others or not left))


def _has_addresses(job: Job, queue: ConsumeQueue) -> bool:
    return bool((job.queue(queue).units["tagsCode"] < -(1 << 31)).any())


@damage("Q7", _MISSED, "a topic with records in the log", QUEUE_LOST)
def missing_topic(job: Job) -> None:
    """All queues of a topic are missing."""
    candidates = _candidates(job)
    whole = [
        topic
        for topic in dict.fromkeys(queue.topic for queue in candidates)
        if job.is_free(f"consumequeue/{topic}/") and any(item.topic != topic for item in job.store.queues)
    ]
    topic = job.choose(whole, "topic with queues and records")
    job.editor.remove_tree(f"consumequeue/{topic}")
    job.note = f"consumequeue/{topic} removed"
    for queue in candidates:
        if queue.topic == topic:
            job.promise(_queue_place(queue), _known(job, topic, others=False))


@damage("Q7", _MISSED, "a queue with records in the log", QUEUE_LOST, alone=True)
def missing_all_queues(job: Job) -> None:
    """All consume queues are missing."""
    candidates = _candidates(job)
    job.need(candidates, "consume queue with records in the log")
    job.editor.remove_tree("consumequeue")
    job.note = "consumequeue removed"
    for queue in candidates:
        job.promise(_queue_place(queue))


@damage("Q8", (RuleName.UNIT_BEYOND_LOG, RuleName.GHOST_QUEUE, RuleName.QUEUE_EXPIRED), "a commit log")
def ghost_queue(job: Job) -> None:
    """A queue belongs to an unknown topic and points to no record.

    topics.json does not have the topic, and all units point outside the log.
    """
    topics = configured_topics(job)
    directory = f"consumequeue/{GHOST}/0"
    size = job.store.geometry.consumequeue_file_size
    job.need(not job.editor.exists(directory) and job.log_files and size >= 60, "room for a further topic")
    expired = job.log_start >= 1000
    first = 100 if expired else job.log_end + 1000
    units = ({"offset": first + 200 * number, "size": 200, "tagsCode": 0} for number in range(3))
    data = b"".join(map(consumequeue.UNIT.build, units))
    name = f"{directory}/{smallfiles.offset_to_filename(0)}"
    job.editor.create(name, data, size=size, like=job.log_files[0].relative)
    job.note = f"{name} with 3 units"
    queue = PromisedPlace(topic=GHOST, queue_id=0)
    if not expired:
        job.promise(PromisedPlace(name, 0, 60, first, GHOST, 0, 0), RuleName.UNIT_BEYOND_LOG)
    elif topics is not None:
        job.promise(PromisedPlace(directory, topic=GHOST, queue_id=0), RuleName.GHOST_QUEUE)
    else:
        job.promise(queue, RuleName.QUEUE_EXPIRED)


@damage("Q9", (RuleName.QUEUE_EXTENSION_ORPHAN, *_MISSED), "a queue with an extension", QUEUE_LOST)
def missing_queue_ext_left(job: Job) -> None:
    """A queue is missing, and its extension is left."""
    queues = [queue for queue in _candidates(job) if queue.ext is not None and queue.ext.files]
    queue = job.choose(queues, "queue with an extension")
    job.editor.remove_tree(queue_directory(queue))
    job.note = f"{queue_directory(queue)} removed, and its extension kept"
    place = PromisedPlace(
        f"consumequeue_ext/{queue.topic}/{queue.queue_id}", topic=queue.topic, queue_id=queue.queue_id
    )
    job.promise(place, RuleName.QUEUE_EXTENSION_ORPHAN)
    job.promise(_queue_place(queue), *_MISSED)


@damage("Q9", RuleName.EXT_ADDRESS_DANGLING, "a queue with an extension", RuleName.EXT_ADDRESS_DANGLING)
def ext_missing(job: Job) -> None:
    """The extension of a queue is missing."""
    queues = [queue for queue in job.store.queues if queue.ext is not None and queue.ext.files]
    free = [
        queue for queue in queues if job.is_free(f"{queue_directory(queue)}/") and _has_addresses(job, queue)
    ]
    queue = job.choose(free, "queue with an extension")
    scene = job.queue(queue)
    directory = f"consumequeue_ext/{queue.topic}/{queue.queue_id}"
    job.editor.remove_tree(directory)
    job.note = f"{directory} removed"
    units = map(scene.unit, range(scene.start_index, scene.end_index))
    first = next(unit for unit in units if unit.tags_code < -(1 << 31))
    job.promise(PromisedPlace(first.file.relative, first.start, first.end, queue_offset=first.index))


@damage("Q10", RuleName.QUEUE_KIND_TWICE, "a topic (5.0+)")
def kind_twice(job: Job) -> None:
    """A topic has queues of both kinds.

    The second queue is in the batch tree.
    """
    job.need(job.store.dialect.batch_queues, "version with batch queues (5.0+)")
    topics = sorted({queue.topic for queue in job.store.queues if queue.kind == "file"})
    batch = {queue.topic for queue in job.store.queues if queue.kind == "batch"}
    topic = job.choose([topic for topic in topics if topic not in batch], "topic with consume queues")
    number = 1 + max(queue.queue_id for queue in job.store.queues if queue.topic == topic)
    name = f"batchconsumequeue/{topic}/{number}/{smallfiles.offset_to_filename(0)}"
    known = bool(batch) or job.store.geometry.source("batch_file_size") == "given"
    size = job.store.geometry.batch_file_size if known else 20 * consumequeue.BATCH_UNIT_SIZE
    job.editor.create(name, size=size, like=job.log_files[0].relative if job.log_files else None)
    job.done(f"{name}, all zeros", PromisedPlace("batchconsumequeue", topic=topic))


@damage(
    "Q10", RuleName.QUEUE_KIND_ATTRIBUTE, "topics.json with a topic that has queues",
    RuleName.CONFIG_BACKUP_NEWER,
)  # fmt: skip
def kind_attribute(job: Job) -> None:
    """topics.json asks for another kind of queue."""
    topics = configured_topics(job)
    job.need(topics and job.is_free(TOPICS), "topics.json")
    assert topics is not None
    queues = [queue for queue in job.store.queues if queue.topic in topics and queue.files]
    queue = job.choose(queues, "configured topic with queues")
    value = decode_config(job.editor.content(TOPICS))
    wrong = "BatchCQ" if queue.kind == "file" else "SimpleCQ"
    value["topicConfigTable"][queue.topic]["attributes"] = {"queue.type": wrong}
    job.editor.replace(TOPICS, encode_config(value))
    job.note = f"topics.json says queue.type={wrong} for {queue.topic}"
    job.promise(PromisedPlace(TOPICS, topic=queue.topic, queue_id=queue.queue_id))


@damage("Q10", RuleName.QUEUE_ID_NAME, "a consume queue")
def queue_id_name(job: Job) -> None:
    """The name of a queue directory is not a queueId.

    The directory is in that of a topic.
    """
    queue = job.choose(list(job.store.queues), "consume queue")
    name = f"{queue_directory(queue).rpartition('/')[0]}/0{queue.queue_id}"
    job.need(not job.editor.exists(name), "place for a further directory")
    job.editor.make_directory(name)
    job.done(f"{name} made", PromisedPlace(name))
