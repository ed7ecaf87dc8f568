"""Answers as HTML for notebooks: a headline, facts, one table. What a store says is printable and escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rocketfsck.common.wording import visible

ROW_LIMIT = 20
"""Rows of a table; how many more there are is said below it."""


def html_of(
    title: str,
    facts: Iterable[tuple[str, object]],
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """The answer as HTML without scripts and styles; facts and rows are shown in their order, None as "-"."""
    lines = [f"<strong>{_text(title)}</strong>"]
    said = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts)
    if said:
        lines.append(f"<table>{said}</table>")
    if rows:
        names = "".join(f"<th>{_text(name)}</th>" for name in head)
        body = "".join(
            f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows[:ROW_LIMIT]
        )
        lines.append(f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>")
    if len(rows) > ROW_LIMIT:
        lines.append(f"<p>and {len(rows) - ROW_LIMIT:,} more</p>")
    return "\n".join(lines)


def _text(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return escape(visible(text, keep_backslash=True))
