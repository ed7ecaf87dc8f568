"""Damages a copy of a store that a real broker wrote; rocketfsck says what is wrong with it and repairs it.

Then the repair is taken back, and what is left is exported with an embedded Spark.

Run by `make demo`. Everything happens in a temporary directory; nothing is left behind.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

ARCHIVE = Path(__file__).parent.parent / "tests" / "data" / "stores" / "4.9.8-multiseg.tar.xz"
TOPIC = (
    '"{0}":{{"order":false,"perm":6,"readQueueNums":3,"topicFilterType":"SINGLE_TAG","topicName":"{0}",'
    '"topicSysFlag":0,"writeQueueNums":3}}'
)
TOPICS = (
    '{"dataVersion":{"counter":2,"timestamp":1700000000000},"topicConfigTable":{'
    + ",".join(TOPIC.format(name) for name in ("Seg0", "Seg1"))
    + "}}"
)
INDEX_HEADER_SIZE, SLOT_COUNT, ENTRY_SIZE = 40, 128, 20


def flip_body_bit(store: Path) -> str:
    """Bit rot: one bit of one message body in the second segment."""
    segment = store / "commitlog" / "00000000000000131072"
    data = bytearray(segment.read_bytes())
    body_pos = 88
    data[body_pos + 3] ^= 0x10
    segment.write_bytes(data)
    return f"flipped one bit of a body in {segment.relative_to(store)} at byte {body_pos + 3}"


def overwrite_middle(store: Path) -> str:
    """A lost boundary: a disk block in the middle of a segment holds something else."""
    segment = store / "commitlog" / "00000000000000262144"
    with segment.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xa5" * 512)
    return f"overwrote 512 bytes of {segment.relative_to(store)} at byte {4096 * 10}"


def tear_tail(store: Path) -> str:
    """A power cut: the second half of the last record never reached the disk."""
    segment = store / "commitlog" / "00000000000000524288"
    data = bytearray(segment.read_bytes())
    pos = last = 0
    while int.from_bytes(data[pos : pos + 4], "big") > 0:
        last, pos = pos, pos + int.from_bytes(data[pos : pos + 4], "big")
    middle = (last + pos) // 2
    data[middle:] = bytes(len(data) - middle)
    segment.write_bytes(data)
    return f"zeroed {segment.relative_to(store)} from byte {middle}, inside the last record"


def remove_queue(store: Path) -> str:
    """A consume queue that was deleted by hand."""
    queue = sorted((store / "consumequeue").glob("*/1"))[0]
    shutil.rmtree(queue)
    return f"removed {queue.relative_to(store)}"


def loop_chain(store: Path) -> str:
    """A hash chain that runs in a circle: a broker that walks it never comes back."""
    index = sorted((store / "index").iterdir())[0]
    data = bytearray(index.read_bytes())
    entries_pos = INDEX_HEADER_SIZE + 4 * SLOT_COUNT
    heads = struct.unpack_from(f">{SLOT_COUNT}i", data, INDEX_HEADER_SIZE)
    for slot, head in enumerate(heads):
        chain = [head]
        while chain[-1] > 0:
            chain.append(struct.unpack_from(">i", data, entries_pos + chain[-1] * ENTRY_SIZE + 16)[0])
        if len(chain) > 3:
            struct.pack_into(">i", data, entries_pos + chain[-2] * ENTRY_SIZE + 16, head)
            index.write_bytes(data)
            size = len(chain) - 1
            return f"closed the chain of slot {slot} of {index.relative_to(store)} to a circle of {size}"
    raise SystemExit("the store has no chain of three entries")


def break_offsets(store: Path) -> str:
    """A config file cut by a power failure, as brokers before 5.1 and after write them."""
    config = store / "config"
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_text(TOPICS)
    (config / "consumerOffset.json").write_bytes(b'{\n\t"offsetTable":{\n\t\t"Seg0@group":{0:12,1:1')
    return "cut config/consumerOffset.json in the middle of a number"


DAMAGES: tuple[Callable[[Path], str], ...] = (
    flip_body_bit,
    overwrite_middle,
    tear_tail,
    remove_queue,
    loop_chain,
    break_offsets,
)


def prepare(target: Path) -> tuple[Path, list[str]]:
    """Unpacks the store into `target` and damages it; returns its directory and what was done."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(target, filter="tar")
    store = target / ARCHIVE.name.removesuffix(".tar.xz") / "store"
    store = store.rename(target / "store")
    return store, [damage(store) for damage in DAMAGES]


def run(directory: Path, *arguments: str) -> int:
    """Shows and runs one rocketfsck command; returns its exit status."""
    print(f"\n$ rocketfsck {' '.join(arguments)}", flush=True)
    status = subprocess.run(["rocketfsck", *arguments], cwd=directory, check=False).returncode
    print(f"(exit status {status})", flush=True)
    return status


COMMANDS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("info", "store"), 0),
    (("check", "store"), 4),
    (("explain", "index-chain-cycle"), 0),
    (("fix", "--yes", "store"), 1),
    (("check", "store"), 0),
    (("undo", "store"), 0),
    (("export", "store", "--into", "table", "--engine", "spark"), 4),
)
"""What is run, and the exit status that each must have."""


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file below a directory."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rocketfsck-demo-") as folder:
        directory = Path(folder)
        store, done = prepare(directory)
        print("A store written by a RocketMQ 4.9.8 broker; the damage done to this copy of it:")
        for line in done:
            print(f"  - {line}")
        damaged = digests(store)
        statuses = [run(directory, *words) for words, _ in COMMANDS]
        same = digests(store) == damaged
        print(f"\nAfter the undo the bytes are {'' if same else 'not '}those of before.")
        return 0 if same and statuses == [status for _, status in COMMANDS] else 1


if __name__ == "__main__":
    sys.exit(main())
