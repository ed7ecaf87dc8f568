"""Opens a store exactly as a plan says: its version, its sizes, its settings, wherever its bytes now are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import parse_version
from rocketfsck.repair.apply.judging import START_SETTINGS
from rocketfsck.repair.plan.model import PlanTarget
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.geometry import SETTINGS
from rocketfsck.store.model import Store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

INDEX_SWITCH = "messageIndexEnable"
LOOKED_AT = (INDEX_SWITCH, "messageIndexSafe", *START_SETTINGS)
"""Settings, besides sizes, that a check, or a predicted start, looks at."""


def describe_store(store: Store) -> PlanTarget:
    """How a store is to be opened again."""
    evidence = store.dialect_evidence
    return PlanTarget(
        root=str(store.root),
        version=str(store.dialect.version),
        geometry={name: getattr(store.geometry, name) for name in GEOMETRY_DEFAULTS},
        commitlog_paths=tuple(store.commitlog.locations) if _is_stated(store) else (),
        delay_levels=store.delay_levels,
        log_start_offset=store.commitlog.start_offset,
        log_end_offset=store.commitlog.end_offset,
        versions=tuple(map(str, evidence.versions)),
        version_given=evidence.given,
        settings=_stated_settings(store),
        delay_levels_given=store.delay_levels_source == "given",
    )


def _stated_settings(store: Store) -> dict[str, str]:
    """What a broker.conf sets of what is looked at; a default where it sets none of that: there was one."""
    values = store.settings.values
    stated = {name: values[name] for name in LOOKED_AT if name in values}
    return stated or ({} if store.settings.path is None else {INDEX_SWITCH: "true"})


def _is_stated(store: Store) -> bool:
    """Whether the commitlog is elsewhere than where it is looked for."""
    return store.commitlog.locations not in ((f"{store.root}/commitlog",), (str(store.root),))


def open_planned(
    planned: PlanTarget, root: Path, commitlog_paths: Sequence[Path], settings: ConfinedPlace
) -> Store:
    """The store below `root` as the plan's store was opened.

    `settings` is a file that is written for it. Raises StoreError as `open_store` does, UsageError for what
    is not a version or a size.
    """
    lines = [f"{name}={value}" for name, value in planned.settings.items() if name in LOOKED_AT]
    for name, size in planned.geometry.items():
        if name not in SETTINGS or size <= 0:
            raise UsageError(f"plan: store.geometry: {name!a} of {size} is not a size of a store's files")
        # A size that no broker.conf can set was read off the files, and will be again.
        if size < 1 << 31 and size % SETTINGS[name].multiple == 0:
            lines.append(f"{SETTINGS[name].names[0]}={size}")
    if any("\n" in line or "\\" in line or "\r" in line for line in lines):
        raise UsageError("plan: store.settings: a value has more than one line")
    if fileops.exists(settings):
        fileops.unlink(settings)
    fileops.create(settings, 0, 0o644)
    fileops.write(settings, 0, ("\n".join(lines) + "\n").encode("latin-1", "replace"))
    store = open_store(
        root,
        broker_conf=Path(settings),
        version=planned.version,
        commitlog_paths=commitlog_paths,
        # the default, said as if it were given, would keep a check from reading them off the units
        delay_levels=planned.delay_levels if planned.delay_levels_given else None,
    )
    versions = tuple(parse_version(version) for version in planned.versions)
    evidence = replace(
        store.dialect_evidence,
        given=planned.version_given,
        versions=versions or (store.dialect.version,),
    )
    # sizes were put in a file for this opening alone: what a broker.conf leaves out says nothing without one
    read = store.settings if planned.settings else replace(store.settings, path=None)
    return replace(store, dialect_evidence=evidence, settings=read)
