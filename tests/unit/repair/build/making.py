"""Small stores for the tests of the builders, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rocketfsck.formats.consumequeue import UNIT, UNIT_SIZE
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import Store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

START = 1_700_000_000_000
LOG_FILE_SIZE = 4096
GEOMETRY = Geometry(
    commitlog_file_size=LOG_FILE_SIZE,
    consumequeue_file_size=200,
    batch_file_size=46 * 4,
    ext_file_size=70,
    slot_count=16,
    entry_count=12,
)
CONF = """mappedFileSizeCommitLog=4096
mappedFileSizeConsumeQueue=200
mapperFileSizeBatchConsumeQueue=184
mappedFileSizeConsumeQueueExt=70
maxHashSlotNum=16
maxIndexNum=12
"""


def message(number: int, topic: str = "T", queue_id: int = 0, **more: Any) -> OutgoingMessage:
    """A message of about 190 bytes with one key, a second after the one before it."""
    properties = more.pop("properties", {"KEYS": f"k{number}", "TAGS": "A"})
    return OutgoingMessage(
        topic,
        more.pop("body", b"b" * 60),
        more.pop("timestamp", START + 1000 * number),
        queue_id=queue_id,
        properties=properties,
        **more,
    )


def options(**changed: Any) -> WriteOptions:
    settings: dict[str, Any] = {"version": "5.3.3", "geometry": GEOMETRY, "sync": False}
    return WriteOptions(**{**settings, **changed})


def make_store(folder: Path, messages: Iterable[OutgoingMessage], *, conf: str = "", **changed: Any) -> Store:
    """A store below `folder`, opened with its geometry."""
    made = options(**changed)
    folder.mkdir(exist_ok=True)
    write_store(folder / "store", messages, made)
    return reopen(folder, conf=conf, version=made.version)


def reopen(folder: Path, *, conf: str = "", version: str = "5.3.3") -> Store:
    (folder / "broker.conf").write_text(CONF + conf, "ascii")
    return open_store(folder / "store", broker_conf=folder / "broker.conf", version=version)


def records(store: Store) -> list[tuple[int, int]]:
    """(physical offset, size) of all records of a sound log."""
    found = []
    for file in store.commitlog.files:
        data, pos = file.path.read_bytes(), 0
        while int.from_bytes(data[pos + 4 : pos + 8], "big") in (0xDAA320A7, 0xDAA320AB):
            size = int.from_bytes(data[pos : pos + 4], "big")
            found.append(((file.start_offset or 0) + pos, size))
            pos += size
    return found


def change_log(store: Store, offset: int, data: bytes) -> None:
    """Overwrite bytes of the log; they must lie in one file."""
    path = store.root / "commitlog" / f"{offset // LOG_FILE_SIZE * LOG_FILE_SIZE:020d}"
    with path.open("r+b") as file:
        file.seek(offset % LOG_FILE_SIZE)
        file.write(data)


def units(folder: Path, topic: str, queue_id: int = 0) -> list[tuple[int, int, int]]:
    """(offset, size, tagsCode) of a queue's units, file by file, without the zeros at the end."""
    found = []
    for path in sorted((folder / "consumequeue" / topic / str(queue_id)).glob("*")):
        data = path.read_bytes()
        for pos in range(0, len(data), UNIT_SIZE):
            unit = UNIT.parse(data, pos)
            found.append((unit["offset"], unit["size"], unit["tagsCode"]))
    while found and found[-1] == (0, 0, 0):
        found.pop()
    return found


def files(folder: Path, areas: Sequence[str]) -> dict[str, bytes]:
    """The files of some directories by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for area in areas
        for path in (folder / area).rglob("*")
        if path.is_file()
    }
