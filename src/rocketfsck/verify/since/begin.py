"""What a check since an earlier one begins with: the state, and which files are what the state says.

A job over many stores runs the check of a large store again from its beginning after each stage, on any
machine (`pipeline.fleet.passing`). All runs must begin with the same, even if a broker continues to write, or
somebody replaces the state: `Begun` travels with the opened store. The state stays in its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.since.proving import Proven, prove
from rocketfsck.verify.since.state import SinceState, read_state
from rocketfsck.verify.tasks.resume import identity_of


class StateChangedError(StoreError):
    """The state is not the one that the check began with."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a state was worth when a check began.

    `digest` is that of the state, "" where none helps, and `reason` why (`read_state`). `changed` are the
    files, by their names below the store, that are not what the state says.
    """

    digest: str
    reason: str = ""
    changed: frozenset[str] = frozenset()


def begin(
    store: Store, options: CheckOptions, begun: Begun | None = None
) -> tuple[SinceState | str, Proven, Begun]:
    """The state in `options.since`, or why there is none; what it proves of the store; how to begin again.

    With `begun` no file is looked at again. Raises UsageError for a file that is not a state, and a store
    that is not on this machine; StoreError for a state that cannot be read; StateChangedError if it is not
    the one of `begun`.
    """
    path = _path_of(store, options)
    if begun is not None and not begun.digest:
        return begun.reason, Proven(store, first_offset=0), begun
    found = read_state(path, identity_of(store, options.level, options.detail_limit))
    digest = found.digest if isinstance(found, SinceState) else ""
    if begun is not None and digest != begun.digest:
        raise StateChangedError("the state has changed while the check ran", path=printable(str(path)))
    if isinstance(found, str):
        return found, Proven(store, first_offset=0), Begun("", found)
    proven = prove(store, found, None if begun is None else begun.changed)
    return found, proven, begun or Begun(digest, "", frozenset(proven.changed))


def _path_of(store: Store, options: CheckOptions) -> Path:
    path = options.since
    assert path is not None
    if is_remote(store.root):
        raise UsageError("--since is for stores on this machine")
    if path.resolve().is_relative_to(store.root.resolve()):
        raise UsageError(f"{path}: is inside the store, where a check must not write")
    return path
