"""Errors as Spark shows them: what we say, not the stack of the Python worker that said it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rocketfsck.errors import RocketfsckError

_OF_WORKERS = frozenset({"SPARK_PYTHON_RUNTIME", "SPARK_REUSE_WORKER"})
"""What Spark sets for a worker, from 4.2 on and before."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """What we raise on purpose gets to the user as what it says, without the stack of the worker that said
    it.

    Spark asks this variable what to send; a worker that has failed ends, so nothing else is hidden.
    """
    try:
        yield
    except RocketfsckError:
        if not _OF_WORKERS.isdisjoint(os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
