"""Options as text, as SQL and `option(name, value)` give them: which stores, which view, what of it.

Names are case-insensitive. One table says what there is; whatever is not in it is an error, as is an option
that means nothing for the view.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rocketfsck.common.wording import parse_size, parse_time
from rocketfsck.errors import UsageError
from rocketfsck.pipeline.columns import choose_columns
from rocketfsck.pipeline.sources import StoreSource, deep_places, find_sources
from rocketfsck.pipeline.views.model import OF_FILES, WantedRows
from rocketfsck.pipeline.views.table import VIEWS

_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True)
class Request:
    """What the options ask for."""

    view: str
    sources: tuple[StoreSource, ...]
    wanted: WantedRows


def parse_options(options: Mapping[str, str], *, also: Collection[str] = ()) -> Request:
    """The request that options make; `also` are names that others take care of.

    Raises UsageError for an option that is not there or has no sense, and what `find_sources` raises.
    """
    given = {name.lower(): value for name, value in options.items()}
    for name in sorted(set(given) & set(_REMOVED)):
        raise UsageError(f"the option {name} was removed: {_REMOVED[name]}")
    unknown = sorted(set(given) - set(_KNOWN) - {name.lower() for name in also})
    if unknown:
        raise UsageError(
            f"no option has the name {', '.join(unknown)}; the options are {', '.join(OPTION_NAMES)}"
        )
    view = given.get("view", "messages").lower()
    if view not in VIEWS:
        raise UsageError(f"no view has the name {view!r}; the views are {', '.join(VIEWS)}")
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = _KNOWN.get(name)
        if option is None or option.field == "":
            continue
        values[option.field] = option.parse(option.name, text)
    possible = VIEWS[view].conditions | (OF_FILES if VIEWS[view].of_files else frozenset())
    for option in _CONDITIONS:
        if option.field in values and option.field not in possible:
            raise UsageError(f"the view {view} has no selection by {option.name}")
    body, properties = (read_truth(name, given.get(name, "false")) for name in ("body", "properties"))
    wanted = choose_columns(view, WantedRows(**values), body=body, properties=properties)
    return Request(view, sources_of(given), wanted)


def sources_of(given: Mapping[str, str]) -> tuple[StoreSource, ...]:
    """The stores that options name: by `path`, as Spark's `load` says it, by `paths` or by `store`."""
    paths = [path for name in ("path", "paths", "store") for path in listed_paths(name, given.get(name, ""))]
    if not paths:
        raise UsageError("name a store: load(PATH), or the option path, or store where SQL keeps path")
    storage_options = _object("storage_options", given.get("storage_options", ""))
    is_deep = read_truth("recursiveFileLookup", given.get("recursivefilelookup", "false"))
    return find_sources(
        deep_places(paths, storage_options) if is_deep else paths,
        brokers=_words("broker", given.get("broker", "")),
        version=given.get("version") or None,
        broker_confs=listed_paths("broker_conf", given.get("broker_conf", "")),
        commitlog_paths=_words("commitlog_paths", given.get("commitlog_paths", "")),
        delay_levels=given.get("delay_levels") or None,
        storage_options=storage_options,
    )


def listed_paths(name: str, text: str) -> list[str]:
    """The paths that an option's text names: one, or a JSON list. Raises UsageError for another list."""
    if not text.startswith("["):
        return [text] if text else []
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    if not all(isinstance(item, str) for item in found):
        raise UsageError(f"{name}: not a list of texts: {text}")
    return list(found)


def _object(name: str, text: str) -> dict[str, Any]:
    """A JSON object; the error quotes no other text, since that may be a secret."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{name}: not a JSON object")
    return found


def _words(name: str, text: str) -> list[str]:
    """Words between commas, or a JSON list."""
    if text.startswith("["):
        return listed_paths(name, text)
    return [word.strip() for word in text.split(",") if word.strip()]


def read_integer(name: str, text: str) -> int:
    """The number of 64 bits that an option's text is; else UsageError."""
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{name} must be a whole number, not {text!r}") from None
    if not -(1 << 63) <= value < 1 << 63:
        raise UsageError(f"{name} must fit 64 bits, and {text} does not")
    return value


def read_time(name: str, text: str) -> int:
    """The time (ms) that an option's text says: milliseconds, or a date as ISO 8601 (UTC where it names no
    zone); else UsageError."""
    try:
        return read_integer(name, str(parse_time(text)))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def read_size(name: str, text: str) -> int:
    """The bytes that an option's text says, such as 64M; else UsageError."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def read_truth(name: str, text: str) -> bool:
    """Whether an option's text says true or false; else UsageError."""
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageError(f"{name} must be true or false, not {text!r}")
    return word in _TRUE


def _text(name: str, text: str) -> str:  # noqa: ARG001
    return text


def _lower(name: str, text: str) -> str:  # noqa: ARG001
    return text.strip().lower()


def _upper(name: str, text: str) -> str:  # noqa: ARG001
    return text.strip().upper()


def _columns(name: str, text: str) -> tuple[str, ...]:
    return tuple(_words(name, text))


@dataclass(frozen=True, slots=True)
class _Option:
    """An option's name, the field of `WantedRows` that it sets ("": none), and how its text is read."""

    name: str
    field: str = ""
    parse: Callable[[str, str], Any] = _text


_OPTIONS = (
    _Option("path"),
    _Option("paths"),
    _Option("store"),
    _Option("view"),
    _Option("broker"),
    _Option("broker_conf"),
    _Option("version"),
    _Option("commitlog_paths"),
    _Option("delay_levels"),
    _Option("storage_options"),
    _Option("recursiveFileLookup"),
    _Option("columns", "columns", _columns),
    _Option("body"),
    _Option("properties"),
    _Option("level", "level", _lower),
    _Option("mode", "mode", _upper),
    _Option("ignoreMissingFiles", "ignore_missing_files", read_truth),
    _Option("ignoreCorruptFiles", "ignore_corrupt_files", read_truth),
    _Option("columnNameOfCorruptRecord", "corrupt_column"),
    _Option("live_only", "live_only", read_truth),
    _Option("split_size", "split_size", read_size),
    _Option("max_body_size", "max_body_size", read_size),
    _Option("now_timestamp", "now_timestamp", read_time),
    _Option("topic", "topic"),
    _Option("queue_id", "queue_id", read_integer),
    _Option("tag", "tag"),
    _Option("key", "key"),
    _Option("begin_timestamp", "begin_timestamp", read_time),
    _Option("end_timestamp", "end_timestamp", read_time),
    _Option("begin_offset", "begin_offset", read_integer),
    _Option("end_offset", "end_offset", read_integer),
    _Option("pathGlobFilter", "file_pattern"),
    _Option("modifiedAfter", "modified_after", read_time),
    _Option("modifiedBefore", "modified_before", read_time),
)
OPTION_NAMES = tuple(option.name for option in _OPTIONS)
_REMOVED = {
    "pushdown": "Spark keeps the filters of one query with the DataFrame, so other queries of it miss "
    "rows; select by the options topic, queue_id, begin_timestamp, end_timestamp, begin_offset and "
    "end_offset"
}
_KNOWN = {option.name.lower(): option for option in _OPTIONS}
_CONDITIONS = _OPTIONS[OPTION_NAMES.index("topic") :]
