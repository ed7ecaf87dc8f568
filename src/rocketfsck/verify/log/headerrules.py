"""Rules on header fields that frame, lengths and CRCs do not cover, but that brokers fill in few ways only.

    sysFlag 0x40, 0x80           an inner batch, which always has INNER_NUM and INNER_BASE
    sysFlag 0x8                  a committed message, whose producer set TRAN_MSG and PGROUP
    preparedTransactionOffset    0 but in committed and rolled-back messages
    reconsumeTimes               a count of deliveries
    bornTimestamp                a time

All of them are heuristic: a client can send what no client is known to send. Reference 2.1, 2.3, 2.10, 2.12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags
from rocketfsck.formats.magic import (
    INNER_BATCH,
    NEED_UNWRAP,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NOT,
)
from rocketfsck.formats.properties import PGROUP, TRAN_MSG
from rocketfsck.scan.columns import Trait
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.emit import add_runs
from rocketfsck.verify.finding import Facts
from rocketfsck.verify.log.propertyrows import have_property
from rocketfsck.verify.log.rows import LogRows
from rocketfsck.verify.tasks.task import Collector

RECONSUME_LIMIT = 1 << 16
"""Deliveries of one message that nobody waits for: at the longest default delay they take fifteen years."""

BATCH_FLAGS = NEED_UNWRAP | INNER_BATCH
TRANSACTION_PROPERTIES = (TRAN_MSG.encode(), PGROUP.encode())


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`rule` is broken by the rows that `broken` flags; `name` and `column` are what its template shows."""

    rule: str
    broken: Callable[[LogRows, FileReader], Flags]
    name: str
    column: str


def _in_state(rows: LogRows, state: int) -> Flags:
    flags: Flags = (rows["sys_flag"] & TRANSACTION_MASK) == state
    return flags


def _lacks_inner_number(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    is_batch, has_number = rows["sys_flag"] & BATCH_FLAGS, rows["traits"] & int(Trait.INNER_BATCH)
    broken: Flags = (is_batch != 0) & (has_number == 0)
    return broken


def _plain_with_prepared(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = _in_state(rows, TRANSACTION_NOT) & (rows["prepared_transaction_offset"] > 0)
    return broken


def _never_prepared(rows: LogRows, reader: FileReader) -> Flags:
    broken = _in_state(rows, TRANSACTION_COMMIT)
    for name in TRANSACTION_PROPERTIES:
        committed = np.flatnonzero(broken)
        broken[committed] = ~have_property(rows, committed, name, reader)
    return broken


def _reconsumed_absurdly(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    times = rows["reconsume_times"]
    broken: Flags = (times < 0) | (times >= RECONSUME_LIMIT)
    return broken


def _born_never(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = rows["born_timestamp"] <= 0
    return broken


HEADER_RULES: tuple[HeaderRule, ...] = (
    HeaderRule(RuleName.RECORD_INNER_BATCH_FLAG, _lacks_inner_number, "sys_flag", "sys_flag"),
    HeaderRule(
        RuleName.RECORD_PREPARED_OFFSET,
        _plain_with_prepared,
        "prepared_transaction_offset",
        "prepared_transaction_offset",
    ),
    HeaderRule(RuleName.RECORD_COMMIT_FLAG, _never_prepared, "sys_flag", "sys_flag"),
    HeaderRule(RuleName.RECORD_RECONSUME_TIMES, _reconsumed_absurdly, "reconsume_times", "reconsume_times"),
    HeaderRule(RuleName.RECORD_BORN_TIMESTAMP, _born_never, "born_timestamp", "born_timestamp"),
)


def check_headers(rows: LogRows, reader: FileReader, collector: Collector) -> None:
    """Add what these rules find in a batch's rows. Raises StoreError where properties cannot be read."""
    for rule in HEADER_RULES:
        flags = rule.broken(rows, reader)
        if flags.any():
            add_runs(collector, rule.rule, rows, flags, partial(_value, rule, rows))


def _value(rule: HeaderRule, rows: LogRows, row: int) -> Facts:
    return {rule.name: int(rows[rule.column][row])}
