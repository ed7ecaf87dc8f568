"""Faults of whole commit log files and of what lies between them (fault catalogue C2, C5 to C9, Q5)."""

from __future__ import annotations

import itertools

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.store.model import MappedFile
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import ANY_LOG, QUEUE_LOST, RECORD_LOST, SEGMENT_LOST, PromisedPlace
from rocketfsck.writer.damage.scenes import LogScene, QueueScene, unit_place

SECOND_PATH = "commitlog2"
_MORE_EMPTY_FILES = 3
_THREE_FILES = "three commit log files"


def _file_size(job: Job) -> int:
    return job.store.geometry.commitlog_file_size


def _between(job: Job) -> tuple[MappedFile, MappedFile, MappedFile]:
    """A whole commit log file between two others with records: the one before it, itself, the next."""
    files, size = job.log_files, _file_size(job)
    found = [
        (before, file, following)
        for before, file, following in zip(files, files[1:], files[2:], strict=False)
        if job.is_free(file.relative)
        and file.size == size
        and (before.start_offset or 0) + 2 * size == (file.start_offset or 0) + size == following.start_offset
        and len(job.log(following))
        and len(job.log(file))
    ]
    return job.choose(found, "commit log file between two others")


def _promise_lost_units(job: Job, start: int, end: int, rule: RuleName) -> None:
    """A `rule` names every queue's units that point to `start:end` of the log, with their exact range."""
    for queue in job.store.queues:
        scene: QueueScene = job.queue(queue)
        offsets = scene.offsets()
        rows = ((offsets >= start) & (offsets < end)).nonzero()[0].tolist()
        if not rows or not scene.whole or rows[-1] - rows[0] + 1 != len(rows):
            continue
        first = scene.unit(scene.start_index + rows[0])
        job.promise(unit_place(first, len(rows), first.offset), rule)
        job.rely(first.file.relative, first.start)


def _lose_inner(job: Job, rule: RuleName = RuleName.UNIT_IN_MISSING_SEGMENT) -> tuple[MappedFile, MappedFile]:
    """A commit log file between two others, which is about to be lost, and the one after it."""
    _, file, following = _between(job)
    start = file.start_offset or 0
    _promise_lost_units(job, start, start + file.size, rule)
    job.rely("commitlog/")
    return file, following


@damage("C5", (RuleName.SEGMENT_GAP, RuleName.UNIT_IN_MISSING_SEGMENT), _THREE_FILES, SEGMENT_LOST)
def missing_segment(job: Job) -> None:
    """A commit log file between two others is missing."""
    file, following = _lose_inner(job)
    job.remove(file.relative, PromisedPlace(following.relative), RuleName.SEGMENT_GAP)


@damage(
    "C6", (RuleName.FOREIGN_FILE, RuleName.SEGMENT_GAP, RuleName.LOG_FILE_MISNAMED,
    RuleName.UNIT_IN_MISNAMED_FILE), _THREE_FILES, SEGMENT_LOST,
)  # fmt: skip
def segment_renamed(job: Job) -> None:
    """A commit log file has a name that is not an offset.

    An operator who wants to keep a file renames it like this.
    """
    file, following = _lose_inner(job, RuleName.UNIT_IN_MISNAMED_FILE)
    name = f"{file.relative}.old"
    job.editor.rename(file.relative, name)
    job.note = f"{file.relative} renamed to {name}"
    job.promise(PromisedPlace(name, 0, file.size), RuleName.FOREIGN_FILE)
    job.promise(PromisedPlace(name, 0), RuleName.LOG_FILE_MISNAMED)
    job.promise(PromisedPlace(following.relative), RuleName.SEGMENT_GAP)


@damage(
    "C6", (RuleName.RECORD_PHYSICAL_OFFSET, RuleName.LOG_FILE_MISNAMED), "a commit log file", ANY_LOG,
    SEGMENT_LOST, RuleName.QUEUES_OF_ANOTHER_LOG, RuleName.SEGMENT_ALIGNMENT, RuleName.UNIT_IN_MISNAMED_FILE,
)  # fmt: skip
def segment_misnumbered(job: Job) -> None:
    """The last commit log file has the number of a later file.

    No file of that number exists.
    """
    log = job.last_log()
    file = log.file
    job.need(file is job.log_files[-1] and log.sound and job.is_free(file.relative), "free last file")
    start = (file.start_offset or 0) + 2 * _file_size(job)
    name = f"commitlog/{offset_to_filename(start)}"
    first = log.record(0)
    job.editor.rename(file.relative, name)
    job.note = f"{file.relative} renamed to {name}"
    place = PromisedPlace(name, first.pos, physical_offset=start + first.pos)
    job.promise(place, RuleName.RECORD_PHYSICAL_OFFSET)
    job.promise(PromisedPlace(name, 0), RuleName.LOG_FILE_MISNAMED)
    job.rely("commitlog/")


