"""Starts in short, for every version that a store may come from, and whether one is worse than another.

Versions whose starts are alike are predicted once. Reference 0.4, 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypedDict, Unpack

from rocketfsck.common.wording import count_of, fill_numbers
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import Version, dialect_of
from rocketfsck.formats.smallfiles import is_queue_name
from rocketfsck.formats.versions import StartTraits
from rocketfsck.query.start.load import Areas
from rocketfsck.query.start.model import Refusal, Start
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.query.start.simulate import simulate_starts
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """The start of a `version`, and of those in `alike`, which do the same with every store.

    Without `covered` nothing is predicted; `reason` then says why, as it does of a start that is refused,
    with the `file` (its path below the root) that the broker refuses.
    Counts of messages are None where nobody looked for them. `cut_count` messages go with the log's end,
    `lost_count` lose their unit and `lost_key_count` an index entry by this start; `reached_count` are those
    of the log that have a unit afterwards, `unreached_count` those that have none, `deleted_count` of them
    because their topic or queue was deleted; `unreadable_count` units lead to bytes that are not in the log.
    Queues count as whole between their ends for that; `added_count` units are all that the start appends.
    `shifted_count` units are put at a wrong queue offset, `reissued_count` queue offsets are given out twice,
    `phantom_count` queues begin a file with zeros that the broker counts as a message. `astray_count` sound
    messages are only in files with wrong names that the start deletes or does not see. Of the messages that
    wait for a timer, `timer_lost_count` are never delivered and `timer_repeated_count` twice.
    `deleted_from` are the directories at the top of the store that have the `deleted_file_count` files.
    `unread_parts` are clauses on what only brokers of other versions read, `unread_part_count` of them.
    """

    version: str
    alike: tuple[str, ...]
    covered: bool
    loads: bool
    file: str = ""
    reason: str = ""
    queues_destroyed: bool = False
    deleted_file_count: int = 0
    deleted_from: tuple[str, ...] = ()
    hidden_file_count: int = 0
    cut_count: int | None = None
    lost_count: int | None = None
    lost_key_count: int | None = None
    reached_count: int | None = None
    unreached_count: int | None = None
    deleted_count: int = 0
    added_count: int = 0
    unreadable_count: int | None = None
    shifted_count: int = 0
    reissued_count: int = 0
    phantom_count: int = 0
    astray_count: int = 0
    timer_lost_count: int = 0
    timer_repeated_count: int = 0
    unread_part_count: int = 0
    unread_parts: tuple[str, ...] = ()

    @property
    def obstacle(self) -> str:
        """Why nothing is predicted, or why the broker does not start: the file, if any, and the reason."""
        return f"{self.file}: {self.reason}" if self.file else self.reason

    @property
    def taken_count(self) -> int:
        """Sound messages that consumers could get before the start and cannot get after it."""
        return (self.cut_count or 0) + (self.lost_count or 0) + self.astray_count

    @property
    def harmless(self) -> bool:
        """Whether the broker loads and no number says that the start takes something."""
        return self.covered and self.loads and not any(getattr(self, name) for name in COMPARED)

    def takes(self, *, hidden: bool = True, keys: bool = True) -> bool:
        """Whether the broker loads, and its start takes something: with `hidden`, files that it passes over,
        too; with `keys`, index entries. Units without a record had none before."""
        asked = {"unreadable_count": False, "hidden_file_count": hidden, "lost_key_count": keys}
        names = [name for name in COMPARED if asked.get(name, True)]
        return self.covered and self.loads and any(getattr(self, name) for name in names)


COMPARED: Mapping[str, str] = {
    "queues_destroyed": "deletes all consume queues",
    "hidden_file_count": "does not see {after:file} ({before:,} before)",
    "astray_count": "loses {after:sound message} in files with wrong names ({before:,} before)",
    "cut_count": "cuts {after:message} off the log ({before:,} before)",
    "lost_count": "hides {after:message} from consumers ({before:,} before)",
    "lost_key_count": "hides {after:message} from queries by key ({before:,} before)",
    "unreadable_count": "leaves {after:unit} that {after?leads|lead} to bytes missing from the log ({before} "
    "before)",
    "shifted_count": "puts {after:unit} at a wrong queue offset ({before:,} before)",
    "phantom_count": "reads zeros as a message in {after:queue} ({before:,} before)",
    "timer_lost_count": "never delivers {after:timer message} ({before:,} before)",
    "timer_repeated_count": "delivers {after:timer message} twice ({before:,} before)",
    "unread_part_count": "does not read {after:part} of the store ({before:,} before)",
    "reissued_count": "uses {after:queue offset} twice ({before:,} before)",
}
"""What a start may do more of than another one, and how a sentence about the broker says it."""


def start_classes(versions: Iterable[Version]) -> list[tuple[Version, ...]]:
    """The versions in groups whose starts are alike, each in order, oldest first."""
    groups: dict[tuple[object, ...], list[Version]] = {}
    for version in sorted(set(versions)):
        dialect = dialect_of(version)
        traits = tuple(getattr(dialect, trait.name) for trait in fields(StartTraits))
        groups.setdefault(traits, []).append(version)
    return [tuple(group) for group in groups.values()]


def versions_of(store: Store) -> tuple[Version, ...]:
    """Every version that the store may come from; one where the user named it."""
    evidence = store.dialect_evidence
    return (store.dialect.version,) if evidence.given else evidence.versions or (store.dialect.version,)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The start of a `version`, and of those in `alike`; or the `error` that says why there is none."""

    version: str
    alike: tuple[str, ...]
    start: Start | None
    error: StoreError | None = None


class Terms(TypedDict, total=False):
    """What `simulate_starts` takes besides the store and the versions."""

    conf: Settings | None
    losses: bool
    areas: Areas
    sound_end: int | None


