"""URLs of files that fsspec reads, what is known of them, and the options of their file systems.

Options for a remote file system (keys, an endpoint) belong to the URLs below a root. Options travel to other
processes inside of what they were given for, and are never shown. Nothing is imported for paths.

Connects to remote file systems through fsspec, once a process for each, and words what they raise.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from rocketfsck.errors import PassingError, StoreError, UsageError, demand_lasting, install_hint

INSTALL = f"run {install_hint('remote')}"


URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


LOCAL_SCHEMES = frozenset({"file", "local"})


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


class RemotePlace:
    """What is known to be a URL, whatever file systems this process knows: a `Location`, a `RemotePath`."""

    __slots__ = ()


class Location(RemotePlace, str):
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


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether a path, or its text, is that of a remote file system. No file system is asked."""
    if isinstance(place, RemotePlace):
        return True
    text = os.fspath(place)
    return "://" in text and (match := URL.match(text)) is not None and is_known(match[1])


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


def split_url(url: str) -> tuple[str, str]:
    match = URL.match(url)
    if match is None:
        raise StoreError("is not a URL", path=url)
    return match[1].lower(), match[2]


def has_fsspec() -> bool:
    from importlib.util import find_spec

    return find_spec("fsspec") is not None


def is_known(scheme: str) -> bool:
    """Whether fsspec is installed and knows a scheme."""
    try:
        from fsspec import available_protocols
    except ImportError:
        return False
    scheme = scheme.lower()
    return scheme not in LOCAL_SCHEMES and scheme in available_protocols()


def _texts(value: Any) -> list[str]:
    """All text and numbers in options, longest first."""
    if isinstance(value, Mapping):
        found = [text for inner in value.values() for text in _texts(inner)]
    elif isinstance(value, list | tuple):
        found = [text for inner in value for text in _texts(inner)]
    else:
        found = [] if value is None or isinstance(value, bool) else [str(value)]
    return sorted(found, key=len, reverse=True)


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
