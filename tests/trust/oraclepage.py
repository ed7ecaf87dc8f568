"""The part of the page about the broker's own code: agreement by version, and the table of confusion."""

from __future__ import annotations

from collections.abc import Iterator

from docs.site.marks import cell, table
from tests.trust.documents import Answered, Oracle
from tests.trust.oracle import DEEP, QUESTIONS
from tests.trust.words import count, part, wrapped

HAPPENED = {
    "harmless": "The start takes no message",
    "takes": "The start takes messages",
    "refused": "The broker does not start",
}
"""What a start of the real code came to."""


def oracle_part(oracle: Oracle) -> list[str]:
    """What the broker's code said."""
    versions = _versions(oracle)
    return part(
        "Asked of the broker's own code",
        "oracle",
        commit=oracle.commit,
        asked="Is what rocketfsck says of a store what a broker does with it?",
        how="The store code of released brokers (`org.apache.rocketmq:rocketmq-store` from Maven, versions "
        f"{', '.join(versions)}) runs in a process of its own on copies of the stores. The code loads them, "
        "starts, serves every message, appends, and is stopped or killed. Each case compares all of that "
        "with what rocketfsck said, wrote or repaired.",
        figures=_figures(oracle),
        not_shown="A case is a store and what was done to it, and there are others. The code of the "
        "versions between those above was not run. Name server, replication and network are not part of "
        "the store code. More damages on all versions are asked every night (`make nightly`).",
    )


def _versions(oracle: Oracle) -> list[str]:
    found = {one.version for one in oracle.answers if one.version}
    return sorted(found, key=lambda name: [int(number) for number in name.split(".")])


def _figures(oracle: Oracle) -> Iterator[str]:
    if oracle.verdicts:
        yield from wrapped(
            "What the first line of a check said of a damaged store, and what the start then did. Two "
            f"stores were damaged in all the ways of `tests/oracle/handmade.py` for version {DEEP}, and one "
            "store in some of them for the others:"
        )
        yield ""
        yield from table(("Said", *HAPPENED.values()), _confusion(oracle))
        yield from wrapped(
            "A start can do harm and take no message: it uses queue offsets twice, or drops keys of the "
            "index. Each case compares such counts, too."
        )
        yield ""
    yield from ("Agreement by version, in cases (those that agree, of those that were asked):", "")
    versions = _versions(oracle)
    kinds = list(dict.fromkeys(kind for kind, _ in QUESTIONS.values()))
    rows = [(kind, [one for one in oracle.answers if QUESTIONS[one.question][0] == kind]) for kind in kinds]
    yield from table(
        ("Questions about", *versions, "all"),
        ((kind, *_cells(answers, versions)) for kind, answers in [*rows, ("all", list(oracle.answers))]),
    )
    yield from table(
        ("Kind", "What must be so", *versions, "all"),
        (
            (kind, cell(text), *_cells([one for one in oracle.answers if one.question == name], versions))
            for name, (kind, text) in QUESTIONS.items()
            if any(one.question == name for one in oracle.answers)
        ),
    )
    wrong = [one for one in oracle.answers if one.disagreed]
    if wrong:
        yield from (
            "Cases in which the broker's code did something else, a fault of rocketfsck or of the test each:",
            "",
        )
        for one in wrong:
            cases = ", ".join(f"`{name}`" for name in one.disagreed)
            yield f"- {QUESTIONS[one.question][1]}, {one.version}: {cases}"
        yield ""
    skipped = [(reason, number) for one in oracle.answers for reason, number in one.skipped.items()]
    if skipped:
        yield from ("Cases that could not be asked:", "")
        for reason in dict.fromkeys(reason for reason, _ in skipped):
            yield f"- {count(sum(number for other, number in skipped if other == reason))}: {cell(reason)}"
        yield ""


def _confusion(oracle: Oracle) -> Iterator[tuple[str, ...]]:
    counts = {(row.state, row.happened): row.count for row in oracle.verdicts}
    for state in sorted({row.state for row in oracle.verdicts}):
        yield f"`{state}`", *(count(counts.get((state, name), 0)) for name in HAPPENED)


def _cells(answers: list[Answered], versions: list[str]) -> Iterator[str]:
    for version in (*versions, None):
        here = [one for one in answers if version in (None, one.version)]
        agreed, asked = sum(one.agreed for one in here), sum(one.agreed + len(one.disagreed) for one in here)
        yield f"{count(agreed)} of {count(asked)}" if asked else ""
