"""A check of the store in a process of its own: the screen stays free, and stopping it stops all of it.

The process is `rocketfsck check --format json` with the store's own options; what it says of its progress are
the lines of `--progress json`. A report from elsewhere is read instead where the user has one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.pages.reading import verdict_in
from rocketfsck.errors import EXIT_OPERATIONAL, EXIT_PROBLEMS, CancelledError, StoreError
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import NO_OPTIONS, option_words
from rocketfsck.verify.advice import stated_words
from rocketfsck.verify.documents import read_document
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.rule import Level

LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far a check is: `phase` in words; `done` of `total`, None where nobody knows it."""

    phase: str
    done: int
    total: int | None


def load_findings(shelf: Shelf, path: Path) -> Findings:
    """The findings of a saved report. Raises UsageError if the file has none, StoreError if it cannot be
    read."""
    return _findings(shelf, read_document(path, "report"))


def _findings(shelf: Shelf, document: Any) -> Findings:
    """The findings and the verdict that `check --format json` gave."""
    return Findings(shelf, Report.from_json(document), verdict_in(document))


def check_command(store: Store, level: Level, output: Path) -> list[str]:
    """The command line of the check. Values of storage options are on it, as they were on that of browse."""
    words = [sys.executable, "-m", "rocketfsck", "check", "--no-config", "--level", level]
    words += ["--format", "json", "--output", str(output), "--progress", "json"]
    if store.delay_levels_source == "given" and store.stated.delay_levels is not None:
        words += ["--delay-levels", store.stated.delay_levels]
    for word in option_words(store.stated.storage_options):
        words += ["--storage-option", word]
    return [*words, *stated_words(replace(store.stated, storage_options=NO_OPTIONS)), "--", str(store.root)]


def run_check(
    shelf: Shelf, level: Level, stop: threading.Event, stated: Callable[[CheckProgress], None]
) -> Findings:
    """Check the store and place the findings; `stated` hears how far it is, on the calling thread.

    Raises CancelledError once `stop` is set, StoreError where the check itself failed.
    """
    with tempfile.TemporaryDirectory(prefix="rocketfsck-") as directory:
        output = Path(directory) / "report.json"
        process = subprocess.Popen(
            check_command(shelf.store, level, output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        ended = threading.Event()
        guard = threading.Thread(target=_end_when, args=(process, stop, ended), daemon=True)
        guard.start()
        try:
            said = _follow(process, stated)
            code = process.wait()
        finally:
            ended.set()
            guard.join()
            if process.stderr is not None:
                process.stderr.close()
        if stop.is_set():
            raise CancelledError("the check was stopped")
        if code & ~(EXIT_PROBLEMS | EXIT_OPERATIONAL) or not output.is_file():
            raise StoreError(f"the check ended with status {code}{f': {said}' if said else ''}")
        return _findings(shelf, read_document(output, "report"))


def _end_when(process: subprocess.Popen[bytes], stop: threading.Event, ended: threading.Event) -> None:
    while not ended.wait(LOOK_SECONDS):
        if stop.is_set() and process.poll() is None:
            process.kill()


def _follow(process: subprocess.Popen[bytes], stated: Callable[[CheckProgress], None]) -> str:
    """Pass on what the process says of its progress; the last line that is something else is returned."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        try:
            document = json.loads(line)
            stated(CheckProgress(str(document["phase"]), int(document["done"]), document.get("total")))
        except (ValueError, KeyError, TypeError):
            said = line.decode("utf-8", "replace").strip() or said
    return said
