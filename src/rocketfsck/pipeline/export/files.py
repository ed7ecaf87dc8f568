"""Where an export is written, by Arrow's file systems, and what the footers of its files say.

Delta's and Iceberg's own libraries reach S3 by options of their own, which are made of fsspec's (`_NAMES`).
What is not given they find in the environment, as s3fs does. A profile is resolved here, by the library that
has its file. Options of other schemes go to deltalake as they are, and to pyiceberg by `--catalog`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.pipeline.export.model import TIME, DataFile, ExportOptions, ExportResult
from rocketfsck.pipeline.export.rows import NULL_NAME
from rocketfsck.store.places.urls import CONDITIONAL_SCHEMES, ask, file_system, is_remote, options_for
from rocketfsck.writer.disk.publish import sync_path

_NAMES = {
    "endpoint_url": ("aws_endpoint_url", "s3.endpoint"),
    "key": ("aws_access_key_id", "s3.access-key-id"),
    "secret": ("aws_secret_access_key", "s3.secret-access-key"),
    "token": ("aws_session_token", "s3.session-token"),
    "region_name": ("aws_region", "s3.region"),
    "anon": ("aws_skip_signature", "s3.anonymous"),
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
"""The region of servers that are not Amazon's, where no region is given."""


def delta_options(root: Path) -> dict[str, str] | None:
    """What deltalake gets for the URL `root`; None for a directory. Raises UsageError."""
    if not is_remote(root):
        return None
    url = str(root)
    if _is_s3(url):
        found = {_NAMES[name][0]: value for name, value in _s3_facts(url).items()}
        if found.get("aws_endpoint_url", "").startswith("http://"):
            found["aws_allow_http"] = "true"
        return found
    return {name: str(value) for name, value in options_for(url).values().items()}


def iceberg_options(root: Path) -> dict[str, str]:
    """Properties of a catalog for the files at the URL `root`. Raises UsageError."""
    url = str(root)
    return {_NAMES[name][1]: value for name, value in _s3_facts(url).items()} if _is_s3(url) else {}


def _is_s3(url: str) -> bool:
    return url.partition("://")[0] in CONDITIONAL_SCHEMES


def _s3_facts(url: str) -> dict[str, str]:
    options = options_for(url).values()
    inner = options.get("client_kwargs")
    given: dict[str, Any] = {**(inner if isinstance(inner, Mapping) else {}), **options}
    if given.get("profile"):
        given |= _of_profile(str(given["profile"]))
    given.setdefault("endpoint_url", _first(_ENDPOINTS))
    given.setdefault("region_name", _first(_REGIONS) or (given["endpoint_url"] and _DEFAULT_REGION))
    return {name: _text(given[name]) for name in _NAMES if given.get(name)}


def _of_profile(profile: str) -> dict[str, str | None]:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session(profile=profile)
        found = session.get_credentials()
        keys = found.get_frozen_credentials() if found is not None else None
        region = session.get_config_variable("region")
    except BotoCoreError as error:
        raise UsageError(f"the storage option profile: {error}") from error
    if keys is None:
        return {"region_name": region}
    return {"key": keys.access_key, "secret": keys.secret_key, "token": keys.token, "region_name": region}


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


