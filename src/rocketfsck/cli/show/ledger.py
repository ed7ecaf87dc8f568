"""What a repair did to messages, units and records, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.cli.show.table import aligned_rows
from rocketfsck.cli.show.text import Palette, count_of, shorten, visible
from rocketfsck.repair.apply.ledger import Ledger, LedgerAccount
from rocketfsck.verify.account.model import Fates

SHOWN, NAME_SHOWN = 12, 60
"""Rows of a list, and characters of a name, that are shown."""


def message_lines(before: Fates | None, after: Fates | None, palette: Palette) -> Iterator[str]:
    """What became of the messages, before and after; nothing where nothing changed."""
    if before is None or after is None or before == after:
        return
    yield ""
    yield palette.bold("Messages")
    rows = [("", "before", "after")]
    for name, text in _FATES.items():
        then, now = getattr(before, name), getattr(after, name)
        if then or now:
            rows.append((text, f"{then:,}", f"{now:,}"))
    for number, line in aligned_rows(rows, right=(1, 2)):
        yield palette.dim(f"  {line}") if number == 0 else f"  {line}"


_FATES = {
    "served_count": "consumers get",
    "damaged_count": "consumers get damaged",
    "unreached_count": "out of the reach of consumers",
    "lost_count": "lost",
    "perhaps_lost_count": "perhaps lost",
    "replaced_count": "replaced by filler records",
    "removed_count": "removed with their topics",
}
"""What is said of messages by their fate, in a table."""


def ledger_lines(ledger: Ledger, palette: Palette) -> Iterator[str]:
    """What became of the units of each queue and of the records of changed files; nothing where none did."""
    if not ledger.accounts:
        return
    yield ""
    yield palette.bold("Ledger (units of queues, records of the log)")
    head = ("", "before", "kept", "corrected", "moved", "lost", "gained", "after")
    shown = ledger.accounts[:SHOWN]
    rows = [head, *map(_account_row, shown)]
    for number, line in aligned_rows(rows, right=range(1, len(head))):
        account = shown[number - 1] if number else None
        odd = account is not None and not account.balanced
        yield palette.error(f"  {line}") if odd else palette.dim(f"  {line}") if number == 0 else f"  {line}"
        if account is not None and account.lost_ranges:
            yield f"    lost: {_ranges_text(account)}"
    if len(ledger.accounts) > SHOWN:
        yield f"  … {len(ledger.accounts) - SHOWN:,} more; --format json has them all"
    if ledger.filler_count > 0:
        yield f"  added: {count_of(ledger.filler_count, 'filler record')}, not counted as messages"
    others = count_of(ledger.unchanged_queue_count, "queue")
    files = count_of(ledger.unchanged_log_file_count, "commit log file")
    yield f"  untouched: {others}, {files}"


def _account_row(account: LedgerAccount) -> tuple[str, ...]:
    name = (
        "records of changed commit log files"
        if account.kind == "log"
        else f"{shorten(visible(account.topic), NAME_SHOWN)} queue {account.queue_id}"
    )
    numbers = (
        account.before,
        account.kept,
        account.corrected,
        account.moved,
        account.lost,
        account.gained,
        account.after,
    )
    return name, *(f"{number:,}" for number in numbers)


def _ranges_text(account: LedgerAccount) -> str:
    what = "physical offset" if account.kind == "log" else "queue offset"
    shown = [
        str(item.start) if item.count == 1 else f"{item.start} to {item.end - 1}"
        for item in account.lost_ranges[:SHOWN]
    ]
    more = " …" if len(account.lost_ranges) > SHOWN else ""
    return f"{what} {', '.join(shown)}{more}"
