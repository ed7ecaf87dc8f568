"""The part of the page about bits: which of which field is seen by which rule, and which by none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docs.site.marks import cell, code, table
from tests.trust.documents import Census, Flips
from tests.trust.reasons import reason
from tests.trust.words import count, link, part, share, wrapped

STRUCTURES = {
    "record": "Record of the commit log",
    "blank": "Filler at the end of a commit log file",
    "consumequeue_unit": "Unit of a consume queue",
    "batch_consumequeue_unit": "Unit of a batch queue",
    "consumequeue_ext_unit": "Unit of a consume queue's extension",
    "index_header": "Header of an index file",
    "index_slot": "Slot of an index file",
    "index_entry": "Entry of an index file",
    "checkpoint": "Checkpoint",
}
STORES = {
    "plain-4.4.0": "plain, 4.4.0",
    "plain-5.3.3": "plain, 5.3.3",
    "propcrc-5.3.3": "property CRC, 5.3.3",
    "batch-5.3.3": "inner batch, 5.3.3",
    "delay-5.1.4": "delayed, 5.1.4",
    "trans-4.9.8": "half message, 4.9.8",
    "ext-4.9.8": "with extension, 4.9.8",
}
"""What the tables call the stores."""
_LONGEST = 60


def census_part(census: Census) -> list[str]:
    """The census."""
    return part(
        "Census of bits",
        "census",
        commit=census.commit,
        asked="Which bit of which field does a check see when it flips, by which rule, and which does no "
        "rule see?",
        how="In small sound stores, as the writer makes them for a version, one structure of each kind is "
        "taken from the middle. Each of its bits is flipped, one at a time, and the whole store is checked "
        f"at level `{census.level}`: {count(census.check_count)} checks. The check is given neither a "
        "version nor a broker.conf. A bit is seen if a rule finds something that is more than a note.",
        figures=_figures(census),
        not_shown="One record is not all records: what is seen in a field depends on the neighbours. More "
        "than one flipped bit is easier to see in most fields, and a change by somebody who also corrects "
        "checksums is not. Timers, DLedger, tiered storage and RocksDB are not in this census; the fuzzer "
        "damages all but the last.",
    )


def _figures(census: Census) -> Iterator[str]:
    yield from _sums(census)
    for layout, title in STRUCTURES.items():
        yield from (f"### {title}", "")
        yield from _structure([flips for flips in census.fields if flips.layout == layout])
    yield from ("### Bits that no rule sees", "", "Bit 0 is the lowest bit of the last byte of a field.", "")
    yield from table(("Field", "Store", "Bits that no rule sees", "Why"), _unseen(census))


def _sums(census: Census) -> Iterator[str]:
    rows = []
    for layout, title in STRUCTURES.items():
        for store in census.stores:
            here = [one for one in census.fields if (one.layout, one.store) == (layout, store)]
            if here:
                bits, unseen = sum(one.bit_count for one in here), sum(one.unseen_count for one in here)
                seen = bits - unseen
                rows.append((title, STORES[store], count(bits), count(seen), share(seen, bits)))
    yield from table(("Structure", "Store", "Bits", "Seen", "Share"), rows)
    yield from wrapped(
        "A property CRC (`enabledAppendPropCRC`, a setting of newer brokers) covers the header of the "
        "record, too: compare the rows."
    )
    yield ""


def _structure(fields: Sequence[Flips]) -> Iterator[str]:
    """A row for each field: bits seen in each store, and the rules that see any, most bits first."""
    stores = list(dict.fromkeys(one.store for one in fields))
    heads = ("Field", *(STORES[store] for store in stores), "Seen by")
    yield "Bits that are seen, of the bits of the field:"
    yield ""
    yield from table(
        heads, (_row(name, stores, fields) for name in dict.fromkeys(one.field for one in fields))
    )


def _row(name: str, stores: Sequence[str], fields: Sequence[Flips]) -> tuple[str, ...]:
    mine = {one.store: one for one in fields if one.field == name}
    cells = (
        f"{mine[store].bit_count - mine[store].unseen_count} of {mine[store].bit_count}"
        if store in mine
        else ""
        for store in stores
    )
    weights: dict[str, int] = {}
    for one in mine.values():
        for rule, bits in one.rules.items():
            weights[rule] = weights.get(rule, 0) + size_of(bits)
    rules = sorted(weights, key=lambda rule: (-weights[rule], rule))
    return code(name), *cells, ", ".join(map(link, rules)) or "no rule"


def size_of(ranges: str) -> int:
    """How many numbers ranges have: 3 of "0-1,7"."""
    pairs = (run.partition("-") for run in ranges.split(",") if run)
    return sum(int(high or low) - int(low) + 1 for low, _, high in pairs)


def _unseen(census: Census) -> Iterator[tuple[str, ...]]:
    """A row for each field and the same bits, with all stores in which no rule sees these."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in census.fields:
        if one.unseen_count:
            bits = one.unseen if len(one.unseen) <= _LONGEST else ""
            bits = "all" if one.unseen_count == one.bit_count else bits
            shown = f"{one.unseen_count} of {one.bit_count}" + (f": {bits}" if bits else "")
            rows.setdefault((f"{one.layout}.{one.field}", shown, reason(one)), []).append(STORES[one.store])
    for (name, shown, why), stores in sorted(rows.items()):
        yield code(name), "; ".join(stores), shown, cell(why)
