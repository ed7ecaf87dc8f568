"""Where a store or a file is: a path of this machine, or a URL of a file system that fsspec knows.

    location := path | "file://" absolute path | scheme "://" authority "/" name ("/" name)*

A `file://` URL is the path in it. Every other URL is a `RemotePath`, which pathlib's operations keep one, and
whose text begins with `scheme://`: that is how readers and listings tell it (`store.places.remote`). A path
that has `://` in it but no scheme that fsspec knows stays a path. Nothing is imported for paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import Any

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.places import urls
from rocketfsck.store.reading import FileReader, kinds

_COLLAPSED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?!/)")
_NO_AUTHORITY = ":"
"""What a `RemotePath` has in place of the empty authority of `hdfs:///path`, which pathlib would drop."""


class RemotePath(urls.RemotePlace, PosixPath):
    """A URL as a path: `/`, `parent` and `name` work as for paths, and its text is the URL.

    What asks the file system (`exists`, `is_dir`, `is_file`, `iterdir`, `stat`) asks the remote one; all
    but `exists` raise StoreError where that fails. What would write finds no such place.
    """

    __slots__ = ("_location",)

    _location: str

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("/")
        if rest == _NO_AUTHORITY or rest.startswith(_NO_AUTHORITY + "/"):
            rest = rest[1:]
        return f"{head}//{rest}"

    def __fspath__(self) -> str:
        location = getattr(self, "_location", None)
        return str(self) if location is None else location

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (os.fspath(self), urls.options_for(str(self)))

    def as_posix(self) -> str:
        return str(self)

    def as_uri(self) -> str:
        return str(self)

    def is_absolute(self) -> bool:
        return True

    def absolute(self) -> RemotePath:
        return self

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002 - as in pathlib
        return self

    def exists(self, **_kwargs: Any) -> bool:
        try:
            return _kind(self) is not None
        except StoreError:
            return False

    def is_dir(self, **_kwargs: Any) -> bool:
        return _kind(self) == "directory"

    def is_file(self, **_kwargs: Any) -> bool:
        return _kind(self) == "file"

    def stat(self, **_kwargs: Any) -> os.stat_result:
        """Type, size and time alone: the rest is zeros. Raises StoreError where there is no such file."""
        from rocketfsck.store.places.remote import status_of

        return status_of(os.fspath(self))

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Any:
        from rocketfsck.store.places.remote import list_remote

        return (path_of(entry.path) for entry in list_remote(os.fspath(self)))


def remote_path(url: str) -> RemotePath:
    """A URL, known to be one of a remote file system, as a path."""
    scheme, rest = urls.split_url(url)
    path = RemotePath(f"{scheme}:/{_NO_AUTHORITY + rest if rest.startswith('/') else rest}")
    if isinstance(url, urls.Location):
        path._location = url
    return path


def _restored(url: str, options: urls.StorageOptions) -> RemotePath:
    """A path that comes from another process, with the options that were used there."""
    urls.adopt_options(str.__str__(url), options)
    return remote_path(url)


def path_of(location: str) -> Path:
    """The path with this text, which came out of a listing or of a store."""
    return remote_path(location) if urls.is_remote(location) else Path(location)


def locate(place: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Path:
    """What a user named, as a path: a `RemotePath` for a URL, with the options for all that is below it.

    Raises UsageError for a URL that fsspec cannot serve, one with a password in it (that would be shown),
    and one that pathlib has made a path of.
    """
    if isinstance(place, RemotePath):
        return _with_options(place, options)
    text = os.fspath(place)
    match = urls.URL.match(text) if isinstance(place, str) else None
    if match is None:
        collapsed = None if isinstance(place, str) else _COLLAPSED.match(text)
        if collapsed is not None and not os.path.lexists(text) and urls.is_known(collapsed[1]):
            raise UsageError(f"{text}: pathlib turns :// into :/; give the URL as text")
        return Path(place)
    scheme, rest = match[1].lower(), match[2]
    if scheme in urls.LOCAL_SCHEMES:
        if not rest.startswith("/"):
            raise UsageError(f"{text}: a file URL has three slashes and an absolute path")
        return Path(rest)
    if not urls.is_known(scheme):
        if os.path.lexists(text):
            return Path(text)
        if not urls.has_fsspec():
            raise UsageError(f"{text}: reading a URL needs fsspec, which is not installed: {urls.INSTALL}")
        raise UsageError(f"{text}: fsspec does not know a file system {scheme!a}")
    if not rest.strip("/"):
        raise UsageError(f"{text}: the URL names a file system, but no place in it")
    authority = rest.partition("/")[0]
    if ":" in authority.rpartition("@")[0]:
        shown = f"{scheme}://***@{authority.rpartition('@')[2]}"
        raise UsageError(
            f"{shown}: a password in a URL would show up in messages; give the password as a storage option"
        )
    if any(part in ("", ".", "..") for part in rest.strip("/").split("/")[1:]):
        raise UsageError(f"{text}: the URL has an empty name, or . or .. as a name")
    return _with_options(remote_path(f"{scheme}://{rest.rstrip('/')}"), options)


def _with_options(path: RemotePath, options: Mapping[str, Any] | None) -> RemotePath:
    urls.adopt_options(str(path), urls.StorageOptions(options or {}))
    return path


def refuse_remote(place: str | os.PathLike[str], what: str) -> None:
    """Raises UsageError for a URL: `what` is done to directories of this machine alone."""
    if urls.is_remote(place):
        raise UsageError(f"{os.fspath(place)}: {what} needs a directory on this machine, not a URL")


def _kind(path: RemotePath) -> str | None:
    from rocketfsck.store.places.remote import kind_of

    return kind_of(os.fspath(path))


def _remote(path: str | os.PathLike[str]) -> type[FileReader] | None:
    if not urls.is_remote(path):
        return None
    from rocketfsck.store.places.remote import RemoteReader

    return RemoteReader


kinds.append(_remote)
