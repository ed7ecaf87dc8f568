"""The law of safety: which actions are provably safe, and which a plan may not do unasked. ADR 0010.

An action is provably safe (`preen`) if and only if

1. everything that it writes by is known from the bytes or was given (`repair.plan.basis`),
2. nothing valid is lost by it, and no broker and no consumer notices a change of anything valid,
3. this version understands all that is in the areas that the action changes or takes from.

Rows of the table of repairs declare what their actions write by and their areas; planners give each action
its losses and notices. Only this module draws the conclusion, and only it says what `apply` must be given.

An action is judged in its plan: after those that its repair `needs`. Without them it is not safe, and no plan
has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError
from rocketfsck.repair.plan.arguments import DatabaseToBuild
from rocketfsck.repair.plan.basis import BASES, VERSION, StoreAlone, assumptions_of
from rocketfsck.repair.plan.model import Action, Assumption, Notice, Plan
from rocketfsck.repair.plan.table import PlanScene, Row, is_near
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store
from rocketfsck.verify.watched import area_of, unknown_areas

ASSUME_OPTION = "--assume"
BROKER_CONF_OPTION = "--broker-conf"
NOT_UNDERSTOOD = "not-understood"
CLEARING = "move-stray"
"""The repair that sets aside what is in the way of others."""


KINDS: Mapping[str, tuple[str, str]] = {
    "consumable-again": (
        "{count} message can be consumed again",
        "{count} messages can be consumed again",
    ),
    "found-by-key-again": (
        "{count} message can be found by its keys again",
        "{count} messages can be found by their keys again",
    ),
    "timed-again": (
        "{count} time is on the timer wheel again: the broker delivers its messages when they are due",
        "{count} times are on the timer wheel again: the broker delivers their messages when they are due",
    ),
    "fillers-delivered": (
        "consumers without a tag filter (`*`) receive {count} filler message in place of a lost one",
        "consumers without a tag filter (`*`) receive {count} filler messages in place of lost ones",
    ),
    "renumbered": (
        "{count} message gets a new queue offset: consumers with committed offsets may miss it or get "
        "it twice",
        "{count} messages get new queue offsets: consumers with committed offsets may miss them or get "
        "them twice",
    ),
    "committed-beyond": (
        "{count} committed consumer offset is beyond the new end of its queue",
        "{count} committed consumer offsets are beyond the new ends of their queues",
    ),
    "offsets-set": (
        "{count} committed consumer offset changes: the group gets messages again or skips some",
        "{count} committed consumer offsets change: the groups get messages again or skip some",
    ),
    "evidence-removed": (
        "the trace of {count} lost message in a queue is removed: list it with check --lost first",
        "the traces of {count} lost messages in queues are removed: list them with check --lost first",
    ),
    "content-guessed": (
        "{count} message is repaired by the most likely explanation, without proof",
        "{count} messages are repaired by the most likely explanation, without proof",
    ),
    "file-made-up": (
        "{count} commit log file is replaced by fillers: the lost file cannot be put back later",
        "{count} commit log files are replaced by fillers: the lost files cannot be put back later",
    ),
    "file-ends-early": (
        "brokers skip the rest of {count} commit log file from its damage on",
        "brokers skip the rest of {count} commit log files from their damage on",
    ),
    "index-file-unloaded": (
        "brokers no longer load {count} file as an index file: queries by key do not find its entries",
        "brokers no longer load {count} files as index files: queries by key do not find their entries",
    ),
    "recovery-skipped": (
        "the next start is a normal one: the broker does not run its own recovery",
        "the next start is a normal one: the broker does not run its own recovery",
    ),
    "queue-end-moved": (
        "the end of {count} queue moves back: groups may have passed the queue offsets of new messages",
        "the ends of {count} queues move back: groups may have passed the queue offsets of new messages",
    ),
    "message-rows-lost": (
        "{count} kind of rows is lost with the database: delayed messages are delivered again, or "
        "prepared messages are forgotten",
        "{count} kinds of rows are lost with the database: delayed messages are delivered again, and "
        "prepared messages are forgotten",
    ),
    "bit-maps-dropped": (
        "the filter bit map of {count} message is dropped: brokers read the message itself to filter it "
        "by properties",
        "the filter bit maps of {count} messages are dropped: brokers read the messages themselves to "
        "filter them by properties",
    ),
    "epochs-dropped": (
        "this broker no longer knows {count} epoch",
        "this broker no longer knows {count} epochs",
    ),
    "timer-moved": (
        "{count} position of the timer moves: the broker may deliver timed messages late or twice",
        "{count} positions of the timer move: the broker may deliver timed messages late or twice",
    ),
    "delay-moved": (
        "{count} delay level resumes at another message: the broker may deliver some messages twice or never",
        "{count} delay levels resume at other messages: the broker may deliver some messages twice or never",
    ),
    "settings-older": (
        "{count} config file gets older content: later changes are lost",
        "{count} config files get older content: later changes are lost",
    ),
    "settings-made-up": (
        "{count} config file is rebuilt from what remains: everything else has default settings",
        "{count} config files are rebuilt from what remains: everything else has default settings",
    ),
    "queue-kind-set": (
        "brokers read {count} topic from the other kind of queue",
        "brokers read {count} topics from the other kind of queue",
    ),
    "retention-moved": (
        "{count} commit log file gets the age of its messages again: the broker may delete the file soon",
        "{count} commit log files get the age of their messages again: the broker may delete the files soon",
    ),
    NOT_UNDERSTOOD: (
        "the repair changes an area with data unknown to this version ({count} finding)",
        "the repair changes an area with data unknown to this version ({count} findings)",
    ),
}
"""Everything that an action may make the broker or its consumers notice, by name: a sentence's end with
`{count}` and its noun in it, for a count of 1 and for others."""

HARMLESS = frozenset({"consumable-again", "found-by-key-again", "timed-again"})
"""Kinds of notices where what was there before stays as it was, and something that was lost comes back."""


def notice_text(notice: Notice) -> str:
    """A notice as a printable sentence without its full stop."""
    kind = KINDS.get(notice.kind)
    if kind is None:
        return f"{notice.count} {printable(notice.kind)}"
    return kind[notice.count != 1].format(count=f"{notice.count:,}")


def total_notices(actions: Iterable[Action]) -> tuple[Notice, ...]:
    """What all actions make noticed, one notice a kind, in the order of `KINDS`."""
    totals: dict[str, int] = {}
    for action in actions:
        for notice in action.notices:
            totals[notice.kind] = totals.get(notice.kind, 0) + notice.count
    order = [*KINDS, *(kind for kind in totals if kind not in KINDS)]
    return tuple(Notice(kind, totals[kind]) for kind in order if kind in totals)


def all_assumptions(actions: Iterable[Action]) -> tuple[Assumption, ...]:
    """What all actions write by, each value once: how it is known least decides."""
    rank = ("bytes", "given", "assumed")
    found: dict[tuple[str, int | str], Assumption] = {}
    for item in (item for action in actions for item in action.assumptions):
        known = found.setdefault((item.name, item.value), item)
        if rank.index(item.how) > rank.index(known.how):
            found[item.name, item.value] = item
    return tuple(found.values())


def assumed_names(actions: Iterable[Action]) -> tuple[str, ...]:
    """The values that the actions assume, by name: what somebody has to confirm."""
    return tuple(item.name for item in all_assumptions(actions) if item.how == "assumed")


def judge(scene: PlanScene, action: Action, repair: Row) -> Action:
    """The action with what it writes by, what is noticed of it, and whether it is provably safe."""
    assumptions = assumptions_of(scene, action, repair.writes_by, repair.traits)
    unknown = unknown_in(scene, action, repair)
    notices = tuple(notice for notice in action.notices if notice.kind != NOT_UNDERSTOOD)
    if unknown:
        notices = (*notices, Notice(NOT_UNDERSTOOD, unknown))
    safe = (
        all(item.how != "assumed" for item in assumptions)
        and all(notice.kind in HARMLESS for notice in notices)
        and not any(loss.valid for loss in action.losses)
    )
    return replace(action, assumptions=assumptions, notices=notices, preen=safe)


def dependents(
    actions: Iterable[Action], left_out: Iterable[Action], table: Mapping[str, Row]
) -> list[tuple[Action, str]]:
    """The actions that rely on others that are left out, each with the name of what it needs.

    What relies on a dependent is a dependent, too. Besides what its repair `needs`, an action relies on what
    sets aside something at its own places.
    """
    found: list[tuple[Action, str]] = []
    left = [*left_out]
    gone = {action.name for action in left}
    moved = [action.target for action in left if action.name == CLEARING]
    for action in sorted(actions, key=lambda action: table[action.name].order):
        repair = table[action.name]
        missing = [name for name in repair.needs if name in gone]
        missing += [
            other.name
            for other in left
            if other.name in repair.needs_beside and other.target == action.target
        ]
        if action.name != CLEARING and any(
            is_near(place, name) for place in repair.places(action) for name in moved
        ):
            missing.append(CLEARING)
        if missing:
            gone.add(action.name)
            left.append(action)
            found.append((action, missing[0]))
    return found


def assumed_by_rebuilding(store: Store, rows: Iterable[tuple[Row, Action]]) -> tuple[Assumption, ...]:
    """What building parts of a store again takes for granted, by the repairs that build the same."""
    actions = [
        replace(action, assumptions=assumptions_of(StoreAlone(store), action, row.writes_by, row.traits))
        for row, action in rows
    ]
    return tuple(item for item in all_assumptions(actions) if item.how == "assumed")


def unknown_in(scene: PlanScene, action: Action, repair: Row) -> int:
    """How many findings say that an area of the action holds what this version does not understand. A
    database that could not be read is understood by the action that makes it again."""
    made = action.target if isinstance(action.arguments, DatabaseToBuild) else None
    unknown = unknown_areas(
        finding
        for finding in scene.findings
        if finding.rule != RuleName.QUEUE_DATABASE or finding.where.file != made
    )
    return sum(len(unknown.get(area, ())) for area in areas_changed(action, repair))


def areas_changed(action: Action, repair: Row) -> tuple[str, ...]:
    """The areas that an action changes, or takes from."""
    own = "commitlog" if action.target.startswith("/") else area_of(action.target)
    return repair.areas or (own,)


def areas_written(action: Action, repair: Row) -> set[str]:
    """The areas in which an action makes, replaces or changes files; not those that it only reads."""
    own = "commitlog" if action.target.startswith("/") else area_of(action.target)
    return {own, *map(area_of, repair.places(action))}


def confirmed(plan: Plan, assume: Iterable[str], settings: Settings | None) -> Plan:
    """The plan with every assumption confirmed, as `how` "given".

    `assume` are `NAME` or `NAME=VALUE`, `settings` those of the broker.conf. Raises UsageError where one of
    them contradicts the plan, names nothing that it writes by, or an assumption is left.
    """
    named = dict(_split(item) for item in assume)
    values = {item.name: item for item in all_assumptions(plan.actions)}
    for name, value in named.items():
        if name not in values:
            known = ", ".join(sorted(values)) or "nothing"
            raise UsageError(f"the plan does not depend on {printable(name)!r}; it depends on {known}")
        if value is not None and _normal(name, value) != str(values[name].value):
            raise UsageError(_other(name, printable(value), values[name]))
    stated = {item.name: _stated(item, settings) for item in values.values()} if settings is not None else {}
    for name, text in stated.items():
        if text is not None and text != str(values[name].value):
            raise UsageError(_other(name, f"{printable(text)} in broker.conf", values[name]))
    left = [
        item
        for item in values.values()
        if item.how == "assumed" and item.name not in named and stated.get(item.name) is None
    ]
    if left:
        raise UsageError(_refusal(left))

    def given(item: Assumption) -> Assumption:
        if item.how != "assumed":
            return item
        source = f"{ASSUME_OPTION} {item.name}" if item.name in named else "broker.conf"
        return replace(item, how="given", evidence=f"confirmed by {source}; {item.evidence}")

    return replace(
        plan,
        actions=tuple(
            replace(action, assumptions=tuple(map(given, action.assumptions))) for action in plan.actions
        ),
    )


def _split(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    for basis in BASES.values():
        if name in basis.keys:
            name = basis.name
    return name, value if equals else None


def _normal(name: str, value: str) -> str:
    return BASES[name].normal(value) if name in BASES else value.strip()


def _stated(item: Assumption, settings: Settings) -> str | None:
    """The value that a broker with this broker.conf uses; None where the file does not say such things."""
    basis = BASES.get(item.name)
    if basis is None or not basis.keys:
        return None
    return basis.normal(settings.get(*basis.keys) or basis.default)


def _other(name: str, said: str, item: Assumption) -> str:
    text = f"{name} is {said}, but the plan was made with {printable(str(item.value))}"
    option = "--broker-version" if name == VERSION else BROKER_CONF_OPTION
    return f"{text}; make a new plan with {option}"


def assume_options(items: Iterable[Assumption]) -> str:
    """The options of `apply` that confirm what is assumed, each after a blank; "" if nothing is."""
    names = [item.name for item in items if item.how == "assumed"]
    return "".join(f" {ASSUME_OPTION} {name}" for name in names)


def _refusal(left: Iterable[Assumption]) -> str:
    """What is assumed, and exactly what to type."""
    items = list(left)
    lines = [f"{item.name}={printable(str(item.value))} ({printable(item.evidence)})" for item in items]
    options = assume_options(items).strip()
    conf = any(item.name in BASES and BASES[item.name].keys for item in items)
    choice = f"{BROKER_CONF_OPTION} FILE of this broker, or " if conf else ""
    return f"the plan makes assumptions: {'; '.join(lines)}. Confirm with {choice}{options}"
