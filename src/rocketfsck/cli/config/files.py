"""Where `rocketfsck.toml` is, and what is in it.

    --config FILE, ROCKETFSCK_CONFIG     this file, and no other
    ./rocketfsck.toml                    the project's
    $XDG_CONFIG_HOME/rocketfsck/config.toml, else ~/.config/rocketfsck/config.toml     the user's

A store may come from anybody, and so may what is in it: the project's file is not read from inside a store,
nor where the file belongs to another user.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rocketfsck.cli.show.text import visible
from rocketfsck.errors import UsageError

Kind = Literal["named", "project", "user"]
PROJECT_NAME = "rocketfsck.toml"
FILE_VARIABLE = "ROCKETFSCK_CONFIG"
MAX_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file that was looked for. `refused` says why one that is there is not read, "" if it is."""

    path: Path
    kind: Kind
    found: bool
    refused: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)


def find_files(named: Path | None, *, none: bool = False) -> tuple[ConfigFile, ...]:
    """The config files, those first that go over others; `named` stands for all of them, `none` for no file.

    Raises UsageError for a file that cannot be read or is not TOML; of a named one, also where it is missing.
    """
    if none:
        return ()
    if named is None and os.environ.get(FILE_VARIABLE):
        named = Path(os.environ[FILE_VARIABLE])
    if named is not None:
        return (ConfigFile(named, "named", True, content=_read(named)),)
    places: list[tuple[Path, Kind]] = [(Path(PROJECT_NAME).absolute(), "project")]
    user = _user_path()
    if user is not None:
        places.append((user, "user"))
    return tuple(_look(path, kind) for path, kind in places)


def _user_path() -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(base) if base else Path.home() / ".config") / "rocketfsck" / "config.toml"
    except RuntimeError:
        return None  # no home directory


def _look(path: Path, kind: Kind) -> ConfigFile:
    try:
        owner = path.stat().st_uid
    except OSError:
        return ConfigFile(path, kind, False)
    if kind == "project":
        from rocketfsck.store.meant import is_in_store

        if is_in_store(path.parent):
            return ConfigFile(path, kind, True, "the file is inside a store")
        if owner not in (0, os.geteuid()):
            return ConfigFile(path, kind, True, "the file belongs to another user")
    return ConfigFile(path, kind, True, content=_read(path))


def _read(path: Path) -> dict[str, Any]:
    name = visible(str(path))
    try:
        # What is not a plain file, a pipe for one, might never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{name} is not a file")
            data = stream.read(MAX_SIZE + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_SIZE:
        raise UsageError(f"{name} is larger than a config file may be ({MAX_SIZE:,} bytes)")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise UsageError(f"{name} is not TOML: {visible(str(error))}") from error
