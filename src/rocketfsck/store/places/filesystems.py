"""Connects to remote file systems through fsspec, once a process for each, and words what they raise."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from rocketfsck.errors import PassingError, StoreError, UsageError, demand_lasting
from rocketfsck.store.places.urls import INSTALL, NO_OPTIONS, StorageOptions, options_for

CONDITIONAL_SCHEMES = frozenset({"s3", "s3a"})
"""A file that is open for reading asks for the version it was opened with, or gets an error."""

NOTHING = "No such file, directory or bucket"

_MAX_TEXT = 300

Answer = TypeVar("Answer")

_lock = threading.Lock()
_systems: dict[Hashable, Any] = {}


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the URL's name in it. Raises UsageError where a package is missing and
    StoreError where it cannot be reached."""
    options = options_for(url)
    scheme, _, rest = url.partition("://")
    authority = f"{scheme}://{rest.partition('/')[0]}"
    key = (authority, options, repr(options.values()))
    with _lock:
        found = _systems.get(key)
        if found is None:
            found = _systems[key] = _connect(authority, scheme, options)
    return found, found._strip_protocol(url)


def _connect(authority: str, scheme: str, options: StorageOptions) -> Any:
    from fsspec import get_filesystem_class
    from fsspec.asyn import AsyncFileSystem
    from fsspec.core import url_to_fs

    try:
        family = get_filesystem_class(scheme)
    except ImportError as error:
        advice = f": {INSTALL}" if scheme in CONDITIONAL_SCHEMES else ""
        raise UsageError(f"{authority}: {_first_line(error)}{advice}") from error
    values: dict[str, Any] = {"skip_instance_cache": True}
    if issubclass(family, AsyncFileSystem):
        values["use_listings_cache"] = False
    if scheme in CONDITIONAL_SCHEMES:
        values["config_kwargs"] = {"retries": {"total_max_attempts": 3, "mode": "standard"}}
    return ask(
        lambda: url_to_fs(authority, **(values | options.values()))[0],
        authority,
        "cannot be reached",
        options,
    )


def ask(
    question: Callable[[], Answer],
    url: str,
    what: str = "cannot be read",
    options: StorageOptions = NO_OPTIONS,
    offset: int | None = None,
) -> Answer:
    """The answer of a library; whatever it raises is a StoreError with the URL, from an OSError."""
    try:
        return question()
    except (StoreError, UsageError, PassingError):
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise what they like
        cause = _as_os_error(error, options)
        demand_lasting(cause)
        raise StoreError(f"{what}: {cause.strerror}", path=str(url), offset=offset) from cause


def _as_os_error(error: Exception, options: StorageOptions) -> OSError:
    text = options.redact(_first_line(error))
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, NOTHING)
    if isinstance(error, NotADirectoryError):
        return NotADirectoryError(errno.ENOTDIR, "Not a directory")
    if isinstance(error, PermissionError):
        return PermissionError(errno.EACCES, f"Permission denied ({text})")
    if isinstance(error, TimeoutError):
        return TimeoutError(errno.ETIMEDOUT, f"no answer in time ({text})")
    return OSError(errno.EIO, text)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + " …"


def _forget() -> None:
    """A child of a fork has none of its parent's threads and connections."""
    global _lock
    _lock = threading.Lock()
    _systems.clear()


os.register_at_fork(after_in_child=_forget)
