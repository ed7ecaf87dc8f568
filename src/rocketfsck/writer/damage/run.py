"""Damages a copy of a store: copy, one fault after the other, and the truth next to it.

The copy is built under another name and appears whole; after any error nothing of it is left. Only with
`in_place` the store itself is changed, and then no broker may hold its lock.

The copy is independent: sparse files stay sparse, times of modification are kept, symbolic links are
followed, so that nothing in it leads back to the source. What is neither a regular file nor a directory
is left out.

The table of all named faults.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType

from rocketfsck.common.outputs import write_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.progress import phase
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.damage import (
    configfaults,
    databasefaults,
    genericfaults,
    indexfaults,
    queuefaults,
    recordfaults,
    segmentfaults,
    tieredfaults,
    timerfaults,
    unitfaults,
)
from rocketfsck.writer.damage.editing import Editor
from rocketfsck.writer.damage.job import Damage, Job, Taken
from rocketfsck.writer.damage.model import Act, Change, DamageError, DamageReport
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.disk.publish import building_directory


def build_table(damages: Iterable[Damage]) -> Mapping[str, Damage]:
    """Faults by name, in the order given; ValueError for a name that is used twice."""
    table: dict[str, Damage] = {}
    for damage in damages:
        if damage.name in table:
            raise ValueError(f"two faults have the name {damage.name}")
        table[damage.name] = damage
    return MappingProxyType(table)


MODULES = (
    recordfaults, segmentfaults, unitfaults, queuefaults, indexfaults, configfaults, timerfaults,
    tieredfaults, databasefaults, genericfaults,
)  # fmt: skip
"""The modules in whose order, and in the order within them, the faults are listed."""

DAMAGES: Mapping[str, Damage] = build_table(
    value for module in MODULES for value in vars(module).values() if isinstance(value, Damage)
)


def find_damage(name: str) -> Damage:
    """The fault of this name; DamageError, with the nearest name, for none."""
    damage = DAMAGES.get(name)
    if damage is None:
        near = get_close_matches(name, DAMAGES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DamageError(f"no fault has the name {name!r}{hint}")
    return damage


TRUTH_SUFFIX = ".damage.json"


def truth_path(target: Path | str) -> Path:
    """The file next to a damaged copy that says what was done to it."""
    path = Path(target).absolute()
    return path.with_name(path.name + TRUTH_SUFFIX)


def damage_store(
    source: Path | str,
    target: Path | str | None,
    faults: Sequence[str],
    seed: int = 0,
    *,
    version: str | None = None,
    broker_conf: Path | None = None,
    in_place: bool = False,
    write_truth: bool = True,
) -> DamageReport:
    """Copy the store at `source` to `target`, which must not exist, and do the faults to the copy.

    A fault is a name of `DAMAGES`, with options after a colon: `stale-tail:count=3,…`. Later faults keep off
    the places of earlier ones. `version` is the broker's and `broker_conf` its settings, where the bytes need
    not tell them. What was done is returned and, with `write_truth`, written as JSON to
    `truth_path(target)`. With `in_place` (then `target` is None) the source itself is changed. The same
    store, faults and seed give the same bytes.

    Raises DamageError (a UsageError) for an unknown fault, for one that the store has no place for, and for
    faults that cannot go together; UsageError for a target that exists or lies inside the source; StoreError
    where bytes cannot be read or written, or a broker is running.
    """
    chosen = [_parse(text) for text in faults]
    if not chosen:
        raise DamageError("name a fault")
    if len(chosen) > 1 and (alone := next((item for item, _ in chosen if item.alone), None)):
        raise DamageError(f"{alone.name} hides the effects of every other fault: name it alone")
    origin = Path(source).absolute()
    store = open_store(origin, version=version, broker_conf=broker_conf)
    if not all(path.is_relative_to(origin) for path in store.commitlog.directories):
        raise UsageError("the commit log is not below the store's own directory")
    opening = partial(_open_copy, version, broker_conf)
    if in_place:
        if target is not None:
            raise UsageError("--in-place changes the store itself: leave out the target")
        if store.live.locked is not False:
            raise StoreError(f"a broker may be running here: {store.live.how}", path=str(origin))
        place = origin
        acts = _run(origin, chosen, seed, opening, shared=True)
    else:
        if target is None:
            raise UsageError("name a target")
        place = Path(target).absolute()
        check_apart(origin, place)
        if write_truth and truth_path(place).exists():
            raise UsageError(f"{truth_path(place)} exists")
        with (
            named_errors(place, "cannot be written"),
            building_directory(place, replace=False, sync=False) as building,
        ):
            with phase("copying the store"):
                copy_store(origin, building)
            acts = _run(building, chosen, seed, opening)
    report = DamageReport(str(origin), str(place), seed, acts)
    if write_truth:
        write_text(truth_path(place), json.dumps(report.to_json(), indent=2) + "\n")
    return report


def _open_copy(version: str | None, broker_conf: Path | None, root: Path) -> Store:
    """The copy. A broker.conf may name the commit log of the source, which is not looked at."""
    paths = [] if broker_conf is None else [root / "commitlog"]
    return open_store(root, version=version, broker_conf=broker_conf, commitlog_paths=paths)


def _parse(text: str) -> tuple[Damage, dict[str, str]]:
    """`name` or `name:option=value,option=value`."""
    name, _, rest = text.partition(":")
    damage = find_damage(name)
    options: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        option, equals, value = part.partition("=")
        if not equals or option not in damage.options:
            known = ", ".join(damage.options) or "none"
            raise DamageError(f"{name} has no option {part!r}; its options: {known}")
        options[option] = value
    return damage, options


def _run(
    root: Path,
    chosen: Sequence[tuple[Damage, dict[str, str]]],
    seed: int,
    opening: Callable[[Path], Store],
    *,
    shared: bool = False,
) -> tuple[Act, ...]:
    taken: list[Taken] = []
    acts: list[Act] = []
    for number, (damage, options) in enumerate(chosen):
        editor = Editor(root, shared=shared)
        rng = random.Random(f"{seed}/{number}/{damage.name}")
        job = Job(opening(root), editor, rng, options, list(taken), damage.causes)
        try:
            damage.apply(job)
        except DamageError as error:
            raise DamageError(f"{damage.name}: {error}") from error
        said = (damage.name, damage.fault_class, options, job.note, job.unseen)
        found = (tuple(editor.changes), tuple(job.promises), damage.may_also | job.may_also)
        acts.append(Act(*said, *found, job.commitlog_paths))
        taken += [*_spoken_for(editor.changes), *job.relied]
        for promise in job.promises:
            if promise.where.file and promise.where.start is not None:
                taken.append((promise.where.file, promise.where.start, promise.where.end))
    return tuple(acts)


def _spoken_for(changes: Sequence[Change]) -> list[Taken]:
    found: list[Taken] = []
    for change in changes:
        if change.action == "write" and change.before is not None and change.after is not None:
            found.append((change.file, change.before.start, max(change.before.end, change.after.end)))
        else:
            found += [(name, 0, None) for name in (change.file, change.renamed_to) if name is not None]
    return found


_MAX_DEPTH = 64


def check_apart(source: Path, target: Path) -> None:
    """UsageError unless `target` is a new place outside `source`, and `source` outside it."""
    real_source, real_target = source.resolve(), target.resolve()
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists; damage needs a new directory for its copy")
    if real_target.is_relative_to(real_source):
        raise UsageError(f"{target} is inside the store {source}; choose a place outside it")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a directory")


def copy_store(source: Path, target: Path) -> None:
    """Copy the tree below `source` into the existing directory `target`.

    Raises StoreError where something cannot be read or written, or links between directories form a cycle.
    """
    with named_errors(source, "cannot be copied"):
        _copy_directory(os.fspath(source), os.fspath(target), (), 0)


def _copy_directory(source: str, target: str, above: tuple[tuple[int, int], ...], depth: int) -> None:
    status = os.stat(source)  # noqa: PTH116 - names may be any bytes, and there are many
    identity = (status.st_dev, status.st_ino)
    if identity in above or depth > _MAX_DEPTH:
        raise StoreError("links between directories form a cycle", path=source)
    with os.scandir(source) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        place = f"{target}/{entry.name}"
        if os.path.isdir(entry.path):  # noqa: PTH112 - False for a link to itself
            fileops.make_directory(place_at(place))
            _copy_directory(entry.path, place, (*above, identity), depth + 1)
        elif os.path.isfile(entry.path):  # noqa: PTH113
            copy_file(entry.path, place)
    fileops.set_times(place_at(target), status.st_atime_ns, status.st_mtime_ns)


def copy_file(source: str, target: str) -> None:
    """Copy one regular file to a new name, with its holes and its time of modification."""
    place = place_at(target)
    with FileReader(source) as reader:
        fileops.copy_content(reader, place)
        fileops.set_times(place, reader.mtime_ns, reader.mtime_ns)
