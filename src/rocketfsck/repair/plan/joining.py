"""The actions that several repairs want: which are one, which make others needless, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.repair.plan.table import Row

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