def predict_each(
    store: Store, classes: Sequence[tuple[Version, ...]], **terms: Unpack[Terms]
) -> list[Prediction]:
    """The start of each class of versions: of the store's own version where that is in it, else the newest.

    `terms` as `simulate_starts` takes them.
    """
    chosen = [store.dialect.version if store.dialect.version in group else group[-1] for group in classes]
    alike = [tuple(map(str, group)) for group in classes]
    names = list(map(str, chosen))
    try:
        return list(map(Prediction, names, alike, simulate_starts(store, names, **terms)))
    except StoreError:
        return [_one(store, name, group, terms) for name, group in zip(names, alike, strict=True)]


def _one(store: Store, version: str, alike: tuple[str, ...], terms: Terms) -> Prediction:
    """A prediction where not all starts can be predicted."""
    try:
        (start,) = simulate_starts(store, [version], **terms)
    except StoreError as error:
        return Prediction(version, alike, None, error)
    return Prediction(version, alike, start)


def predict_starts(
    store: Store, classes: Sequence[tuple[Version, ...]], **terms: Unpack[Terms]
) -> list[StartVerdict]:
    """A verdict on each class of versions; one that says why where a store is not covered, or cannot be read.

    Arguments as `predict_each` takes them.
    """
    return list(map(verdict_of, predict_each(store, classes, **terms)))


def verdict_of(prediction: Prediction) -> StartVerdict:
    """A prediction in short."""
    start = prediction.start
    if start is None:
        error = prediction.error
        reason = "; ".join(error.reasons) if isinstance(error, NotCoveredError) else str(error)
        return StartVerdict(prediction.version, prediction.alike, covered=False, loads=False, reason=reason)
    return _verdict(start, prediction.alike)


def _verdict(start: Start, alike: tuple[str, ...]) -> StartVerdict:
    losses = start.losses
    verdict = StartVerdict(start.version, alike, covered=True, loads=start.loads)
    if not start.loads:
        first = next(iter(start.refusals), Refusal("", ""))
        return replace(verdict, file=first.file, reason=first.reason)
    deleted = [item.file for item in start.files if item.change == "deleted"]
    return replace(
        verdict,
        queues_destroyed=start.queues_destroyed,
        deleted_file_count=len(deleted),
        deleted_from=tuple(sorted({file.partition("/")[0] for file in deleted})),
        hidden_file_count=len(start.ignored),
        cut_count=losses.cut_record_count,
        lost_count=losses.new_by_queue_count,
        lost_key_count=losses.new_by_key_count,
        reached_count=losses.reached_count,
        unreached_count=losses.by_queue_count,
        deleted_count=losses.deleted_count,
        added_count=sum(queue.added_count for queue in start.queues),
        unreadable_count=losses.unreadable_count,
        shifted_count=sum(queue.shifted_count for queue in start.queues),
        reissued_count=sum(queue.reissued_count for queue in start.queues if is_queue_name(queue.topic)),
        phantom_count=sum(queue.phantom_count for queue in start.queues),
        astray_count=losses.astray_count,
        timer_lost_count=0 if start.timers is None else start.timers.lost_count,
        timer_repeated_count=0 if start.timers is None else start.timers.repeated_count,
        unread_part_count=len(start.unread_parts),
        unread_parts=tuple(item.what for item in start.unread_parts),
    )


_WRONG = ("shifted_count", "reissued_count", "phantom_count", "timer_lost_count", "timer_repeated_count")
"""Messages, or places for them, of which a consumer misses one or gets another than the one it should."""


def message_change(before: StartVerdict, after: StartVerdict, given_up_count: int = 0) -> int | None:
    """How many messages more consumers get rightly in the end after a change, negative for fewer.

    What a start gives out twice, puts elsewhere or never delivers counts against what it lets consumers
    reach. `given_up_count` records or units are known to go by the change itself: they explain what is
    missing, and are not a gain; nor is a message of a deleted topic a loss, which the start would have
    brought back. None where nobody counted the messages.
    """
    missing = _missing(before, after)
    if missing is None:
        return None
    reached = min(given_up_count, missing) - missing if missing > 0 else -missing
    wrong: int = sum(getattr(after, name) - getattr(before, name) for name in _WRONG)
    return reached - wrong


def _missing(before: StartVerdict, after: StartVerdict) -> int | None:
    """How many messages fewer consumers get after a change, negative for more; None where nobody counted."""
    if before.reached_count is None or after.reached_count is None:
        return None
    missing = before.reached_count - after.reached_count
    return missing - min(max(after.deleted_count - before.deleted_count, 0), max(missing, 0))


def worse(before: StartVerdict, after: StartVerdict, given_up_count: int = 0) -> tuple[str, ...]:
    """In what the start `after` a change is worse than the one `before`, each a clause; empty if in nothing.

    ADR 0023, in this order: whether the broker starts; the messages as a whole (`message_change`); and where
    these are as many as before, or nobody counted them, each part by itself. A start that was refused before
    is worse in nothing. `given_up_count` as `message_change` takes it.
    """
    if not (before.covered and after.covered and before.loads):
        return ()
    if not after.loads:
        return (f"does not start ({after.obstacle})",)
    change = message_change(before, after, given_up_count)
    if change is not None and change > 0:
        return ()
    reasons = []
    for name, text in COMPARED.items():
        then, now = getattr(before, name), getattr(after, name)
        if then is not None and now is not None and now > then:
            reasons.append(fill_numbers(text, before=then, after=now))
    missing = _missing(before, after)
    if missing is not None and missing > given_up_count:
        reasons.append(f"leaves consumers {count_of(missing, 'message')} fewer than before")
    return tuple(reasons)
