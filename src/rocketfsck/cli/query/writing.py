"""Where the answer of a query goes: text, or one head and rows in a machine format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.output import Column, open_rows
from rocketfsck.cli.query.found import FoundText, found_columns, found_row
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.query.traces import answer_lines, answer_values, trace_lines
from rocketfsck.cli.show.text import Palette

if TYPE_CHECKING:
    from rocketfsck.query.answers import Answer, Found
    from rocketfsck.query.content.evaluate import Expression
    from rocketfsck.store import Store

Lines = Callable[[Palette], Iterator[str]]
Row = Mapping[str, Any]


def write(
    asked: QueryRequest,
    store: Store,
    kind: str,
    lines: Lines,
    head: Callable[[], Row],
    columns: Sequence[Column],
    rows: Iterable[Row],
) -> None:
    """Write an answer: `lines` as text; else `head` and then `rows`.

    In jsonl the head is the first line; csv, arrow and parquet have rows only.
    """
    answer = asked.answer
    with answer.open([asked.path, *asked.stated.commitlog_paths, *store.commitlog.directories]) as stream:
        if answer.form == "text":
            for line in lines(answer.palette(stream)):
                stream.write(line + "\n")
            return
        said = {"kind": kind, **head()} if answer.form in ("json", "jsonl") else {}
        with open_rows(stream, answer.form, columns, said) as writer:
            if answer.form == "jsonl":
                writer.write(said)
            for row in rows:
                writer.write(row)


def write_answer(asked: QueryRequest, store: Store, kind: str, answer: Answer) -> None:
    """Write the messages of an answer and what is to be said of it."""
    root = str(store.root)
    answer = asked.masked(answer)

    def lines(palette: Palette) -> Iterator[str]:
        text = FoundText(asked, palette)
        for found in answer.found:
            yield from text.lines(found)
        yield from answer_lines(answer, palette)
        if asked.traced and answer.trace is not None:
            yield from trace_lines(answer.trace, palette, everything=asked.verbose)

    rows = ({"kind": "message", **found_row(found, asked.body, root)} for found in answer.found)
    columns = (Column("kind", "text"), *found_columns(asked.body))
    write(asked, store, kind, lines, lambda: answer_values(answer, traced=asked.traced), columns, rows)


def write_found(
    asked: QueryRequest, store: Store, kind: str, expression: Expression, found: Iterable[Found]
) -> int:
    """Write messages as they are found, then whose content could not be read; returns how many were found."""
    root = str(store.root)
    count = 0

    def lines(palette: Palette) -> Iterator[str]:
        nonlocal count
        text = FoundText(asked, palette)
        for item in found:
            count += 1
            yield from text.lines(asked.masked(item))
        if not count:
            yield palette.dim("nothing matches")

    def rows() -> Iterator[Row]:
        nonlocal count
        for item in found:
            count += 1
            yield {"kind": "message", **found_row(asked.masked(item), asked.body, root)}
        if asked.answer.form in ("json", "jsonl"):
            for reason, number in sorted(expression.unread.items()):
                yield {"kind": "unread", "reason": reason, "message_count": number}

    columns = (Column("kind", "text"), *found_columns(asked.body))
    write(asked, store, kind, lines, lambda: asked.masked({"expression": expression.text}), columns, rows())
    return count
