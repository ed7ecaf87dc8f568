"""Damages as people make them with a shell: a table of names and functions over a store's directory.

    store directory  ->  damage (moves, copies and overwrites files)  ->  None

Nothing here comes from rocketfsck's own damages: names, sizes and places are those that a file manager shows.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

PAGE_SIZE = 4096
DAY_MS = 86_400_000

Damage = Callable[[Path], None]


def files_of(store: Path, area: str) -> list[Path]:
    """The files of an area below the root in the order of their names, directories left out."""
    return sorted(path for path in (store / area).iterdir() if path.is_file())


def _log(store: Path, number: int) -> Path:
    return files_of(store, "commitlog")[number]


def _queue(store: Path) -> Path:
    return store / "consumequeue" / "Topic0" / "0"


def _queue_file(store: Path, number: int) -> Path:
    return sorted(_queue(store).iterdir())[number]


def _index_file(store: Path, number: int) -> Path:
    return files_of(store, "index")[number]


def _leave(_: Path) -> None:
    """Nothing is done: what is said of a sound store is judged, too."""


def _rename_log(store: Path, number: int, name: str) -> None:
    """`{}` in the new name stands for the old one."""
    path = _log(store, number)
    path.rename(path.with_name(name.format(path.name)))


def _shorten_log_name(store: Path, number: int) -> None:
    """The zeros in front are gone: the same number for a broker, but not in the same order."""
    path = _log(store, number)
    path.rename(path.with_name(str(int(path.name))))


def _delete_logs(store: Path, first: int, last: int | None) -> None:
    for path in files_of(store, "commitlog")[first:last]:
        path.unlink()


def _overwrite(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


def _zero_from_half(path: Path) -> None:
    half = path.stat().st_size // 2
    _overwrite(path, half, bytes(path.stat().st_size - half))


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _end_of_log(path: Path) -> int:
    """The position behind the last byte that is no zero."""
    return len(path.read_bytes().rstrip(b"\0"))


def _swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def _swap_logs(store: Path) -> None:
    _swap(_log(store, 0), _log(store, 1))


def _swap_index_files(store: Path) -> None:
    _swap(_index_file(store, 0), _index_file(store, 1))


def _zero_log(store: Path, number: int, part: str) -> None:
    path = _log(store, number)
    if part == "tail":
        end = _end_of_log(path)
        _overwrite(path, end // 2, bytes(end - end // 2))
    elif part == "page":
        _overwrite(path, path.stat().st_size // 2 // PAGE_SIZE * PAGE_SIZE, bytes(PAGE_SIZE))
    else:
        _overwrite(path, 0, bytes(path.stat().st_size))


def _garbage_in_log(store: Path) -> None:
    path = _log(store, -1)
    _overwrite(path, _end_of_log(path) + 8, b"\xa5" * 100)


def _extend_log(store: Path, number: int) -> None:
    _append(_log(store, number), b"more bytes")


def _truncate_log(store: Path, number: int) -> None:
    _halve(_log(store, number))


def _empty_log(store: Path, number: int) -> None:
    os.truncate(_log(store, number), 0)


def _stray(store: Path, name: str) -> None:
    (store / "commitlog" / name).write_text("notes of the operator\n")


def _stray_directory(store: Path, name: str) -> None:
    (store / "commitlog" / name).mkdir()


def _copy_log(store: Path, name: str) -> None:
    path = _log(store, 1)
    shutil.copy2(path, path.with_name(name.format(path.name)))


def _copy_behind_log(store: Path) -> None:
    """An earlier file is put in front of the messages to come."""
    last = _log(store, -1)
    shutil.copy2(_log(store, 1), last.with_name(f"{int(last.name) + last.stat().st_size:020}"))


def _overwrite_last_log(store: Path) -> None:
    shutil.copy2(_log(store, 1), _log(store, -1))


def _older_log(store: Path) -> None:
    """The last files of the log are from a backup in which half of the last messages were not yet."""
    _log(store, -1).unlink()
    path = _log(store, -1)
    _overwrite(path, path.stat().st_size // 2, bytes(path.stat().st_size - path.stat().st_size // 2))


def _older_queues(store: Path) -> None:
    """Every queue is from a backup in which its later half was not yet."""
    for queue in sorted((store / "consumequeue").glob("*/*")):
        paths = sorted(queue.iterdir())
        for path in paths[len(paths) // 2 + 1 :]:
            path.unlink()
        _zero_from_half(paths[len(paths) // 2])


def _queues_of_a_moment(store: Path) -> None:
    """All queues are of one moment in the middle of the last log file but one: none has a later unit.

    But for light queues: one that is gone leaves no trace, so that nothing can tell of it.
    """
    units = struct.Struct(">qi8x")
    paths = [
        path
        for path in sorted((store / "consumequeue").glob("*/*/*"))
        if path.is_file() and "%LMQ%" not in str(path)
    ]
    begin = int(_log(store, -2).name)
    known = sorted(
        offset
        for path in paths
        for offset, size in units.iter_unpack(path.read_bytes())
        if size > 0 and begin <= offset < begin + _log(store, -2).stat().st_size
    )
    moment = known[len(known) // 2]
    for path in paths:
        data = path.read_bytes()
        left = b"".join(
            data[pos : pos + units.size]
            for pos in range(0, len(data), units.size)
            if units.unpack_from(data, pos)[0] < moment
        )
        if left.strip(b"\0"):
            path.write_bytes(left.ljust(len(data), b"\0"))
        else:
            path.unlink()
    for queue in (store / "consumequeue").glob("*/*"):
        if not any(queue.iterdir()):
            queue.rmdir()


def _remove(store: Path, name: str) -> None:
    path = store / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _remove_queue_file(store: Path, number: int) -> None:
    _queue_file(store, number).unlink()


def _change_queue_file(store: Path, change: Damage) -> None:
    change(_queue_file(store, -1))


def _zero(path: Path) -> None:
    _overwrite(path, 0, bytes(path.stat().st_size))


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _queue_of_another(store: Path) -> None:
    shutil.rmtree(_queue(store))
    shutil.copytree(store / "consumequeue" / "Topic1" / "0", _queue(store))


def _change_index(store: Path, change: Damage) -> None:
    change(_index_file(store, -1))


def _remove_index_file(store: Path) -> None:
    _index_file(store, 0).unlink()


def _move_checkpoint(store: Path, by_ms: int) -> None:
    path = store / "checkpoint"
    times = struct.unpack(">3q", path.read_bytes()[:24])
    _overwrite(path, 0, struct.pack(">3q", *(time + by_ms for time in times)))


def _change_checkpoint(store: Path, change: Damage) -> None:
    change(store / "checkpoint")


def _create_abort(store: Path) -> None:
    (store / "abort").touch()


def _half_written(store: Path, name: str) -> None:
    """The file stops in its middle and has no backup."""
    (store / "config" / f"{name}.bak").unlink(missing_ok=True)
    _halve(store / "config" / name)


def _only_backup(store: Path, name: str) -> None:
    path = store / "config" / name
    path.rename(path.with_name(f"{name}.bak"))


def _offsets_ahead(store: Path) -> None:
    path = store / "config" / "consumerOffset.json"
    document = json.loads(path.read_text())
    for queues in document["offsetTable"].values():
        queues.update({queue: offset + 1_000_000 for queue, offset in queues.items()})
    path.write_text(json.dumps(document))


def _sparse(store: Path) -> None:
    """What `cp --sparse=always` does: pages of zeros become holes, and no byte is another."""
    for path in files_of(store, "commitlog"):
        data = path.read_bytes()
        with path.open("wb") as file:
            for pos in range(0, len(data), PAGE_SIZE):
                page = data[pos : pos + PAGE_SIZE]
                if page.strip(b"\0"):
                    file.seek(pos)
                    file.write(page)
            file.truncate(len(data))


def _touch(store: Path, age_ms: int) -> None:
    """Every file has the same time of change, as after a copy without `-p`."""
    for path in store.rglob("*"):
        if path.is_file():
            seconds = (path.stat().st_mtime * 1000 - age_ms) / 1000
            os.utime(path, (seconds, seconds))


def _rename_queue_directory(store: Path) -> None:
    _queue(store).parent.rename(_queue(store).parent.with_name("Topic0.old"))


def _empty_queue_directory(store: Path) -> None:
    for path in _queue(store).iterdir():
        path.unlink()


def _drop_digit(store: Path) -> None:
    """One digit less: the name still is a number, of another place."""
    path = _log(store, 1)
    path.rename(path.with_name(path.name[:-1]))


def _log_of_another_size(store: Path) -> None:
    """A file of another broker, whose files have other sizes, under the next name."""
    last = _log(store, -1)
    data = _log(store, 0).read_bytes()
    last.with_name(f"{int(last.name) + len(data):020}").write_bytes(data + bytes(len(data)))


def _two(store: Path, first: str, second: str) -> None:
    DAMAGES[first](store)
    DAMAGES[second](store)


def _modes(store: Path) -> None:
    for path in files_of(store, "commitlog"):
        path.chmod(0o444)


DAMAGES: Mapping[str, Damage] = {
    "nothing": _leave,
    "log-first-renamed-to-text": partial(_rename_log, number=0, name="old"),
    "log-first-renamed-to-bak": partial(_rename_log, number=0, name="{}.bak"),
    "log-middle-renamed-to-old": partial(_rename_log, number=1, name="{}.old"),
    "log-middle-renamed-to-number": partial(_rename_log, number=1, name="00000000000000070000"),
    "log-last-renamed-to-bak": partial(_rename_log, number=-1, name="{}.bak"),
    "log-last-renamed-to-tilde": partial(_rename_log, number=-1, name="{}~"),
    "log-last-renamed-to-number": partial(_rename_log, number=-1, name="00000000000009999999"),
    "log-last-renamed-short": partial(_shorten_log_name, number=-1),
    "log-last-renamed-to-that-of-another": partial(_rename_log, number=-1, name="65536"),
    "log-swapped": _swap_logs,
    "log-first-deleted": partial(_delete_logs, first=0, last=1),
    "log-middle-deleted": partial(_delete_logs, first=1, last=2),
    "log-last-deleted": partial(_delete_logs, first=-1, last=None),
    "log-last-two-deleted": partial(_delete_logs, first=-2, last=None),
    "log-all-deleted": partial(_delete_logs, first=0, last=None),
    "log-first-truncated": partial(_truncate_log, number=0),
    "log-last-truncated": partial(_truncate_log, number=-1),
    "log-last-tail-zeroed": partial(_zero_log, number=-1, part="tail"),
    "log-middle-page-zeroed": partial(_zero_log, number=1, part="page"),
    "log-middle-zeroed": partial(_zero_log, number=1, part="all"),
    "log-garbage-behind-end": _garbage_in_log,
    "log-middle-extended": partial(_extend_log, number=1),
    "log-last-extended": partial(_extend_log, number=-1),
    "log-middle-emptied": partial(_empty_log, number=1),
    "log-last-emptied": partial(_empty_log, number=-1),
    "log-stray-file": partial(_stray, name="README"),
    "log-stray-directory": partial(_stray_directory, name="backup"),
    "log-copy": partial(_copy_log, name="{}.copy"),
    "log-copy-with-next-number": _copy_behind_log,
    "log-last-overwritten": _overwrite_last_log,
    "log-from-older-backup": _older_log,
    "log-sparse": _sparse,
    "queues-all-removed": partial(_remove, name="consumequeue"),
    "queues-of-topic-removed": partial(_remove, name="consumequeue/Topic0"),
    "queue-removed": partial(_remove, name="consumequeue/Topic0/0"),
    "queue-first-file-removed": partial(_remove_queue_file, number=0),
    "queue-middle-file-removed": partial(_remove_queue_file, number=1),
    "queue-last-file-removed": partial(_remove_queue_file, number=-1),
    "queue-file-zeroed": partial(_change_queue_file, change=_zero),
    "queue-file-truncated": partial(_change_queue_file, change=_halve),
    "queue-file-emptied": partial(_change_queue_file, change=_empty),
    "queues-from-older-backup": _older_queues,
    "queue-of-another-topic": _queue_of_another,
    "index-removed": partial(_remove, name="index"),
    "index-file-removed": _remove_index_file,
    "index-file-truncated": partial(_change_index, change=_halve),
    "index-file-zeroed": partial(_change_index, change=_zero),
    "index-files-swapped": _swap_index_files,
    "checkpoint-removed": partial(_remove, name="checkpoint"),
    "checkpoint-zeroed": partial(_change_checkpoint, change=_zero),
    "checkpoint-emptied": partial(_change_checkpoint, change=_empty),
    "checkpoint-older": partial(_move_checkpoint, by_ms=-DAY_MS),
    "checkpoint-from-the-future": partial(_move_checkpoint, by_ms=DAY_MS),
    "abort-created": _create_abort,
    "config-removed": partial(_remove, name="config"),
    "topics-half-written": partial(_half_written, name="topics.json"),
    "topics-only-backup": partial(_only_backup, name="topics.json"),
    "offsets-removed": partial(_remove, name="config/consumerOffset.json"),
    "offsets-ahead": _offsets_ahead,
    "times-changed": partial(_touch, age_ms=DAY_MS),
    "log-read-only": _modes,
    "log-middle-with-a-digit-less": _drop_digit,
    "log-of-another-size-behind": _log_of_another_size,
    "queue-directory-of-topic-renamed": _rename_queue_directory,
    "queue-directory-emptied": _empty_queue_directory,
    "queue-removed-and-log-last-deleted": partial(_two, first="queue-removed", second="log-last-deleted"),
    "queues-all-removed-and-abort": partial(_two, first="queues-all-removed", second="abort-created"),
    "log-last-tail-zeroed-and-abort": partial(_two, first="log-last-tail-zeroed", second="abort-created"),
    "log-middle-zeroed-and-abort": partial(_two, first="log-middle-zeroed", second="abort-created"),
    "index-removed-and-abort": partial(_two, first="index-removed", second="abort-created"),
    "checkpoint-removed-and-abort": partial(_two, first="checkpoint-removed", second="abort-created"),
    "log-first-deleted-and-queues-all": partial(_two, first="log-first-deleted", second="queues-all-removed"),
    "log-and-queues-from-older-backup": partial(
        _two, first="log-from-older-backup", second="queues-from-older-backup"
    ),
    "config-removed-and-queue-removed": partial(_two, first="config-removed", second="queue-removed"),
    "queues-of-a-moment": _queues_of_a_moment,
}
"""By name: what somebody does to a store with four log files, two index files, `Topic0` and `Topic1`."""