@damage("C6", RuleName.LOG_FILE_COPIED, "two commit log files", RuleName.CHECKPOINT_AHEAD)
def segment_copied(job: Job) -> None:
    """The first commit log file is there twice.

    The copy has the name of the next file.
    """
    files = job.log_files
    first, last = files[0], files[-1]
    whole = len(files) > 1 and job.log(first).sound and first.size == last.size == _file_size(job)
    job.need(whole, "two whole commit log files")
    start = (last.start_offset or 0) + last.size
    name = f"{last.relative.rpartition('/')[0]}/{offset_to_filename(start)}"
    job.editor.create(name, job.editor.content(first.relative), like=first.relative)
    job.done(f"{first.relative} copied to {name}", PromisedPlace(name, 0, physical_offset=start))
    job.rely("commitlog/")


@damage(
    "C6", (RuleName.SEGMENT_LENGTH, RuleName.LOG_FILE_APPENDED), "five commit log files",
    RuleName.CHECKPOINT_AHEAD,
)  # fmt: skip
def segment_appended(job: Job) -> None:
    """A commit log file is at the end of the one before it.

    There is no file of its own name.
    """
    before, file, _ = _between(job)
    job.need(len(job.log_files) > 4, "five commit log files: the others show how long a file is")
    is_whole = before.size == file.size and job.log(before).sound
    job.need(job.is_free(before.relative) and is_whole, "whole file before it")
    content = job.editor.content(before.relative) + job.editor.content(file.relative)
    job.editor.replace(before.relative, content)
    job.editor.remove(file.relative)
    job.note = f"{file.relative} appended to {before.relative}"
    job.promise(PromisedPlace(before.relative, 0, len(content)), RuleName.SEGMENT_LENGTH)
    job.promise(PromisedPlace(before.relative, file.size), RuleName.LOG_FILE_APPENDED)
    job.rely("commitlog/")


def _blank(job: Job, least: int) -> tuple[LogScene, int, int]:
    """A file that ends with a BLANK of so many bytes at least, and that another with records follows; where
    the BLANK begins in the file, and in the log."""
    found = [
        (log, log.blank_pos, (log.file.start_offset or 0) + log.blank_pos)
        for log, following in itertools.pairwise(map(job.log, job.log_files))
        if log.sound and log.blank_pos is not None and len(following)
        if job.is_free(log.file.relative, log.blank_pos) and log.size - log.blank_pos >= least
    ]
    return job.choose(found, "commit log file that ends with a BLANK before another")


@damage("C6", RuleName.SEGMENT_LENGTH, "room after the last record")
def short_segment(job: Job) -> None:
    """The last commit log file was cut after its records."""
    log = job.last_log()
    low, high = log.live_end + 1, log.size - 1
    job.need(log.sound and low < high and log.file is job.log_files[-1], "room after its last record")
    job.need(job.is_free(log.file.relative, log.live_end), "room after its last record")
    size = low + job.rng.randrange(high - low)
    size -= size % 1024 == 0  # a whole number of KiB would pass for a setting
    job.cut(log.file.relative, size)


def _next_start(job: Job) -> int:
    job.need(job.log_files, "commit log file")
    return (job.log_files[-1].start_offset or 0) + _file_size(job)


@damage("C6", (RuleName.SEGMENT_LENGTH, RuleName.EMPTY_LAST_SEGMENT), "a commit log file")
def empty_segment(job: Job) -> None:
    """The last commit log file has 0 bytes.

    The broker died between making the file and giving it its length.
    """
    name = f"commitlog/{offset_to_filename(_next_start(job))}"
    job.need(job.is_free(name), "place for a further commit log file")
    job.editor.create(name, like=job.log_files[-1].relative)
    job.note = f"{name} has no bytes"
    job.promise(PromisedPlace(name, 0, 0), RuleName.EMPTY_LAST_SEGMENT, RuleName.SEGMENT_LENGTH)


@damage(
    "C6", RuleName.FOREIGN_FILE, "a commit log file", options={"in": "commitlog (default) or consumequeue"}
)
def stray_file(job: Job) -> None:
    """A file that is not a segment has the first name in its directory."""
    directory = job.options.get("in", "commitlog")
    if directory == "consumequeue":
        queue = job.choose([queue for queue in job.store.queues if queue.files], "consume queue")
        directory = job.queue(queue).files[0].relative.rpartition("/")[0]
    name = f"{directory}/.DS_Store"
    job.need(job.store.commitlog.files and not job.editor.exists(name), "commit log file")
    size = 1 + job.rng.randrange(6148)
    data = bytes(job.rng.randrange(256) for _ in range(size))
    job.editor.create(name, data, like=job.log_files[0].relative)
    job.done(f"{name} of {size:,} bytes", PromisedPlace(name, 0, size))


@damage(
    "C7", RuleName.SEGMENT_TWICE, "a commit log file", ANY_LOG, SEGMENT_LOST, RuleName.SEGMENT_OVERLAP,
    alone=True,
)  # fmt: skip
def segment_twice(job: Job) -> None:
    """A second commit log directory has a file of the same name, all zeros."""
    whole = [file for file in job.log_files if file.size == _file_size(job)]
    file = job.choose(whole, "whole commit log file")
    twin = f"{SECOND_PATH}/{file.name}"
    job.need(not job.editor.exists(SECOND_PATH), "single commit log directory")
    job.editor.create(twin, size=file.size, like=file.relative)
    job.commitlog_paths = ("commitlog", SECOND_PATH)
    job.done(f"{twin}, all zeros, in addition to {file.relative}", PromisedPlace(twin))