WRITING, READING, DELETING = "cannot be written", "cannot be read", "cannot be deleted"
NO_SELECTION = frozenset(
    {"mode", "corrupt_column", "damage_rows", "ignore_missing_files", "ignore_corrupt_files"}
)
"""Fields of `WantedRows` that say nothing of which rows a table has."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Place:
    """The directory `root`, which may be a URL. All methods raise StoreError where it does not do it."""

    root: Path

    def below(self, name: str) -> Place:
        """A directory in it."""
        return Place(self.root / name)

    @property
    def is_remote(self) -> bool:
        return is_remote(self.root)

    def system(self) -> tuple[fs.FileSystem, str]:
        """Arrow's file system for it, and its path there."""
        if not self.is_remote:
            return fs.LocalFileSystem(), str(self.root)
        system, path = file_system(str(self.root))
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path

    def names(self) -> list[str]:
        """The names of all files, below the root."""

        def listed(system: fs.FileSystem, path: str) -> list[str]:
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
            files = [info.path for info in found if info.type == fs.FileType.File]
            return sorted(name.removeprefix(path.rstrip("/") + "/") for name in files)

        return self.asked(READING, listed)

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file."""

        def written(system: fs.FileSystem, path: str) -> None:
            if not self.is_remote:
                system.create_dir(f"{path}/{name}".rpartition("/")[0])
            with system.open_output_stream(f"{path}/{name}") as stream:
                stream.write(data)

        self.asked(WRITING, written)

    def put_file(self, name: str, file: Path) -> None:
        """Make or replace a file with the bytes of one of this machine: whole, and durable in a directory."""
        if self.is_remote:
            system, path = file_system(f"{self.root}/{name}")
            url = str(self.root)
            ask(lambda: system.put_file(str(file), path), url, WRITING, options_for(url))
            return
        target = self.root / name
        part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        with errors_of(self.root, WRITING):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(file, part)
                sync_path(part)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""

        def gone(system: fs.FileSystem, path: str) -> None:
            with suppress(FileNotFoundError):
                system.delete_file(f"{path}/{name}")

        self.asked(DELETING, gone)

    def put_new(self, name: str, data: bytes) -> bool:
        """Make an object at a URL; False if there is one already: by one request where the store can."""

        def new() -> bool:
            system, path = file_system(f"{self.root}/{name}")
            if system.exists(path):
                return False
            try:
                system.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            return True

        return ask(new, str(self.root), WRITING, options_for(str(self.root)))

    def clear(self, kept: Set[str] = frozenset()) -> None:
        """Delete all that is in it, but for files with the names `kept`."""
        if kept:
            for name in set(self.names()) - kept:
                self.delete(name)
        else:
            self.asked(DELETING, lambda system, path: system.delete_dir_contents(path, missing_dir_ok=True))

    def remove(self) -> None:
        """Delete all that is in it, and the directory itself where it is one."""
        self.clear()
        if not self.is_remote:
            with errors_of(self.root, DELETING), suppress(FileNotFoundError):
                self.root.rmdir()

    def asked(self, what: str, question: Callable[[fs.FileSystem, str], Answer]) -> Answer:
        """The answer of a library that works in this place; what it raises is a StoreError."""
        if self.is_remote:
            url = str(self.root)
            return ask(lambda: question(*self.system()), url, what, options_for(url))
        with errors_of(self.root, what):
            return question(*self.system())


@contextmanager
def errors_of(root: Path, what: str) -> Iterator[None]:
    """What Arrow and the system raise, as StoreError; UsageError where something is there already."""
    try:
        yield
    except RocketfsckError:
        raise
    except FileExistsError as error:
        raise UsageError(f"{root}: already exists") from error
    except (OSError, pa.ArrowException) as error:
        text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise StoreError(f"{what}: {text}", path=str(root)) from error


def data_file(
    name: str, footer: Any, size: int, partition: Sequence[str] = (), folders: Sequence[str] = ()
) -> DataFile:
    """A Parquet file of a table, with what its footer says.

    `folders` are the columns that name directories; where these are the columns of the `partition`, the
    names have the values.
    """
    bounds = _bounds(footer)
    if partition == folders:
        texts = [unquote(part.partition("=")[2]) for part in name.split("/")[: len(folders)]]
        values = tuple(None if text == NULL_NAME else text for text in texts)
    else:
        lows = [bounds[column][0] for column in partition] if footer.num_rows else []
        values = tuple(None if low is None else str(low) for low in lows)
    return DataFile(name, footer.num_rows, size, values, bounds)


def _bounds(footer: Any) -> dict[str, tuple[Any, Any, int]]:
    """Of each plain column over all row groups: least, greatest (None: only nulls, or not known), nulls."""
    found: dict[str, tuple[Any, Any, int]] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            statistics = column.statistics
            if "." in column.path_in_schema or statistics is None:
                continue
            low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
            nulls = int(statistics.null_count or 0)
            known = found.get(column.path_in_schema)
            if known is not None:
                low = min((value for value in (low, known[0]) if value is not None), default=None)
                high = max((value for value in (high, known[1]) if value is not None), default=None)
                nulls += known[2]
            found[column.path_in_schema] = (low, high, nulls)
    return found


def manifest_of(about: Mapping[str, Any], options: ExportOptions, result: ExportResult) -> bytes:
    """`_manifest.json`: what was exported from what, every file, its rows and bounds."""
    selection = {
        name: value
        for name, value in asdict(options.wanted).items()
        if value is not None and name not in NO_SELECTION
    }
    head = {
        **about,
        "format": options.table_format,
        "mode": options.wanted.mode,
        "selection": selection,
        "row_count": result.row_count,
        "damage_count": result.damage.count,
        "damaged_byte_count": result.damage.byte_count,
        "damage_told": result.damage_told,
        "corrupt_count": result.damage.corrupt_count,
        "files": [_facts(file, about["partition"]) for file in result.files],
    }
    return (json.dumps(head, indent=1) + "\n").encode("ascii")


def _facts(file: DataFile, partition: Sequence[str]) -> dict[str, Any]:
    bounds = {
        name: {"min": low, "max": high}
        for name, (low, high, _) in file.bounds.items()
        if name in ("offset", TIME, "queue_offset")
    }
    values = dict(zip(partition, file.values, strict=True))
    return {"path": file.path, "partition": values, "row_count": file.row_count, "size": file.size, **bounds}
