"""What a repair is: a row of the table of repairs. The rows themselves are in `repairs/`.

What planners and acts are given: the store as it is, and the tree that may be changed.

The actions that several repairs want: which are one, which make others needless, and their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rocketfsck.repair.plan.arguments import Arguments, GroupOffset
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.repair.area.worktree import WorkTree
    from rocketfsck.store.model import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report

_CHUNK_SIZE = 1 << 20
Found = TypeVar("Found")
LONGEST_PLAIN = 1 << 31
"""Bytes; a broker maps its files, so none of them has as many."""


@dataclass(frozen=True, slots=True)
class PlanScene:
    """The store, read-only, and the report that the plan is made from. `findings` are all of its findings,
    `wished` the committed offsets that the user asked for."""

    store: Store
    report: Report
    findings: tuple[Finding, ...]
    wished: tuple[GroupOffset, ...] = ()
    _known: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, find: Callable[[PlanScene], Found]) -> Found:
        """What `find` finds in this scene: found when it is asked for first, and kept for all planners."""
        if find not in self._known:
            self._known[find] = find(self)
        found: Found = self._known[find]
        return found

    def drafts(
        self,
        name: str,
        findings: Sequence[Finding],
        make: Callable[[PlanScene, Sequence[Finding]], Iterable[Action]],
    ) -> tuple[Action, ...]:
        """The actions that the repair of a name makes of some of these findings: made once."""
        key = (name, tuple(map(id, findings)))
        if key not in self._known:
            self._known[key] = tuple(make(self, findings))
        found: tuple[Action, ...] = self._known[key]
        return found

    def path_of(self, file: str) -> str:
        """The path of a file named relative to the root (or by its full path)."""
        return file if file.startswith("/") else f"{self.store.root}/{file}"

    def extent(self, file: str, start: int = 0, end: int | None = None) -> Extent:
        """The bytes of a file as they are now. Raises StoreError if they cannot be read."""
        return Extent(file, start, end, hash_bytes(self.path_of(file), start, end))


@dataclass(frozen=True, slots=True)
class ActScene:
    """The tree to change, and `reopen`, which opens it as a store in its present state."""

    tree: WorkTree
    reopen: Callable[[], Store]


def hash_bytes(path: str, start: int = 0, end: int | None = None) -> str:
    """Hex SHA-256 of bytes of a file; a whole file's length is hashed before its data.

    Holes are hashed as the zeros they read as. More bytes than a file of a broker has, which may be little
    but holes, are hashed by their chunks of `_CHUNK_SIZE` that are not all zero, each after its place: the
    same bytes have the same hash, whether their zeros are holes or data. Raises StoreError if the bytes
    cannot be read.
    """
    digest = hashlib.sha256()
    with FileReader(path) as reader:
        stop = reader.size if end is None else end
        if end is None:
            digest.update(reader.size.to_bytes(8, "big"))
        if stop - start <= LONGEST_PLAIN:
            for pos in range(start, stop, _CHUNK_SIZE):
                digest.update(reader.read(pos, min(_CHUNK_SIZE, stop - pos)))
            return digest.hexdigest()
        reader.read(stop, 0)  # raises where the file ends before
        for pos, data in _chunks_with_data(reader, start, stop):
            digest.update((pos - start).to_bytes(8, "big") + len(data).to_bytes(8, "big") + data)
        digest.update(f"the chunks of {stop - start} bytes that are not zero".encode())
    return digest.hexdigest()


def _chunks_with_data(reader: FileReader, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a range, counted from its start, that are not all zero, and where they are."""
    done = 0
    for low, high in reader.data_extents(start, stop):
        last = -(-(high - start) // _CHUNK_SIZE)
        for number in range(max((low - start) // _CHUNK_SIZE, done), last):
            pos = start + number * _CHUNK_SIZE
            data = reader.read(pos, min(_CHUNK_SIZE, stop - pos))
            if data.count(0) < len(data):
                yield pos, data
        done = max(done, last)


A = TypeVar("A", bound=Arguments)


def _target(action: Action) -> Collection[str]:
    return (action.target,)


@dataclass(frozen=True, slots=True)
class Repair(Generic[A]):
    """One way to repair.

    `name` is what a plan calls its actions, what `--only` and `--except` take, and what rules give as their
    `repair`. `order` says when its actions come in a plan: small first (names and lengths of files, then the
    log, then what is rebuilt from it, then checkpoint and config); no two have the same. `plan` makes actions
    of the findings whose rules ask for this repair: it yields nothing for those it cannot answer, and may
    yield actions of other repairs that answer them better. `act` carries out one action on the working tree
    by its arguments, which have the class `arguments`; where the tree is not what the action expects, it
    raises StoreError and changes nothing.

    What the law of safety asks (`repair.plan.law`): `writes_by` names everything that the acts write by
    (`repair.plan.basis.BASES`), `traits` the traits of the broker's version among it; `areas` are the parts
    of the store that the acts change or take something from, () for that of the action's target.

    `answers` are rules that the repair can answer besides those that name it.

    `needs` are repairs whose actions the acts of this one treat as done: where an action of one of them is
    wanted and left out of a plan, those of this one are left out with it (`repair.plan.law.dependents`).

    `needs_beside` is the same for actions on the same target only.

    `moot_after` are repairs that leave nothing to do for this one: an action on the target of one of theirs,
    or below it, becomes part of that one.

    `places` gives the names at which an action makes or replaces files. A symbolic link there keeps the
    action out of a plan, and so does whatever is in the way and is not set aside by the same plan.
    """

    name: str
    order: int
    summary: str
    plan: Callable[[PlanScene, Sequence[Finding]], Iterable[Action]]
    act: Callable[[ActScene, Action, A], None]
    arguments: type[A]
    areas: tuple[str, ...] = ()
    writes_by: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_beside: tuple[str, ...] = ()
    moot_after: tuple[str, ...] = ()
    places: Callable[[Action], Collection[str]] = _target


Row = Repair[Any]
"""A repair with arguments of any class."""


def is_near(place: str, name: str) -> bool:
    """Whether two names in a store are the same, or one is that of a directory above the other."""
    return f"{place}/".startswith(f"{name}/") or f"{name}/".startswith(f"{place}/")


ActionKey = tuple[object, ...]
"""What tells an action from the others of a plan: its name, its target, its arguments."""


def action_key(action: Action) -> ActionKey:
    """What is the same in actions that are one."""
    return (action.name, action.target, action.arguments)


def merged(actions: Iterable[Action]) -> list[Action]:
    """One action for all that are the same but for the findings they answer."""
    merged: dict[ActionKey, list[Action]] = {}
    for action in actions:
        merged.setdefault(action_key(action), []).append(action)
    return [_joined(same) for same in merged.values()]


def _joined(same: Sequence[Action]) -> Action:
    first = same[0]
    return replace(
        first,
        why=tuple(sorted({name for action in same for name in action.why})),
        rules=tuple(sorted({name for action in same for name in action.rules})),
        preconditions=tuple(dict.fromkeys(extent for action in same for extent in action.preconditions)),
        losses=tuple(dict.fromkeys(loss for action in same for loss in action.losses)),
        gains={name: count for action in same for name, count in action.gains.items()},
        write_byte_count=max(action.write_byte_count for action in same),
        notices=tuple(dict.fromkeys(notice for action in same for notice in action.notices)),
        partly=dict(item for action in same for item in action.partly.items()),
    )


def absorbed(actions: Sequence[Action], table: Mapping[str, Row]) -> list[Action]:
    """The actions without those that others leave nothing to do for; these answer their findings, too."""
    left = dict(enumerate(actions))
    places: dict[tuple[str, str], list[int]] = {}
    for number, action in left.items():
        places.setdefault((action.name, action.target), []).append(number)
    taken: dict[int, list[Action]] = {}
    for number, action in enumerate(actions):
        found = (
            other
            for name in table[action.name].moot_after
            for target in _and_above(action.target)
            for other in places.get((name, target), ())
            if other != number and other in left
        )
        by = min(found, default=None)
        if by is not None:
            taken.setdefault(by, []).extend([left.pop(number), *taken.pop(number, ())])
    return [_answering(action, taken.get(number, ())) for number, action in left.items()]


def _and_above(target: str) -> Iterator[str]:
    """A name below the root and those of the directories that it is in."""
    yield target
    while "/" in target:
        target = target.rpartition("/")[0]
        yield target


def _answering(by: Action, others: Sequence[Action]) -> Action:
    """The action with what the others answer."""
    if not others:
        return by
    rules = {rule for action in (by, *others) for rule in action.rules}
    why = {name for action in (by, *others) for name in action.why}
    return replace(by, rules=tuple(sorted(rules)), why=tuple(sorted(why)))


def ordered(actions: Iterable[Action], table: Mapping[str, Row]) -> tuple[Action, ...]:
    return tuple(sorted(actions, key=lambda action: (table[action.name].order, action.name, action.target)))


def refuse_overlaps(actions: Sequence[Action]) -> None:
    """Two actions of one repair that rely on the same bytes: a bug, for the first would spoil the second.

    Bytes that several repairs rely on are fine: the later is planned for what the earlier leaves, or reads
    them only.
    """
    places: dict[tuple[str, str], list[tuple[Extent, int]]] = {}
    for number, action in enumerate(actions):
        for extent in action.preconditions:
            if extent.file == action.target:
                places.setdefault((action.name, extent.file), []).append((extent, number))
    for (name, file), found in places.items():
        found.sort(key=lambda item: item[0].start)
        for (left, first), (right, second) in pairwise(found):
            if first != second and (left.end is None or right.start < left.end):
                raise AssertionError(f"two actions {name} overlap in {file!a}")
