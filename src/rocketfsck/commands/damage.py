"""Breaks a copy of a store with named faults, and says what a check must find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import BrokerConf, BrokerVersion, IntoOrNone, Seed
from rocketfsck.common.options import Argument, Option, PathKind
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.writer.damage import DamageReport


@dataclass(frozen=True, slots=True)
class DamageCommand:
    """Which store is damaged, where the copy goes, and by which faults."""

    path: Annotated[Path | None, Argument(metavar="STORE", kind=PathKind(local="a copy to damage"))] = None
    into: IntoOrNone = None
    faults: Annotated[
        tuple[str, ...],
        Option("Fault to cause; repeatable.", names=("--fault",), metavar="NAME[:OPTION=VALUE,...]"),
    ] = ()
    seed: Seed = None
    in_place: Annotated[bool, Option("Damage STORE itself, not a copy. Nothing can undo this.")] = False
    broker_version: BrokerVersion = None
    broker_conf: BrokerConf = None


def damage(options: DamageCommand) -> DamageReport:
    """Damage a copy of the store, or the store itself. Raises UsageError, StoreError."""
    from rocketfsck.writer.damage import damage_store

    if options.path is None:
        raise UsageError("a store to damage is missing")
    return damage_store(
        options.path,
        options.into,
        options.faults,
        options.seed or 0,
        version=options.broker_version,
        broker_conf=options.broker_conf,
        in_place=options.in_place,
    )
