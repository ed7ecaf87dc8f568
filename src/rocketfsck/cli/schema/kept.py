"""The settings in force, and what a repair keeps next to its journal, as types."""

from __future__ import annotations

from typing import Any, Literal

from rocketfsck.cli.commands.config import KIND, ConfigSaid
from rocketfsck.cli.schema.making import record
from rocketfsck.repair.apply.ledger import Ledger
from rocketfsck.repair.apply.repairlog import KIND as ACTION
from rocketfsck.repair.apply.repairlog import LoggedAction


def config() -> Any:
    """The document of `config`."""
    return record(KIND, ConfigSaid, kind=Literal["rocketfsck.config"])


def repair_log() -> Any:
    """A line of the log of repairs."""
    return record(ACTION, LoggedAction, kind=Literal["rocketfsck.repair.action"])


def ledger() -> Any:
    """ledger.json next to a repaired store."""
    return record("ledger.json", Ledger, kind=Literal["rocketfsck.ledger"])
