"""What an executor must have before it runs anything of ours, and the words for one that has not.

Functions travel by name, so an executor without this package, or with another version of it, would end a job
with a Java stack in front of a Python one. The guard travels by value instead: it needs only Python.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.errors import LostError, RocketfsckError, StoreError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

NEEDED = ("construct", "numpy", "pyarrow")
"""What the package imports on executors."""

_UNFIT = "cannot run rocketfsck: "
_UNSEEN = "cannot see "
_SAID = re.compile(rf"RuntimeError: (executor on .*?(?:{_UNFIT}|{_UNSEEN}).*)")
_MISMATCH = re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.*)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
_NO_MODULE = re.compile(r"ModuleNotFoundError: (No module named .*)")
_OURS = re.compile(r"^rocketfsck\.errors\.StoreError: (.*)", re.MULTILINE)
_RAISED = re.compile(r"[A-Za-z_.]+(Error|Exception|Exit): (?!.*Traceback)")

Batches = Iterator["pa.RecordBatch"]


def guarded(
    runner: str, arguments: tuple[Any, ...], paths: Sequence[str] = ()
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` that looks at its executor, then is `runner(batches, *arguments)`.

    `runner` is "module:function"; `paths` are what the executor must see.
    """
    version = importlib.import_module("rocketfsck").__version__
    needed = NEEDED
    unfit, unseen = _UNFIT, _UNSEEN
    witnesses = [(path, _witness(path)) for path in paths if "://" not in path]

    # by value: nothing of this module may be named in it
    def run(batches: Batches) -> Batches:
        import importlib
        import importlib.util
        import pathlib
        import socket
        import sys

        place = f"executor on {socket.gethostname()} ({sys.executable}) "
        missing = [name for name in ("rocketfsck", *needed) if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeError(f"{place}{unfit}the executor lacks {', '.join(missing)}")
        found = importlib.import_module("rocketfsck").__version__
        if found != version:
            raise RuntimeError(
                f"{place}{unfit}the executor has version {found}, but the driver has {version}"
            )
        for path, witness in witnesses:
            if not pathlib.Path(path, witness).exists():
                raise RuntimeError(f"{place}{unseen}{path}, or sees something else there")
        module, _, name = runner.partition(":")
        yield from getattr(importlib.import_module(module), name)(batches, *arguments)

    return run


def explained(error: Exception) -> RocketfsckError:
    """What a failed job says, without the stacks of two languages."""
    text = str(error)
    said = _SAID.search(text)
    if said is not None:
        advice = (
            "every executor must see the store under the path that the driver uses"
            if _UNSEEN in said[1]
            else "see 'On a cluster' in the guide on how the package gets there"
        )
        return (StoreError if _UNSEEN in said[1] else UsageError)(f"{said[1].strip()}; {advice}")
    mismatch = _MISMATCH.search(text)
    if mismatch is not None:
        return UsageError(f"executors and driver run different versions of Python: {mismatch[1].strip()}")
    no_python = _NO_PYTHON.search(text)
    if no_python is not None:
        return UsageError(
            f"executors have no {no_python[1]}: set PYSPARK_PYTHON to a Python that the executors have"
        )
    no_module = _NO_MODULE.search(text)
    if no_module is not None:
        return UsageError(f"the Python of an executor lacks a module: {no_module[1].strip()}")
    ours = _OURS.findall(text)
    if ours:
        return LostError(ours[-1].strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    reason = (raised or lines or [type(error).__name__])[-1 if raised else 0]
    return LostError(f"the job failed: {reason}", path="spark")


def _witness(path: str) -> str:
    """A name inside a directory, so that an empty one at the same place is not mistaken for it."""
    if not Path(path).is_dir():
        return ""
    with os.scandir(path) as entries:
        return min((entry.name for entry in entries), default="")
