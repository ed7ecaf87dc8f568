"""Where a store or a file is: a path of this machine, or a URL of a file system that fsspec knows.

    location := path | "file://" absolute path | scheme "://" authority "/" name ("/" name)*

A `file://` URL is the path in it. Every other URL is a `RemotePath`, which pathlib's operations keep one, and
whose text begins with `scheme://`: that is how readers and listings tell it (`store.places.remote`). A path
that has `://` in it but no scheme that fsspec knows stays a path. Nothing is imported for paths.

Options for a remote file system (keys, an endpoint) belong to the URLs below a root. Options travel to other
processes inside of what they were given for, and are never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PosixPath
from typing import Any

from rocketfsck.errors import StoreError, UsageError, install_hint

INSTALL = f"run {install_hint('remote')}"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_COLLAPSED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?!/)")
_LOCAL_SCHEMES = frozenset({"file", "local"})
_NO_AUTHORITY = ":"
"""What a `RemotePath` has in place of the empty authority of `hdfs:///path`, which pathlib would drop."""

_SHORT_SECRET = 3
_SHOWN_OPTIONS = frozenset({"client_kwargs", "endpoint_url", "host", "port", "profile", "user", "username"})
_TEXT_OPTIONS = frozenset(
    {"key", "secret", "token", "username", "user", "password", "account_key", "sas_token"}
)


class StorageOptions:
    """What fsspec is given besides a URL: by name, and never shown."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(self.names)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        return StorageOptions, (self._values,)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._values))

    def values(self) -> dict[str, Any]:
        """The options themselves: for the file system alone."""
        return dict(self._values)

    def redact(self, text: str) -> str:
        """The text without the values of these options."""
        hidden = {name: value for name, value in self._values.items() if name not in _SHOWN_OPTIONS}
        for value in _texts(hidden):
            if len(value) > _SHORT_SECRET:
                text = text.replace(value, "***")
        return text


NO_OPTIONS = StorageOptions({})

_default_options = NO_OPTIONS
_options: dict[str, StorageOptions] = {}


class RemotePath(PosixPath):
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
        return _restored, (os.fspath(self), options_for(str(self)))

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
        from rocketfsck.store.listing import list_directory

        return (path_of(entry.path) for entry in list_directory(self))


class Location(str):
    """The URL of a file with what a listing said of it. Pickled, it takes the options along.

    `etag` is the version's name, "" where the file system gives none; `mtime_ns` 0 where it is not known.
    """

    __slots__ = ("etag", "mtime_ns", "options", "size")

    size: int
    mtime_ns: int
    etag: str
    options: StorageOptions

    def __reduce__(self) -> tuple[Any, ...]:
        return make_location, (str.__str__(self), self.size, self.mtime_ns, self.etag, self.options)


def make_location(url: str, size: int, mtime_ns: int, etag: str, options: StorageOptions) -> Location:
    """A URL with what is known of the file there. Sizes in bytes."""
    location = Location(url)
    location.size, location.mtime_ns, location.etag, location.options = size, mtime_ns, etag, options
    return location


def remote_path(url: str) -> RemotePath:
    """A URL, known to be one of a remote file system, as a path."""
    scheme, rest = _split(url)
    path = RemotePath(f"{scheme}:/{_NO_AUTHORITY + rest if rest.startswith('/') else rest}")
    if isinstance(url, Location):
        path._location = url
    return path


def _restored(url: str, options: StorageOptions) -> RemotePath:
    """A path that comes from another process, with the options that were used there."""
    adopt_options(str.__str__(url), options)
    return remote_path(url)


