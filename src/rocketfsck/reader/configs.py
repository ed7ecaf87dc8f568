"""A file of config/ as a broker loads it: the file, and where that is missing, empty or broken its .bak.

ConfigManager.load. Reference 1.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.configviews import TopicConfig, topic_configs
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole

BACKUP = ".bak"
CONFIG_LIMIT = 64 << 20
"""Bytes of a file of config/ that is parsed; a parsed one takes several times as much memory."""

Value = TypeVar("Value")


def loaded_config(store: Store, name: str) -> object | None:
    """The value that a broker goes by, of at most `CONFIG_LIMIT` bytes; None where neither file helps."""
    value: object = _loaded(store, name, decode_config)
    return value


def loaded_topics(store: Store) -> Mapping[str, TopicConfig] | None:
    """What topics.json says; None without one of at most `CONFIG_LIMIT` bytes, or for another form."""
    return _loaded(store, "topics.json", _topics)


@lru_cache(maxsize=1)
def _topics(data: bytes) -> Mapping[str, TopicConfig] | None:
    """Many ask for the same file, each start of a prediction several times: it is decoded once."""
    value = decode_config(data)
    with suppress(FormatError):
        return topic_configs(value)
    return None


def _loaded(store: Store, name: str, decode: Callable[[bytes], Value]) -> Value | None:
    """`decode` raises FormatError for bytes that a broker does not load."""
    files = {file.name: file for file in store.configs}
    for candidate in (name, f"{name}{BACKUP}"):
        file = files.get(candidate)
        if file is None or not file.size:
            continue
        try:
            return decode(read_whole(file.location, CONFIG_LIMIT))
        except (FormatError, StoreError):
            continue
    return None
