"""An open store for programs and people: `with rocketfsck.open(path) as store:`.

    len(store), for message in store       the messages of the log
    store.messages(topic=…, key=…, …)      those that match
    store.to_arrow(…), store.rows(view)    columns, as Arrow record batches
    store.check(), verdict(), plan()       what is wrong, what that means, what a repair would do
    store.apply(plan)                      the repair: the only thing here that writes

Everything is read from the log again when it is asked for, batch by batch; nothing is held in memory but the
listing of the store and a few open files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from weakref import finalize

from rocketfsck.api import placed_messages
from rocketfsck.common.wording import count_of
from rocketfsck.errors import UsageError
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message, MessageFilter
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.opening import open_store, reopen_store
from rocketfsck.storedmessage import StoredMessage, Time, milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketfsck.pipeline.views.model import WantedRows
    from rocketfsck.query.offsets import GroupOffsets
    from rocketfsck.repair.apply.results import ApplyReport
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.state import LostMessages
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.verify.finding import Level
    from rocketfsck.verify.report import Report

Item = TypeVar("Item")
Timestamps = Literal["utc", "ms"]

_OF_BODIES = ("body", "body_crc_ok")


def open(  # noqa: A001 - `rocketfsck.open` is said with its package, as `gzip.open` is
    path: Path | str,
    *,
    broker_conf: Path | str | None = None,
    version: str | None = None,
    commitlog_paths: Sequence[Path | str] = (),
    delay_levels: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> OpenedStore:
    """Open the store below `path`, a directory or a URL, for reading; a context manager.

    `broker_conf` is the broker's settings file, `version` the broker's version where the bytes leave it open;
    `commitlog_paths` are all directories of the commit log, `delay_levels` the text of `messageDelayLevel`,
    `storage_options` what fsspec needs for URLs. Opening lists and samples the files; it scans nothing.

    Raises StoreError if the directory cannot be listed or the settings cannot be read; UsageError for an
    unknown version or URL. What is wrong inside the store raises nothing: ask `check`.
    """
    return OpenedStore(
        open_store(
            path,
            broker_conf=broker_conf,
            version=version,
            commitlog_paths=commitlog_paths,
            delay_levels=delay_levels,
            storage_options=storage_options,
        )
    )


class OpenedStore:
    """A store that is open for reading, as it was listed when it was opened. See `rocketfsck.open`.

    `store` is the listing, for the functions that take a `Store`. After `close` every method raises
    UsageError. Methods that read raise StoreError, with the file and the position, when bytes cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: Readers | None = Readers()
        finalize(self, self._readers.close)  # of a store that nobody closes
        self._report: Report | None = None
        self._count: int | None = None

    def __repr__(self) -> str:
        closed = ", closed" if self._readers is None else ""
        return f"<rocketfsck store {str(self._store.root)!r}, {self._store.dialect.version}{closed}>"

    def _repr_html_(self) -> str:
        from rocketfsck.common.rows import html_of

        store = self._store
        facts = [
            ("version", self.version),
            ("commit log", count_of(len(store.commitlog.files), "file")),
            ("topics", len({queue.topic for queue in store.queues})),
            ("queues", len(store.queues)),
            ("index files", len(store.indexes)),
        ]
        return html_of(f"RocketMQ store {store.root}", facts)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The messages without bodies, for whatever takes Arrow's C stream; as `to_arrow`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        self._demand_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. Nothing can be read afterwards; what was made of the store stays."""
        if self._readers is not None:
            self._readers.close()
            self._readers = None

    @property
    def store(self) -> Store:
        """The listing: files, queues, geometry, dialect. Raises UsageError once the store is closed."""
        self._demand_open()
        return self._store

    def _demand_open(self) -> Readers:
        if self._readers is None:
            raise UsageError("the store is closed")
        return self._readers

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._store.root

    @property
    def version(self) -> str:
        """The broker version that the store is read as."""
        return str(self._store.dialect.version)

    @property
    def queues(self) -> tuple[ConsumeQueue, ...]:
        """The consume queues, by topic and queue id."""
        return self.store.queues

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that have consume queues, by name."""
        return tuple(sorted({queue.topic for queue in self.store.queues}))

    def __len__(self) -> int:
        """The number of messages in the log. The first call scans the log, without bodies."""
        self._demand_open()
        if self._count is None:
            self._count = sum(batch.num_rows for batch in self.to_arrow(["offset"]))
        return self._count

    def __bool__(self) -> bool:
        """Whether there is any message. Reads no further than the first."""
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[StoredMessage]:
        """All messages in the log's order, as `messages()`."""
        return self.messages()

    def messages(
        self,
        *,
        topic: str | None = None,
        queue_id: int | None = None,
        key: str | None = None,
        tag: str | None = None,
        start: Time | None = None,
        end: Time | None = None,
        limit: int | None = None,
        live_only: bool = True,
    ) -> Iterator[StoredMessage]:
        """The messages that match all that is given, in the log's order; `limit` of them at most.

        `key` is a word of KEYS or the UNIQ_KEY, `tag` the whole TAGS. `start` and `end` bound the store
        timestamp, half-open: datetimes with a time zone, ms, or text. Without `live_only` the messages that a
        truncation left behind the log's end come, too. The whole log is scanned, so a damaged index hides
        nothing; damaged ranges are skipped. Bodies are read when they are asked for.

        Raises UsageError for a datetime without a time zone or a negative limit; and in the end for a topic
        that neither the log nor the queues have.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit must be a number of messages, at least 0, not {limit}")
        wanted = MessageFilter(
            topic=topic,
            queue_id=queue_id,
            key=key,
            tag=tag,
            begin_timestamp=milliseconds(start),
            end_timestamp=milliseconds(end),
        )
        found = placed_messages(self.store, wanted, read_bodies=False, max_body_size=0, live_only=live_only)
        return self._messages(self._of_known(topic, islice(found, limit)))

    def _of_known(self, topic: str | None, found: Iterable[Item]) -> Iterator[Item]:
        """What was found; UsageError in the end where that is nothing, of a topic that the store lacks."""
        missing = topic is not None
        for item in found:
            missing = False
            yield item
        if missing and topic is not None:
            with StoreView(self.store) as view:
                why = view.why_no_topic(topic)
            if why is not None:
                raise UsageError(why)

    def _messages(self, found: Iterable[tuple[MappedFile, Message]]) -> Iterator[StoredMessage]:
        for file, message in found:
            offset = (file.start_offset or 0) + message.pos
            yield StoredMessage(message, offset, partial(self._read, file))

    def _read(self, file: MappedFile, pos: int, size: int) -> bytes:
        return self._demand_open().opened(file.path).read(pos, size)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        body: bool = False,
        damage: bool = False,
        timestamps: Timestamps = "utc",
        topic: str | None = None,
        queue_id: int | None = None,
        key: str | None = None,
        tag: str | None = None,
        start: Time | None = None,
        end: Time | None = None,
        live_only: bool = True,
    ) -> pa.RecordBatchReader:
        """The messages as a stream of Arrow record batches, which DuckDB, Polars, pandas and Arrow take.

        The columns are those of `rocketfsck export`, under the same names. `body`, as it is stored (maybe
        compressed), and `body_crc_ok` are given where `body` is true or `columns` names them; without both,
        bodies are not read. `store_timestamp` and
        `born_timestamp` are timestamps in ms, UTC, null outside of the years 1 to 9999; with `timestamps`
        "ms" they are the stored numbers. Conditions are those of `messages`. With `damage`, each damaged
        range of the log is a row, too, whose column `_corrupt_record` says what it is.

        Read the stream once, while the store is open. Raises UsageError for an unknown column.
        """
        from rocketfsck.pipeline.views.model import CORRUPT, WantedRows
        from rocketfsck.pipeline.views.table import schema_of

        wanted = WantedRows(
            topic=topic,
            queue_id=queue_id,
            key=key,
            tag=tag,
            begin_timestamp=milliseconds(start),
            end_timestamp=milliseconds(end),
            live_only=live_only,
            damage_rows=damage,
        )
        if columns is None:
            left_out = {*(() if body else _OF_BODIES), *(() if damage else (CORRUPT,))}
            columns = [name for name in schema_of("messages", wanted).names if name not in left_out]
        elif body and "body" not in columns:
            columns = [*columns, "body"]
        return self._stream("messages", replace(wanted, columns=tuple(columns)), timestamps)

    def rows(
        self,
        view: str,
        columns: Sequence[str] | None = None,
        *,
        timestamps: Timestamps = "utc",
        topic: str | None = None,
        queue_id: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of a view as a stream of Arrow record batches.

        `view` is "consumequeue" (a row a unit), "index" (a row an entry), "damage" (a row a damaged range of
        the log), "regions" (a row a byte range of the log), "files", "messages", "offsets" (a row a group and
        queue), "topics", "subscriptions", "lost" or "starts". `topic` and `queue_id` select units, messages,
        offsets and what is lost. Damage of units, regions and files has `_corrupt_record`. Raises
        UsageError for a view, column or condition that there is not; for findings, see `Report.to_arrow`.
        """
        from rocketfsck.pipeline.views.model import WantedRows

        chosen = None if columns is None else tuple(columns)
        return self._stream(view, WantedRows(columns=chosen, topic=topic, queue_id=queue_id), timestamps)

    def _stream(self, view: str, wanted: WantedRows, timestamps: Timestamps) -> pa.RecordBatchReader:
        from rocketfsck.pipeline.columns import read_stream

        if timestamps not in ("utc", "ms"):
            raise UsageError(f"timestamps must be utc or ms, not {timestamps!r}")
        return read_stream(self.store, view, wanted, real_times=timestamps == "utc")

    def check(self, *, level: Level = "full", jobs: int = 0) -> Report:
        """Check the store: "quick", "cross" or "full"; `jobs` files at once, 0 for one a core.

        What is wrong is in the report and raises nothing. `verdict` and `plan` go by the last check.
        """
        from rocketfsck.verify.options import CheckOptions
        from rocketfsck.verify.run import check_store

        self._report = check_store(self.store, CheckOptions(level=level, jobs=jobs))
        return self._report

    def verdict(self, report: Report | None = None, *, version: str | None = None) -> Verdict:
        """The verdict on the store: may a broker start, what is lost, what comes back, what to run next.

        `report` is a check of this store: by default the last, and a full one where there was none. `version`
        asks for the start of one broker version. Raises UsageError for an unknown version.
        """
        from rocketfsck.repair.verdict import judge_store

        return judge_store(self.store, self._checked(report), version=version)

    def lost(self, report: Report | None = None) -> list[LostMessages]:
        """The messages that are lost, by queue: offsets, times, and the groups that had not consumed them.

        `report` as for `verdict`. Raises UsageError for a check that did not count the messages (level
        "quick"), StoreError if the store cannot be read.
        """
        from rocketfsck.repair.state import lost_messages

        account = self._checked(report).account
        if account is None:
            raise UsageError("the messages were not counted: check at level cross or full")
        return list(lost_messages(self.store, account))

    def lag(self, group: str | None = None, *, topic: str | None = None) -> list[GroupOffsets]:
        """Where consumer groups are in each queue: offsets, lag, what they lost, and the times of both.

        Only those of a group, or of a topic, if one is named. Raises UsageError for a group or topic without
        an offset, FormatError for a config file that no broker loads, StoreError, also for a database that
        cannot be read.
        """
        from rocketfsck.query.offsets import group_offsets
        from rocketfsck.store.rocks.lifting import lifted

        with lifted(self.store) as lifting, StoreView(lifting.store) as view:
            for error in lifting.failed.values():
                raise error
            found = group_offsets(lifting.store, topic=topic, group=group, view=view, times=True)
        if not found and (group is not None or topic is not None):
            who = "no group has an" if group is None else f"the group {group} has no"
            raise UsageError(f"{who} offset{'' if topic is None else f' in the topic {topic}'}")
        return found

    def plan(
        self,
        report: Report | None = None,
        *,
        preen: bool = False,
        only: Sequence[str] = (),
        except_: Sequence[str] = (),
    ) -> Plan:
        """What a repair would do, why, and what it loses; nothing is written.

        `report` as for `verdict`. `preen` leaves only what is provably safe; `only` and `except_` name
        repairs. Raises UsageError for an unknown repair, StoreError if the store cannot be read.
        """
        from rocketfsck.repair.plan.planning import make_plan

        return make_plan(self.store, self._checked(report), preen=preen, only=only, except_=except_)

    def apply(
        self,
        plan: Plan,
        *,
        assume: Iterable[str] = (),
        work_dir: Path | None = None,
        outside: Sequence[Path | str] = (),
    ) -> ApplyReport:
        """Carry out a plan of this store; this writes. The store is then listed again.

        The result is built next to the store, or in `work_dir`, checked, and put in its place; what was there
        before is kept for `rocketfsck undo`. `assume` confirms what the plan assumes, as NAME or NAME=VALUE;
        `outside` names directories outside of the store in which files may be changed, too. Raises UsageError
        for a plan of another store or an assumption that nobody confirmed; StoreError if the store has
        changed since, a broker holds it, or something cannot be written.
        """
        from rocketfsck.repair.apply.applying import apply_plan
        from rocketfsck.repair.area.journal import real_root

        store = self.store
        if real_root(plan.store.root) != real_root(store.root):
            raise UsageError(f"the plan is for {plan.store.root}, not for {store.root}")
        self._demand_open().close()
        try:
            return apply_plan(plan, assume=assume, work_dir=work_dir, outside=outside)
        finally:
            self._store = reopen_store(store)
            self._report = self._count = None

    def _checked(self, report: Report | None) -> Report:
        return report or self._report or self.check()
