"""Synthesis in bulk: a whole store from a seed, against writing as many ready bytes into a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rocketfsck.writer import WriteOptions
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.synth import parse_mix, synthesize

from benchmarks.measure import Job, Row, interleaved

WANTED = 300e6
"""Bytes of commit log a second, for messages of 1 KiB with keys."""

MIXES = {
    "1 KiB bodies": "plain",
    "128 B bodies": "body=128",
    "text of 16 B to 16 KiB": "body=log:16:16KiB,content=text",
}
_PIECE_SIZE = 4 << 20


def synth_rows(folder: Path, size: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """Making a store of `size` bytes of commit log with consume queues, index and manifest, nothing synced;
    the kernels run on one thread. The yardstick writes as many bytes, and deletes them again."""
    ready = np.random.default_rng(1).integers(0, 256, _PIECE_SIZE, np.uint8).data
    place = folder / "synth"

    def write() -> None:
        path = folder / "synth.ready"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            for pos in range(0, size, _PIECE_SIZE):
                os.pwrite(descriptor, ready, pos)
        finally:
            os.close(descriptor)
            path.unlink()

    for name, mix in MIXES.items():

        def make(mix: str = mix) -> None:
            manifest = synthesize(
                place, parse_mix(mix), WriteOptions(sync=False), size=size, manifest=ManifestLevel.BRIEF
            ).manifest
            shutil.rmtree(place)
            assert manifest is not None
            manifest.unlink()

        jobs: dict[str, Job] = {"write": write, "make": make}
        least = interleaved(jobs, max(rounds // 2, 1))
        rate = size / least["make"]
        ratio = least["make"] / least["write"]
        yardstick = f"writing as many bytes, {least['write'] * 1e3:.1f} ms"
        yield Row(f"synthesis, {name}", least["make"] * 1e3, yardstick, ratio, rate=f"{rate / 1e6:.0f} MB/s")
        if mix == "plain":
            goal = 1.0 if with_goals else None
            milliseconds = least["make"] * 1e3
            yield Row("… its rate", milliseconds, "300 MB/s", rate / WANTED, goal, at_least=True)
