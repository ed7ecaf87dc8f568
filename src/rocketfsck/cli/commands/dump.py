"""`rocketfsck dump PATH`: the contents of a file, of a directory of a store, or of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.base import scrolling
from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump import targets as dump_targets
from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item, Kind
from rocketfsck.cli.dump.targets import Target
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import FORMATS, Bodies, Column, Destination, Table, write_rows
from rocketfsck.cli.show.text import Palette, visible
from rocketfsck.commands import shared
from rocketfsck.common.options import Argument, Option, PathKind
from rocketfsck.errors import UsageError
from rocketfsck.progress import Phase, phase
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.commands.masks import Masks


CHOICES = (*dump_item.KINDS, dump_item.DATABASE, dump_targets.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpLine:
    """What is shown of which files, how, and where."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="PATH…", kind=PathKind(stdin=True))]
    kind: Annotated[
        str | None, Option("Kind of PATH, or of the files of a store to show.", choices=CHOICES)
    ] = None
    messages: shared.WantedMessages = field(default_factory=shared.WantedMessages)
    physical_offsets: shared.PhysicalOffsets = None
    queue_offsets: Annotated[
        tuple[int, int] | None, Option("Only these queue offsets.", names=("--queue-offset",), kind="range")
    ] = None
    positions: Annotated[
        tuple[int, int] | None,
        Option("Only items that overlap these byte positions.", names=("--pos",), kind="range"),
    ] = None
    slot: Annotated[
        int | None, Option("The chain of this hash slot (index), or this slot (timer wheel).")
    ] = None
    limit: shared.Limit = None
    bodies: Bodies = field(default_factory=Bodies)
    as_hex: Annotated[bool, Option("Show every byte next to its field.", names=("--hex",))] = False
    verbose: Annotated[bool, Option("Show every field of every item.", names=("-v", "--verbose"))] = False
    start_offset: shared.StartOffset = None
    slot_count: shared.SlotCount = None
    entry_count: shared.EntryCount = None
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)
    masking: shared.Masking = field(default_factory=shared.Masking)
    answer: Annotated[Destination, Formats(FORMATS)]

    def wanted(self) -> DumpFilter:
        """The filters."""
        common = self.messages
        return DumpFilter(
            topic=common.topic,
            queue_id=common.queue_id,
            tag=common.tag,
            key=common.key,
            begin=common.times.begin,
            end=common.times.end,
            physical_offsets=self.physical_offsets,
            queue_offsets=self.queue_offsets,
            positions=self.positions,
            slot=self.slot,
            body=self.bodies.form(),
        )


@command_of(DumpLine)
def dump_command(line: DumpLine) -> None:
    """Show what is in each PATH: any file of a store, a directory in one, or a store (its messages).

    dump shows every byte of a file: as a record, a unit, an entry, zeros, or unknown bytes. With a filter,
    dump shows only what matches. dump shows bodies only with --body.
    """
    if line.as_hex and line.answer.form != "text":
        raise UsageError("--hex needs --format text")
    if line.as_hex and line.masking.is_wanted:
        raise UsageError("--hex shows bytes, and --mask hides them")
    wanted, answer, masks = line.wanted(), line.answer, line.masking.masks()
    shaped = line.slot_count is not None or line.entry_count is not None
    targets = []
    for path in line.paths:
        found = dump_targets.find_targets(path, line.kind, line.stated, index_shaped=shaped)
        if not found:  # only where a kind is asked for
            say_line(f"Note: {visible(dump_targets.no_target_text(path, str(line.kind)))}", err=True)
        targets += [target for target in found if _concerns(target, wanted)]
    if line.as_hex and any(dump_item.is_database(target.kind) for target in targets):
        raise UsageError("--hex is for files: rows of a RocksDB have no byte positions")
    shown = {target.kind for target in targets} or {str(line.kind)} & dump_item.KINDS.keys()
    kinds = {name: dump_item.load_kind(name, wanted) for name in shown}
    if len(kinds) > 1 and answer.form in ("csv", "arrow", "parquet"):
        raise UsageError(f"the files have several kinds; choose one with --kind: {', '.join(sorted(kinds))}")
    run = _Run(line, wanted, masks)
    if masks is not None:
        for store in {id(target.store): target.store for target in targets}.values():
            if store is not None:
                masks.learn_store(store)
        masks.learn(target.topic for target in targets if target.topic is not None)
    with (
        answer.open(_stores(line.paths)) as stream,
        nullcontext() if answer.path is not None else scrolling(stream),
        phase("reading", sum(target.path.stat().st_size for target in targets)) as at,
    ):
        if answer.form == "text":
            palette = answer.palette(stream)
            stream.writelines(f"{text}\n" for text in run.text(targets, kinds, palette, at))
            return
        head = {"kind": "rocketfsck.dump", "paths": list(map(str, line.paths))}
        rows = (
            {"kind": item.kind, "file": source.name, "start": item.start, "end": item.end} | dict(item.values)
            for source, _, item in run.items(targets, kinds, at)
        )
        write_rows(stream, answer.form, Table(_columns(kinds), head, rows))


