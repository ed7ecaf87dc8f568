"""The verdict on a store as text: the first lines that `check` and `fix` print.

Do not start a broker: its start would make the damage worse.
  Store   /data/store (RocketMQ 5.2.0 to 5.3.4)
  Start   5.2.0 to 5.3.1: starts; cuts 129 messages off the log
          5.3.2 to 5.3.4: starts and loses nothing
  Lost    1 message for good (307 damaged bytes in the commit log)
  Repair  2 actions answer 5 of 6 findings
  Next    rocketfsck fix /data/store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal

from rocketfsck.cli.lang import said
from rocketfsck.cli.show.start import grouped_starts, versions_text
from rocketfsck.cli.show.text import Palette, count_of, pad, sentence, visible, wrapped
from rocketfsck.common.wording import fill_numbers
from rocketfsck.formats.timer import DELIVERY
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.plan.basis import confirming, meaning_of
from rocketfsck.repair.plan.law import notice_text
from rocketfsck.repair.state import Outlook, State
from rocketfsck.repair.verdict import Prospect, Verdict
from rocketfsck.verify.finding import NO_EFFECTS, WHYS, Fate, MessageAccount
from rocketfsck.verify.report import StoreFacts

MAY = "A broker may be started: its start loses nothing"
LABEL_WIDTH = 10
START_LIMIT = 3
NOTICE_LIMIT = 3
AGAIN = "consumable-again"
"""The notice of messages that consumers get again, which the account says better."""
CONFIG_LIMIT = 3
UNREAD_LIMIT = 3
NO_TOPIC = "{count:topic} that {count?has|have} queues"
GROUP_LIMIT = 3
CAUSE_LIMIT = 2

HARMS: tuple[tuple[str, str], ...] = (
    ("taken_count", "would lose {count:sound message}"),
    ("queues_destroyed", "would delete all consume queues"),
    ("lost_key_count", "would hide {count:message} from queries by key"),
    ("hidden_file_count", "would not see {count:file}"),
    ("timer_lost_count", "would never deliver {count:timer message}"),
    ("timer_repeated_count", "would deliver {count:timer message} twice"),
    ("reissued_count", "would use {count:queue offset} twice"),
    ("shifted_count", "would put {count:message} at a wrong queue offset"),
    ("phantom_count", "would read zeros as a message in {count:queue}"),
)
"""What a start does that is worse than not to start, the worst first, by members of `StartVerdict`."""


def headline_of(verdict: Verdict) -> str:
    """The first line: one sentence or two that follow from the account and the predicted starts."""
    text = _HEADLINES[verdict.state](verdict)
    if verdict.depth and verdict.state not in ("running", "unread", "partial"):
        text = f"{text} Not everything was looked at: {'; '.join(verdict.depth)}."
    return text


def _harmful(verdict: Verdict) -> str:
    if verdict.newer_record_count:
        what = "Do not start a broker that this version knows"
        newer = count_of(verdict.newer_record_count, "record")
        return f"{what}: it would take {newer} of a newer one for damage."
    known = [start for start in verdict.starts if start.covered]
    safe = [start for start in known if start.loads and not start.takes()]
    others = f" A start of {versions_text(safe, known)} loses nothing." if safe else ""
    worse = [start for start in known if start not in safe]
    which = f" of {versions_text(worse, known)}" if safe else ""
    for name, text in HARMS:
        count = max((int(getattr(start, name) or 0) for start in known), default=0)
        if count:
            return f"Do not start a broker{which}: its start {fill_numbers(text, count=count)}.{others}"
    unread = next((start.unread_parts[0] for start in known if start.unread_parts), None)
    if unread is not None:
        return f"Do not start a broker{which}: it {visible(unread)}.{others}"
    if verdict.lost_configs:
        return "Do not start a broker: its start would reset config files that it cannot read."
    unknown = fill_numbers(NO_TOPIC, count=verdict.unknown_topic_count or verdict.unlisted_topic_count)
    return f"Do not start a broker: it would not know {unknown}."


def _unread(verdict: Verdict) -> str:
    names = ", ".join(map(visible, verdict.unread[:UNREAD_LIMIT]))
    more = f" and {len(verdict.unread) - UNREAD_LIMIT:,} more" if len(verdict.unread) > UNREAD_LIMIT else ""
    return f"The store cannot be judged, because a part of it cannot be read: {names}{more}."


def _lost_already(verdict: Verdict) -> str:
    account = verdict.account or MessageAccount()
    text = fill_numbers("{count:message} {count?is|are} lost", count=account.lost_count)
    return f"{'At least ' if account.count('lost', 'at least', 'perhaps') else ''}{text}. {_may(verdict)}"


def _damaged(verdict: Verdict) -> str:
    return f"{'Damaged' if verdict.error_count else 'Warnings only'}. {_may(verdict)}"


def _may(verdict: Verdict) -> str:
    """That a start takes nothing, and what consumer groups notice all the same."""
    effects = NO_EFFECTS if verdict.account is None else verdict.account.groups
    noticed = [
        fill_numbers(text, count=count)
        for name, (text, _) in _NOTICED.items()
        if (count := getattr(effects, name))
    ]
    more = " more" if _is_short(verdict) else ""
    return f"{MAY}{more}, but consumers {' and '.join(noticed)}." if noticed else f"{MAY}{more}."


def _is_short(verdict: Verdict) -> bool:
    """Whether messages or bytes are lost already."""
    account = verdict.account
    return bool(verdict.damaged_byte_count or (account and account.count("lost")))


def _unknown(verdict: Verdict) -> str:
    found = "Damaged" if verdict.finding_count else "Nothing is wrong"
    return f"{found}, but the start of a broker cannot be predicted."


def _unclean(verdict: Verdict) -> str:
    """What a start does after a kill: of the index, brokers delete more than they write again."""
    hides = any(start.lost_key_count for start in verdict.starts)
    end = "consumers lose nothing" if hides else "loses nothing"
    return f"The broker was killed. Start it: its start puts the store in order and {end}."


def _healthy(verdict: Verdict) -> str:
    if not verdict.unknown_topic_count:
        return "Healthy: a broker may be started."
    unknown = fill_numbers(NO_TOPIC, count=verdict.unknown_topic_count)
    return f"Healthy: a broker may be started, but does not know {unknown}."


_HEADLINES: Mapping[State, Callable[[Verdict], str]] = {
    "interrupted": lambda _: "Do not start a broker: a repair of this store was interrupted.",
    "running": lambda _: "A broker is running on this store.",
    "unread": _unread,
    "refused": lambda _: "A broker does not start on this store.",
    "harmful": _harmful,
    "unknown": _unknown,
    "lost": _lost_already,
    "unclean": _unclean,
    "damaged": _damaged,
    "partial": lambda one: (
        f"Nothing is wrong in what was looked at, which is not all: {'; '.join(one.depth)}."
    ),
    "healthy": _healthy,
}
"""The first line of each state (ADR 0024)."""


Tone = Literal["good", "warning", "error"]
TONES: Mapping[State, Tone] = {
    "healthy": "good", "unclean": "good", "interrupted": "error", "harmful": "error", "refused": "error",
    "unread": "error", "lost": "error",
}  # fmt: skip
"""How bad the states of a store are, by the name of their colour in a palette; the others are warnings."""
START_IT = "start the broker; nothing has to be repaired"


def tone_of_state(state: State) -> Tone:
    """How bad a state is."""
    return TONES.get(state, "warning")


def verdict_lines(
    verdict: Verdict, store: StoreFacts, palette: Palette, columns: int, *, exact: bool = False
) -> Iterator[str]:
    """The headline, and a line or a few each for the start, what is lost, the repair, the next command.
    `exact` names versions one by one where a range has others in it."""
    paint = getattr(palette, tone_of_state(verdict.state))
    yield from map(paint, wrapped(headline_of(verdict), columns))
    yield from labelled("Store", [f"{visible(store.root)} ({_versions(store)})"], columns)
    yield from labelled("Start", chain(_starts(verdict.starts, exact=exact), _configs(verdict)), columns)
    if verdict.state != "healthy":
        yield from labelled("Lost", _lost(verdict), columns)
        yield from labelled("Groups", _groups(verdict.account), columns)
    yield from labelled("Cause", _causes(verdict), columns)
    if verdict.state != "unclean":
        yield from labelled("Repair", _repair(verdict, store), columns)
    if verdict.advice:
        yield from labelled("First", [verdict.advice], columns)
    if verdict.next_command is not None:
        command = sentence(verdict.next_command)
        # never broken: it is to be pasted
        yield f"{pad('  ' + said('Next'), LABEL_WIDTH)}{palette.good(command)}"
    elif verdict.state == "unclean":
        yield from labelled("Next", [START_IT], columns)


def labelled(label: str, texts: Iterable[str], columns: int) -> Iterator[str]:
    """Paragraphs indented by the width of a label, which comes before the first."""
    head = f"  {said(label)}"
    for text in texts:
        for line in wrapped(text, columns - LABEL_WIDTH):
            yield f"{pad(head, LABEL_WIDTH)}{line}"
            head = ""


def _versions(store: StoreFacts) -> str:
    """The versions that may have written it."""
    if len(store.versions) > 1 and not store.dialect_given:
        return f"RocketMQ {store.versions[0]} to {store.versions[-1]}"
    return f"RocketMQ {store.dialect}"


def _starts(starts: tuple[StartVerdict, ...], *, exact: bool) -> Iterator[str]:
    """What brokers do, the worst first; what is the same for many versions once. `exact`: versions that are
    not in question are left out of ranges."""
    ordered = grouped_starts(starts)
    among = () if exact else starts
    for text, alike in ordered[:START_LIMIT]:
        yield f"{versions_text(alike, among)}: {text}"
    left = [start for _, alike in ordered[START_LIMIT:] for start in alike]
    if left:
        yield f"{versions_text(left, among)}: something else; `rocketfsck simulate` shows what"


_TOPICS_SHOWN: frozenset[State] = frozenset({"healthy", "unclean", "harmful", "damaged"})
"""States in which topics that are in no file are said: elsewhere there is worse, and a finding says it."""


def _configs(verdict: Verdict) -> Iterator[str]:
    """What a start does with config files that it cannot read, or that are not there."""
    files, count = verdict.lost_configs, verdict.unknown_topic_count
    if files:
        more = f" and {len(files) - CONFIG_LIMIT:,} more" if len(files) > CONFIG_LIMIT else ""
        names = ", ".join(map(visible, files[:CONFIG_LIMIT]))
        yield f"any version: resets {names}{more}, or does not start"
    if count and verdict.state in _TOPICS_SHOWN:
        yield f"any version: does not know {fill_numbers(NO_TOPIC, count=count)}: no config/topics.json"
    elif (count := verdict.unlisted_topic_count) and verdict.state in _TOPICS_SHOWN:
        yield f"any version: does not know {fill_numbers(NO_TOPIC, count=count)}: not in config/topics.json"


def _lost(verdict: Verdict) -> Iterator[str]:
    """What became of the messages, as far as it is not that consumers get them as they were sent."""
    account, size = verdict.account, verdict.damaged_byte_count
    damage = f"{count_of(size, 'byte')} of the commit log damaged" if size else ""
    if account is None:
        if damage:
            yield damage
        return
    if account.unreachable_count and account.is_complete and not _is_short(verdict):
        yield "nothing for good"
    for tally in account.tallies:
        if tally.fate in _FATES:
            how = {"certain": "", "at least": "at least ", "perhaps": "perhaps "}[tally.sure]
            text = fill_numbers(_FATES[tally.fate], count=tally.message_count)
            yield f"{how}{text}: {WHYS[tally.why]}"
    if regained := _regained(verdict):
        yield regained
    if damage:
        yield damage
    elif account.is_whole and account.is_complete:
        yield "nothing"


def _regained(verdict: Verdict) -> str:
    """How many of the messages out of reach the worst start brings back; "" where the state of a killed
    broker is not what keeps them away."""
    outlook = verdict.messages
    if verdict.state not in ("unclean", "harmful") or outlook is None or not outlook.after_starts:
        return ""
    now, got = outlook.now.unreached_count, outlook.now.got_count
    # a start that cuts such a message off the log does not bring it back
    back = min(
        min(now - row.messages.unreached_count, row.messages.got_count - got) for row in outlook.after_starts
    )
    if back <= 0:
        return ""
    which = "all of them" if back == now else f"{back:,} of them"
    return f"a start brings back {which}"


_FATES: Mapping[Fate, str] = {
    "lost": "{count:message} {count?is|are} lost",
    "unreachable": "{count:message} cannot be consumed",
    "damaged": "{count:message} {count?is|are} damaged",
}
"""What is said of messages with a fate."""


def _causes(verdict: Verdict) -> Iterator[str]:
    """Where damaged files come from, where that is known."""
    yield from (sentence(text) for text in verdict.causes[:CAUSE_LIMIT])
    left = len(verdict.causes) - CAUSE_LIMIT
    if left > 0:
        yield f"and {left:,} more"


def _groups(account: MessageAccount | None) -> Iterator[str]:
    """What consumer groups notice of their offsets: the sum, and the groups that notice most."""
    effects = NO_EFFECTS if account is None else account.groups
    for name, (_, text) in _NOTICED.items():
        count, groups = getattr(effects, name), [item for item in effects.worst if getattr(item, name)]
        if count and len(groups) == 1:
            who = _GROUPS.get(groups[0].group, f"group {visible(groups[0].group)}")
            yield f"{who}: {fill_numbers(text, count=count)}"
        elif count:
            worst = ", ".join(
                f"{_GROUPS.get(item.group, visible(item.group))} {getattr(item, name):,}"
                for item in groups[:GROUP_LIMIT]
            )
            yield f"{effects.group_count:,} groups: {fill_numbers(text, count=count)} ({worst})"


_GROUPS = {"": "all groups (none has an offset)", DELIVERY: "delayed delivery"}
"""What is called a group in the account and is not one."""
_NOTICED = {
    "again_count": ("get up to {count:message} again", "up to {count:message} again"),
    "skipped_count": ("skip up to {count:new message}", "up to {count:new message} skipped"),
}
"""What groups notice, by members of their effects: of all consumers, and of one group."""


def _repair(verdict: Verdict, store: StoreFacts) -> Iterator[str]:
    """What can come back, and what consumers notice of it."""
    prospect = verdict.prospect
    if prospect is None:
        if verdict.obstacle:
            yield f"cannot be planned: {sentence(verdict.obstacle)}"
        return
    if prospect.action_count:
        yield f"{_amount(prospect)}; {_safety(prospect)}"
        if verdict.messages is not None and (text := change_text(verdict.messages)):
            yield text
        if prospect.assumed:
            names = ", ".join(meaning_of(name) for name in prospect.assumed)
            given = [name for name, source in store.geometry_sources.items() if source == "given"]
            yield f"assumes {names}: confirm with {confirming(prospect.assumed, given)}"
        stated = [notice for notice in prospect.notices if notice.kind != AGAIN or verdict.messages is None]
        yield from (visible(notice_text(notice)) for notice in stated[:NOTICE_LIMIT])
    if prospect.unanswered_count:
        left = count_of(prospect.unanswered_count, "finding")
        verb = "is" if prospect.unanswered_count == 1 else "are"
        how = f"{left} {verb} left" if prospect.is_tried else f"no action corrects {left}"
        how = how if prospect.action_count else f"{left} cannot be repaired"
        yield f"{how}: {sentence(prospect.reason.removeprefix('left out: '))}"


def _amount(prospect: Prospect) -> str:
    """How many actions correct how many of the findings."""
    total = prospect.answered_count + prospect.unanswered_count
    some = f"{prospect.answered_count:,} of " if prospect.unanswered_count else ""
    verb = "corrects" if prospect.action_count == 1 else "correct"
    return f"{count_of(prospect.action_count, 'action')} {verb} {some}{count_of(total, 'finding')}"


def _safety(prospect: Prospect) -> str:
    """How many of the actions are safe: the others want somebody's judgement."""
    risky = prospect.action_count - prospect.safe_count
    if not risky:
        return "the action is safe" if prospect.action_count == 1 else "all are safe"
    verb = "needs" if risky == 1 else "need"
    if not prospect.safe_count:
        return f"{'the action' if prospect.action_count == 1 else 'all'} {verb} your judgement"
    safe = f"{prospect.safe_count:,} {'is' if prospect.safe_count == 1 else 'are'} safe"
    return f"{safe}, {risky:,} {verb} your judgement"


def change_text(outlook: Outlook) -> str:
    """What a plan makes of the messages, as clauses; "" where it changes nothing."""
    now, then = outlook.now, outlook.after_plan
    if then is None or then == now:
        return ""
    more = then.got_count - now.got_count
    replaced = then.replaced_count - now.replaced_count
    clauses = []
    if more:
        clauses.append(f"consumers get {count_of(abs(more), 'message')} {'more' if more > 0 else 'fewer'}")
    if replaced > 0:
        text = "{count:message} {count?is replaced by a filler message|are replaced by filler messages}"
        clauses.append(fill_numbers(text, count=replaced))
    mended = now.damaged_count - then.damaged_count
    if mended > 0:
        clauses.append(f"{count_of(mended, 'message')} {'is' if mended == 1 else 'are'} no longer damaged")
    for name, text in _STAYS:
        if count := getattr(then, name):
            clauses.append(fill_numbers(text, count=count))
    return "; ".join(clauses)


_STAYS = (
    ("lost_count", "{count:message} {count?stays|stay} lost"),
    ("unreached_count", "{count:message} still cannot be consumed"),
    ("damaged_count", "{count:message} {count?stays|stay} damaged"),
)
"""What is said of messages that a plan does not bring back."""
