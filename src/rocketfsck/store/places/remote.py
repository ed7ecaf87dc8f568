"""Lists and reads stores through fsspec: object stores, HDFS, and whatever else it knows.

An object store has no directories, no links, no holes and no record locks: a directory is what names have in
common, all of a file is data, and whether a broker runs cannot be seen. What was listed has a version (ETag,
or time and size), and its bytes are read from that version or not at all: an object that is gone, shorter or
replaced is a StoreError with its URL and the position, and so is everything that a library raises. Requests
are tried again, and given up in time, by the libraries.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rocketfsck.errors import StoreError, may_pass
from rocketfsck.progress import go_on
from rocketfsck.store.places import urls
from rocketfsck.store.places.blocks import shared_blocks
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.urls import Answer
from rocketfsck.store.reading import FileReader, PathLike

FLAT_SCHEMES = frozenset({"s3", "s3a", "gs", "gcs"})
"""All names below a prefix are one listing, page by page, instead of one a directory."""

COARSE_SCHEMES = frozenset({"ftp", "http", "https"})
"""Listings have times of another precision than questions for a single file."""

MAX_FILES = 1024
FAILED_SECONDS = 5.0
_TIME_NAMES = ("LastModified", "mtime", "modified", "created", "updated", "modificationTime", "last_modified")

_lock = threading.Lock()
_files: OrderedDict[Hashable, RemoteFile] = OrderedDict()


def list_remote(url: str) -> list[DirectoryEntry]:
    """The entries of a directory, sorted by name: one listing. Raises StoreError."""
    url, options = url.rstrip("/"), urls.options_for(url)
    system, base = urls.file_system(url)
    found = urls.ask(lambda: system.ls(base, detail=True), url, "cannot be listed", options)
    base = base.rstrip("/")
    entries = []
    for info in found:
        name = str(info["name"])
        if name.rstrip("/") == base:
            if info.get("type") == "directory" or name.endswith("/"):
                continue
            cause = NotADirectoryError(errno.ENOTDIR, "Not a directory")
            raise StoreError(f"cannot be listed: {cause.strerror}", path=str(url)) from cause
        name = name.removeprefix(base + "/")
        entries.append(_entry(url, name.removesuffix("/") if len(name) > 1 else name, info, options))
    entries.sort(key=_order)
    return entries


def _entry(parent: str, name: str, info: Mapping[str, Any], options: urls.StorageOptions) -> DirectoryEntry:
    if name in ("", ".", "..") or "/" in name:
        detail = "no file has this name"
        return DirectoryEntry(name, f"{parent}/{name}", EntryKind.UNREADABLE, detail=detail)
    if info.get("type") == "directory":
        return DirectoryEntry(name, f"{parent}/{name}", EntryKind.DIRECTORY)
    location = _located(f"{parent}/{name}", info, options)
    return DirectoryEntry(name, location, EntryKind.FILE, location.size, location.mtime_ns, location.size)


def _order(entry: DirectoryEntry) -> tuple[str, int]:
    return entry.name, entry.kind.value


def _located(url: str, info: Mapping[str, Any], options: urls.StorageOptions) -> urls.Location:
    size = info.get("size")
    etag = info.get("ETag") or info.get("etag") or ""
    return urls.make_location(url, size if isinstance(size, int) else -1, mtime_ns(info), str(etag), options)


def mtime_ns(info: Mapping[str, Any]) -> int:
    """When what a listing describes was last changed, in ns since 1970; 0 where that is not said."""
    value = next((info[name] for name in _TIME_NAMES if info.get(name)), 0)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return 0
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000) * 1000
    if isinstance(value, int | float):  # milliseconds in WebHDFS, else seconds
        return round(value * 1000) * 1000 if value > 1 << 36 else round(value * 1_000_000) * 1000
    return 0


class RemoteTree:
    """The listings of one store: where names are flat, one for each directory at its root and all below."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._flat = root.partition("://")[0] in FLAT_SCHEMES
        self._listed: set[str] = set()
        self._directories: dict[str, list[DirectoryEntry]] = {}

    def entries(self, url: str) -> list[DirectoryEntry]:
        """The entries of a directory, sorted by name. Raises StoreError."""
        url, prefix = url.rstrip("/"), self._root + "/"
        if not self._flat or not url.startswith(prefix):
            return list_remote(url)
        top = prefix + url[len(prefix) :].partition("/")[0]
        if top not in self._listed:
            self._list(top)
            self._listed.add(top)
        if url not in self._directories:
            cause = FileNotFoundError(errno.ENOENT, urls.NOTHING)
            raise StoreError(f"cannot be listed: {cause.strerror}", path=url) from cause
        return self._directories[url]

    def _list(self, top: str) -> None:
        options = urls.options_for(top)
        system, base = urls.file_system(top)
        what = "cannot be listed"
        found = urls.ask(lambda: system.find(base, detail=True, withdirs=False), top, what, options)
        seen: set[str] = set()
        for name in found:
            if not name.startswith(base + "/"):
                continue
            *parents, last = name[len(base) + 1 :].split("/")
            directory = top
            self._directories.setdefault(directory, [])
            for part in parents:
                inner = f"{directory}/{part}"
                if inner not in seen:
                    seen.add(inner)
                    self._directories[directory].append(
                        _entry(directory, part, {"type": "directory"}, options)
                    )
                if part in ("", ".", ".."):
                    break
                directory = inner
                self._directories.setdefault(directory, [])
            else:
                if last:  # else a placeholder for the directory
                    self._directories[directory].append(_entry(directory, last, found[name], options))
        for entries in self._directories.values():
            entries.sort(key=_order)