@damage(
    "C8", RuleName.COMMITLOG_MISSING, "a commit log and consume queues", QUEUE_LOST, RuleName.GHOST_QUEUE,
    RuleName.CHECKPOINT_AHEAD, RuleName.LOGICS_OFFSET_AHEAD, alone=True,
)  # fmt: skip
def commitlog_gone(job: Job) -> None:
    """Queues exist, but no commit log file.

    A disk that is not mounted looks like this.
    """
    job.need(job.store.commitlog.files, "commit log file")
    job.need(any(queue.files for queue in job.store.queues), "consume queue")
    for file in job.store.commitlog.files:
        job.editor.remove(file.relative)
    job.done("every commit log file removed", PromisedPlace("commitlog"))


@damage("C9", RuleName.SEGMENTS_NEVER_FILLED, "a commit log file", RuleName.BLANK_MISSING)
def never_filled(job: Job) -> None:
    """More empty commit log files than a broker makes in advance.

    The files hold no data.
    """
    start = _next_start(job)
    zeros: list[MappedFile] = []
    for file in reversed(job.log_files):
        log = job.log(file)
        if len(log) or log.live_end:
            break
        zeros.append(file)
    names = [f"commitlog/{offset_to_filename(start + n * _file_size(job))}" for n in range(_MORE_EMPTY_FILES)]
    job.need(all(job.is_free(name) for name in names), "place for further commit log files")
    for name in names:
        job.editor.create(name, size=_file_size(job), like=job.log_files[-1].relative)
    first = zeros[-1].relative if zeros else names[0]
    job.note = f"{len(names)} files without data from {names[0]} on"
    job.promise(PromisedPlace(first, 0, _file_size(job), zeros[-1].start_offset if zeros else start))


@damage(
    "C2", RuleName.SEGMENT_ZERO_INSIDE, _THREE_FILES, RECORD_LOST, RuleName.BLANK_MISSING,
    RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_GHOST, RuleName.ENTRY_DANGLING, RuleName.LOG_NO_RECORDS,
)  # fmt: skip
def zero_segment(job: Job) -> None:
    """A commit log file between two others is all zeros."""
    _, file, _ = _between(job)
    size = file.size
    job.editor.truncate(file.relative, 0)
    job.editor.truncate(file.relative, size)
    job.done(f"{file.relative} is all zeros", PromisedPlace(file.relative, 0, size, file.start_offset))


@damage("C2", RuleName.BLANK_MISSING, "two commit log files")
def blank_missing(job: Job) -> None:
    """The BLANK at the end of a file is missing."""
    log, pos, offset = _blank(job, 0)
    job.editor.write(log.file.relative, pos, bytes(log.size - pos))
    job.note = f"the BLANK of {log.file.relative} removed"
    job.promise(PromisedPlace(log.file.relative, pos, log.size, offset))


@damage("C10", RuleName.BLANK_SIZE, "two commit log files")
def blank_size(job: Job) -> None:
    """A BLANK states a wrong size for the rest of its file."""
    log, pos, offset = _blank(job, 9)
    wrong = log.size - pos + 1 + job.rng.randrange(1000)
    job.editor.write(log.file.relative, pos, wrong.to_bytes(4, "big"))
    job.note = f"the BLANK of {log.file.relative} says {wrong:,} bytes"
    job.promise(PromisedPlace(log.file.relative, pos, pos + 8, offset))


@damage(
    "Q5", (RuleName.QUEUE_EXPIRED, RuleName.UNITS_EXPIRED), "two commit log files",
    RuleName.LOG_BEGINNING_GONE, RuleName.GHOST_QUEUE, RuleName.DELAY_OFFSET_RANGE, RuleName.CONFIRM_OFFSET,
    RuleName.EPOCH_BOUNDARY, RuleName.QUEUE_OFFSET_GAP,
)  # fmt: skip
def first_segment_missing(job: Job) -> None:
    """The first commit log file is missing, as after expiry."""
    files = job.log_files
    has_second = len(files) > 1 and len(job.log(files[1])) and job.is_free("commitlog/")
    job.need(has_second, "second commit log file")
    file, limit = files[0], files[1].start_offset or 0
    job.editor.remove(file.relative)
    job.note = f"{file.relative} removed"
    for queue in job.store.queues:
        scene = job.queue(queue)
        offsets = scene.offsets()
        gone = int((offsets < limit).sum())
        if gone and scene.whole:
            directory = scene.files[0].relative.rpartition("/")[0]
            place = PromisedPlace(directory, topic=queue.topic, queue_id=queue.queue_id)
            job.promise(place, RuleName.QUEUE_EXPIRED if gone == len(offsets) else RuleName.UNITS_EXPIRED)
    job.rely("commitlog/")