def _stores(paths: tuple[Path, ...]) -> list[Path]:
    """The files that are read and the stores that they are in: nothing may be written there."""
    roots = (dump_targets.store_root(shared.resolved(path)) for path in paths)
    return [*paths, *(root for root in roots if root is not None)]


def _columns(kinds: dict[str, Kind]) -> tuple[Column, ...]:
    return tuple(dict.fromkeys(column for kind in kinds.values() for column in kind.columns))


def _concerns(target: Target, wanted: DumpFilter) -> bool:
    """Whether a file can hold what is wanted, by the queue that it belongs to."""
    if target.topic is None:
        return True
    return (wanted.topic is None or target.topic == wanted.topic) and (
        wanted.queue_id is None or target.queue_id is None or target.queue_id == wanted.queue_id
    )


class _Run:
    """One dump: opens the files one after the other and counts what is shown."""

    def __init__(self, line: DumpLine, wanted: DumpFilter, masks: Masks | None = None) -> None:
        self.line = line
        self.masks = masks
        self.wanted = wanted
        self.left = line.limit

    def sources(self, targets: list[Target]) -> Iterator[tuple[Target, DumpSource]]:
        given = {name: getattr(self.line, name) for name in ("start_offset", "slot_count", "entry_count")}
        known = {name: value for name, value in given.items() if value is not None}
        for target in targets:
            if self.left == 0:
                return
            with FileReader(target.opened_path) as reader:
                source = target.source(reader)
                yield target, replace(source, property_parser=self._parser(target), **known)

    def _parser(self, target: Target) -> Any:
        if target.kind != "commitlog":
            return "scan"
        if target.store is not None:
            return target.store.dialect.property_parser
        version = self.line.stated.broker_version
        if version is None:
            return "scan"
        from rocketfsck.formats.dialect import dialect_for

        return dialect_for(version).property_parser

    def file_items(self, source: DumpSource, kind: Kind, at: Phase, before: int) -> Iterator[Item]:
        empty = [] if self.wanted.any else [Item("empty", 0, 0, {}, "the file is empty")]
        for item in kind.items(source, self.wanted) if source.size else empty:
            at.at(before + item.end)
            if not self.wanted.has_positions(item.start, item.end):
                continue
            if self.left == 0:
                return
            if self.left is not None:
                self.left -= 1
            yield item

    def items(
        self, targets: list[Target], kinds: dict[str, Kind], at: Phase
    ) -> Iterator[tuple[DumpSource, Kind, Item]]:
        done = 0
        for target, source in self.sources(targets):
            shown = source
            if self.masks is not None:
                name, topic = self.masks.text(source.name), self.masks.of(source.topic, "topic")
                shown = replace(source, name=name, topic=topic)
            for item in self.file_items(source, kinds[target.kind], at, done):
                yield shown, kinds[target.kind], self._masked(item)
            done += source.size

    def _masked(self, item: Item) -> Item:
        if self.masks is None:
            return item
        values = self.masks.of(item.values)
        return replace(item, values=values, note=self.masks.text(item.note))

    def text(
        self, targets: list[Target], kinds: dict[str, Kind], palette: Palette, at: Phase
    ) -> Iterator[str]:
        from rocketfsck.cli.dump.render import TextRenderer, heading, hex_item_lines

        shown_name: tuple[str, str] | None = None
        renderer: TextRenderer | None = None
        for source, kind, item in self.items(targets, kinds, at):
            if (source.name, kind.name) != shown_name:
                shown_name = (source.name, kind.name)
                body = self.wanted.body != "none"
                renderer = TextRenderer(kind, palette, verbose=self.line.verbose, body=body)
                yield heading(source, kind, palette)
            assert renderer is not None
            as_hex = self.line.as_hex
            yield from hex_item_lines(source, item, palette) if as_hex else renderer.lines(item)
        if shown_name is None and (self.wanted.any or self.wanted.positions is not None):
            yield palette.dim("nothing matches")
