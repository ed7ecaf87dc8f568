"""What `check` says first of forty damages, in a terminal of 80 columns: tests/cases/first-screens.txt, and
first-screens-zh.txt in Chinese.

    python -m tests.cases.firstscreens        writes the files anew

An operator reads these lines before any page of the guide: tests of words go by them.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from rocketfsck.cli.app import run
from rocketfsck.writer.damage import damage_store

FOLDER = Path(__file__).parent
FILES = {"en": FOLDER / "first-screens.txt", "zh": FOLDER / "first-screens-zh.txt"}
"""By language."""
DATA = Path(__file__).parent.parent / "data" / "stores"
COLUMNS = 80
PLACE = "/data/rocketmq-1/store"

SCREENS = {
    "5.3.3-multiseg": (
        *("torn-tail", "boundary-lost", "blank-early", "stale-tail", "garbage-tail", "physical-offset"),
        *("missing-segment", "segment-renamed", "segment-misnumbered", "short-segment", "empty-segment"),
        *("stray-file", "commitlog-gone", "zero-segment", "first-segment-missing", "queue-behind"),
        *("dangling-tail", "queue-hole", "queue-shift", "missing-queue", "missing-topic"),
        *("missing-all-queues", "ghost-queue", "index-lost", "chain-cycle", "checkpoint-zeroed"),
        *("checkpoint-future", "record-malformed", "time-back", "queue-offset-repeated"),
    ),
    "5.3.3-basic": ("body-flip", "wrong-tags", "config-cut", "wrong-size", "unit-ghost", "never-filled"),
    "4.9.8-cqext": ("ext-missing", "ext-dangling"),
    "4.9.8-delay": ("wrong-delivery", "delay-level"),
}
"""Faults by the store that is damaged."""


def screens(wanted: Iterable[str] | None = None, language: str = "en") -> dict[str, str]:
    """The first screens by fault; `wanted`: of these alone."""
    found: dict[str, str] = {}
    names = None if wanted is None else set(wanted)
    with TemporaryDirectory(dir="/tmp") as folder:
        for store, faults in SCREENS.items():
            asked = [fault for fault in faults if names is None or fault in names]
            if not asked:
                continue
            with tarfile.open(DATA / f"{store}.tar.xz") as archive:
                archive.extractall(folder, filter="tar")
            for fault in asked:
                found[fault] = _screen(Path(folder) / store / "store", fault, Path(folder), language)
    return found


def _screen(source: Path, fault: str, folder: Path, language: str) -> str:
    """The screen of one damage, with the store at a place as long as that which is shown."""
    base = folder / "x"
    root = base.with_name("x" * max(len(PLACE) - len(str(folder)) - 1, 1))
    damage_store(source, root, [fault], 1, write_truth=False)
    said = io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": str(COLUMNS)}), contextlib.redirect_stdout(said):
        run(["check", "--lang", language, "--quiet", str(root)])
    shutil.rmtree(root)
    return said.getvalue().replace(str(root), PLACE)


def text_of(found: dict[str, str]) -> str:
    """The file: each screen below the name of its fault."""
    return "\n".join(f"== {fault}\n{screen}" for fault, screen in found.items())


def read(language: str = "en") -> dict[str, str]:
    """The screens in the file."""
    parts = FILES[language].read_text("utf-8").split("== ")[1:]
    pairs = (part.split("\n", 1) for part in parts)
    return {fault: screen.rstrip("\n") + "\n" for fault, screen in pairs}


if __name__ == "__main__":
    for language, file in FILES.items():
        file.write_text(text_of(screens(language=language)), "utf-8")