def path_of(location: str) -> Path:
    """The path with this text, which came out of a listing or of a store."""
    return remote_path(location) if is_remote(location) else Path(location)


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether a path, or its text, is that of a remote file system. No file system is asked."""
    if isinstance(place, RemotePath | Location):
        return True
    text = os.fspath(place)
    return "://" in text and (match := _URL.match(text)) is not None and _is_known(match[1])


def locate(place: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Path:
    """What a user named, as a path: a `RemotePath` for a URL, with the options for all that is below it.

    Raises UsageError for a URL that fsspec cannot serve, one with a password in it (that would be shown),
    and one that pathlib has made a path of.
    """
    if isinstance(place, RemotePath):
        return _with_options(place, options)
    text = os.fspath(place)
    match = _URL.match(text) if isinstance(place, str) else None
    if match is None:
        collapsed = None if isinstance(place, str) else _COLLAPSED.match(text)
        if collapsed is not None and not os.path.lexists(text) and _is_known(collapsed[1]):
            raise UsageError(f"{text}: pathlib turns :// into :/; give the URL as text")
        return Path(place)
    scheme, rest = match[1].lower(), match[2]
    if scheme in _LOCAL_SCHEMES:
        if not rest.startswith("/"):
            raise UsageError(f"{text}: a file URL has three slashes and an absolute path")
        return Path(rest)
    if not _is_known(scheme):
        if os.path.lexists(text):
            return Path(text)
        if not _has_fsspec():
            raise UsageError(f"{text}: reading a URL needs fsspec, which is not installed: {INSTALL}")
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
    if options:
        _options[str(path)] = StorageOptions(options)
    return path


def set_default_options(values: Mapping[str, Any]) -> None:
    """The options of all URLs for which none were given on their own, in this process."""
    global _default_options
    _default_options = StorageOptions(values)


def adopt_options(root: str, options: StorageOptions) -> None:
    """Use these options for all that is below `root`, where there are any."""
    if options:
        _options[root] = options


def read_options(words: Iterable[str]) -> dict[str, Any]:
    """Options from `KEY=VALUE`: a value that is JSON (a number, true, an object) is that, a secret is text.

    Raises UsageError, without the values.
    """
    import json

    options: dict[str, Any] = {}
    for number, word in enumerate(words, 1):
        key, equals, value = word.partition("=")
        if not key.isidentifier() or not equals:
            raise UsageError(f"storage option {number} is not KEY=VALUE")
        options[key] = value
        if key not in _TEXT_OPTIONS:
            with suppress(ValueError):
                options[key] = json.loads(value)
    return options


def option_words(options: StorageOptions) -> list[str]:
    """The `KEY=VALUE` that `read_options` makes these options of, with the values: for another process."""
    import json

    words = []
    for key, value in options.values().items():
        is_text = isinstance(value, str) and (key in _TEXT_OPTIONS or not _is_json(value))
        words.append(f"{key}={value if is_text else json.dumps(value)}")
    return words


def _is_json(text: str) -> bool:
    import json

    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def options_for(url: str) -> StorageOptions:
    """The options of the nearest root above a URL that has any."""
    if isinstance(url, Location):
        return url.options
    roots = [root for root in _options if url == root or url.startswith(root.rstrip("/") + "/")]
    return _options[max(roots, key=len)] if roots else _default_options


def refuse_remote(place: str | os.PathLike[str], what: str) -> None:
    """Raises UsageError for a URL: `what` is done to directories of this machine alone."""
    if is_remote(place):
        raise UsageError(f"{os.fspath(place)}: {what} needs a directory on this machine, not a URL")


def _split(url: str) -> tuple[str, str]:
    match = _URL.match(url)
    if match is None:
        raise StoreError("is not a URL", path=url)
    return match[1].lower(), match[2]


def _has_fsspec() -> bool:
    from importlib.util import find_spec

    return find_spec("fsspec") is not None


def _is_known(scheme: str) -> bool:
    """Whether fsspec is installed and knows a scheme."""
    try:
        from fsspec import available_protocols
    except ImportError:
        return False
    scheme = scheme.lower()
    return scheme not in _LOCAL_SCHEMES and scheme in available_protocols()


def _kind(path: RemotePath) -> str | None:
    from rocketfsck.store.places.remote import kind_of

    return kind_of(os.fspath(path))


def _texts(value: Any) -> list[str]:
    """All text and numbers in options, longest first."""
    if isinstance(value, Mapping):
        found = [text for inner in value.values() for text in _texts(inner)]
    elif isinstance(value, list | tuple):
        found = [text for inner in value for text in _texts(inner)]
    else:
        found = [] if value is None or isinstance(value, bool) else [str(value)]
    return sorted(found, key=len, reverse=True)