def kind_of(url: str) -> str | None:
    """ "file", "directory", or None where there is neither. Raises StoreError."""
    if isinstance(url, urls.Location):
        return "file"
    system, name = urls.file_system(url)
    info = _if_there(lambda: system.info(name), url, "cannot be examined")
    if info is None:
        return None
    return "directory" if info.get("type") == "directory" else "file"


def _if_there(question: Callable[[], Answer], url: str, what: str) -> Answer | None:
    """What `urls.ask` gives; None where there is no such file."""
    try:
        return urls.ask(question, url, what, urls.options_for(url))
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def status_of(url: str) -> os.stat_result:
    """What is known of a file or a directory, as `os.stat` would tell it. Raises StoreError."""
    kind = kind_of(url)
    if kind == "directory":
        return os.stat_result((stat.S_IFDIR | 0o555, *([0] * 9)))
    file = open_remote(url)
    mtime = file.mtime_ns // 1_000_000_000
    return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 0, 0, 0, file.size, mtime, mtime, mtime))


class RemoteFile:
    """One version of one remote file, fetched in ranges by any number of threads."""

    def __init__(self, location: urls.Location) -> None:
        self.url = str.__str__(location)
        self.size = location.size
        self.mtime_ns = location.mtime_ns
        self.key: Hashable = object()
        if location.etag or location.mtime_ns:
            self.key = _version(location)
        self._location = location
        self._options = location.options
        self._system, self._name = urls.file_system(location)
        scheme = self.url.partition("://")[0]
        self._conditional = scheme in urls.CONDITIONAL_SCHEMES
        self._exact = scheme not in COARSE_SCHEMES
        self._failed = (-math.inf, "")
        self._idle: list[Any] = []  # open files that no thread reads from now

    def fetch(self, start: int, end: int) -> bytes:
        """Exactly the bytes `start:end` of the version that was listed. Raises StoreError, and for a while
        the same without a request: a file that is gone is asked for again and again. What may pass is not
        remembered, since whoever tries again means to ask again."""
        failed_at, text = self._failed
        if time.monotonic() - failed_at < FAILED_SECONDS:
            raise StoreError(text, path=self.url, offset=start)
        try:
            return self._fetch_all(start, end)
        except StoreError as error:
            if not may_pass(error):
                text = str(error).removeprefix(f"{self.url} at byte {error.offset}: ")
                self._failed = (time.monotonic(), text)
            raise

    def _fetch_all(self, start: int, end: int) -> bytes:
        data = urls.ask(lambda: self._fetch(start, end), self.url, options=self._options, offset=start)
        if len(data) != end - start:
            said = f"ended here during reading; the listing says {self.size:,} bytes"
            raise StoreError(said, path=self.url, offset=start + min(len(data), end - start))
        return data

    def _fetch(self, start: int, end: int) -> bytes:
        if self._conditional:
            return self._fetch_conditional(start, end)
        data = self._system.cat_file(self._name, start=start, end=end)
        self._compare(self._system.info(self._name), start)
        return bytes(data)

    def _fetch_conditional(self, start: int, end: int) -> bytes:
        from s3fs.utils import FileExpired

        try:
            file = self._idle.pop()
        except IndexError:
            file = self._opened(start)
        try:
            file.seek(start)
            data: bytes = file.read(end - start)
        except FileExpired:
            raise self._replaced(start) from None
        self._idle.append(file)
        return data

    def _opened(self, start: int) -> Any:
        """The file, open. With the listing's ETag nothing is asked: each read demands that version."""
        etag, options = self._location.etag, {"cache_type": "none", "fill_cache": False}
        if not etag:
            file = self._system.open(self._name, "rb", **options)
            self._compare(file.details, start)
            return file
        file = self._system.open(self._name, "rb", size=self.size, **options)
        file.details = {"name": self._name, "size": self.size, "ETag": etag}
        file.read_kw = {**file.read_kw, "IfMatch": etag}
        return file

    def _compare(self, info: Mapping[str, Any], start: int) -> None:
        """Raises StoreError if what is there now is not what was listed."""
        now, then = _located(self.url, info, self._options), self._location
        if now.size >= 0 and now.size < then.size:
            said = f"has {now.size:,} bytes; the listing says {then.size:,}"
            raise StoreError(said, path=self.url, offset=start)
        same_time = not self._exact or not (now.mtime_ns and then.mtime_ns) or now.mtime_ns == then.mtime_ns
        same_size = now.size in (then.size, -1)
        same = now.etag == then.etag if now.etag and then.etag else same_time and same_size
        if not same:
            raise self._replaced(start)

    def _replaced(self, start: int) -> StoreError:
        return StoreError("was replaced after the listing", path=self.url, offset=start)


