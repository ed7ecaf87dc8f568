"""A store that is still to be written: what the strategies draw and the fixtures write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import (
    EndState,
    Event,
    OutgoingMessage,
    Restart,
    WriteOptions,
    WrittenStore,
    write_store,
)

_SETTINGS = (
    ("mappedFileSizeCommitLog", "commitlog_file_size"),
    ("mappedFileSizeConsumeQueue", "consumequeue_file_size"),
    ("mapperFileSizeBatchConsumeQueue", "batch_file_size"),
    ("mappedFileSizeConsumeQueueExt", "ext_file_size"),
    ("maxHashSlotNum", "slot_count"),
    ("maxIndexNum", "entry_count"),
)


def broker_conf_of(geometry: Geometry) -> str:
    """The lines of a broker.conf that state these sizes: what a real broker would be given."""
    return "".join(f"{name}={getattr(geometry, field)}\n" for name, field in _SETTINGS)


@dataclass(frozen=True)
class PlannedStore:
    """What a store is to hold. `events` are messages and, in between, what else happens to a broker."""

    options: WriteOptions
    events: tuple[Event, ...]

    @property
    def version(self) -> str:
        return self.options.version

    @property
    def messages(self) -> tuple[OutgoingMessage, ...]:
        return tuple(event for event in self.events if isinstance(event, OutgoingMessage))

    @property
    def broker_conf(self) -> str:
        """The settings of its broker, as the text of a broker.conf."""
        return broker_conf_of(self.options.geometry)

    @property
    def was_killed(self) -> bool:
        """Whether the broker died at its end or in between: then a check says what that left."""
        return self.options.end_state is EndState.KILLED or any(
            isinstance(event, Restart) and event.killed for event in self.events
        )

    def write(self, directory: Path | str) -> WrittenStore:
        """Write it into a new directory, as its broker would; `write_store` says what is raised."""
        return write_store(directory, self.events, replace(self.options, sync=False))