def _version(location: urls.Location) -> Hashable:
    """What tells a version of a file from others; the time only where there is nothing better."""
    mtime_ns = 0 if location.etag else location.mtime_ns
    return str.__str__(location), location.size, location.etag, mtime_ns, location.options


def get_remote(url: str, limit: int) -> bytes | None:
    """The first `limit` bytes of a file; None where there is none. Raises StoreError."""
    system, name = urls.file_system(url)
    data: bytes | None = _if_there(lambda: system.cat_file(name, end=limit), url, "cannot be read")
    return data


def put_remote(url: str, data: bytes) -> None:
    """Make or replace a file, whole where the file system can: an object. Raises StoreError."""
    system, name = urls.file_system(url)
    urls.ask(lambda: system.pipe_file(name, data), url, "cannot be written", urls.options_for(url))


def open_remote(place: PathLike) -> RemoteFile:
    """The file at a URL, as it was listed or, where that is not known, as it is now. Raises StoreError."""
    url = os.fspath(place)
    location = url if isinstance(url, urls.Location) else _look_up(url)
    key = _version(location)
    with _lock:
        found = _files.get(key)
        if found is not None:
            _files.move_to_end(key)
            return found
    file = RemoteFile(location)
    if location.etag or location.mtime_ns:
        with _lock:
            _files[key] = file
            if len(_files) > MAX_FILES:
                _files.popitem(last=False)
    return file


def _look_up(url: str) -> urls.Location:
    system, name = urls.file_system(url)
    options = urls.options_for(url)
    info = urls.ask(lambda: system.info(name), url, "cannot be opened", options)
    if info.get("type") == "directory":
        raise StoreError("is a directory, not a regular file", path=url)
    location = _located(url, info, options)
    if location.size < 0:
        raise StoreError("does not give its length", path=url)
    return location


class RemoteReader(FileReader):
    """A remote file, open for reading: with the promises of a `FileReader`, for one version of the file."""

    __slots__ = ("_file", "_read_end")

    def __init__(self, path: PathLike) -> None:
        self._descriptor = -1
        self._file = open_remote(path)
        self._read_end = 0
        self.path = self._file.url
        self.size = self.allocated_size = self._file.size
        self.mtime_ns = self._file.mtime_ns

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        """Fill all of `view` (writable, contiguous) with the bytes from position `pos` on."""
        target = memoryview(view).cast("B")
        self.demand_inside(pos, len(target))
        go_on()
        continues = pos == self._read_end and pos > 0
        self._read_end = pos + len(target)
        shared_blocks().read_into(self._file, target, pos, continues=continues)

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """All of it: nobody tells of holes."""
        limit = self.size if end is None else min(end, self.size)
        if start < limit:
            yield start, limit


def _forget() -> None:
    """A child of a fork has none of its parent's threads and connections."""
    global _lock
    _lock = threading.Lock()
    _files.clear()


os.register_at_fork(after_in_child=_forget)
