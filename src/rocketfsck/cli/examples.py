"""The examples at the end of each command's help: what they do, and the command line. A test runs them all.

STORE and REPLICA stand for a store and another copy of it, NEW for a directory that is made, MSGID, UNIQKEY
and KEY for what a message has.
"""

from __future__ import annotations

from collections.abc import Mapping

Examples = tuple[tuple[str, str], ...]

EXAMPLES: Mapping[str, Examples] = {
    "info": (
        ("what is there, and which broker wrote it", "info STORE"),
        ("messages by topic, queue and day", "info --stats STORE"),
    ),
    "dump": (
        ("messages with their bodies", "dump STORE --topic Seg0 --body text --limit 3"),
        ("one record, byte by byte", "dump STORE --physical-offset 0: --limit 1 --hex"),
        ("the units of a queue, as CSV", "dump STORE/consumequeue/Seg0/0 --format csv"),
    ),
    "query id": (("a message by its id", "query id STORE MSGID"),),
    "query offset": (("the message at queue offset 5", "query offset STORE Seg0 0 5"),),
    "query key": (("messages with a key, and how they were found", "query key STORE Seg0 KEY --trace"),),
    "query unique-key": (("a message by its UNIQ_KEY", "query unique-key STORE Seg0 UNIQKEY"),),
    "query time": (("where a consumer that seeks begins", "query time STORE Seg0 0 2023-11-14T22:15"),),
    "query scan": (
        ("by fields", """query scan STORE 'topic == "Seg0" and queue_id in (0, 1)' --limit 3"""),
        ("by content", "query scan STORE 'content ~ /pay(ed|ing)/i'"),
    ),
    "query life": (("all that became of a message", "query life STORE UNIQKEY"),),
    "query offsets": (("how far consumers are behind", "query offsets STORE --topic Seg0"),),
    "query timers": (("the next messages of the timer wheel", "query timers STORE --limit 10"),),
    "check": (
        ("may the broker start, what is lost, what next", "check STORE"),
        ("the verdict alone, of a store of 4.9.8", "check -q --broker-version 4.9.8 STORE"),
        ("findings for another tool", "check --format sarif -o findings.sarif STORE"),
    ),
    "fix": (
        ("show what would be done, and ask", "fix STORE"),
        ("do it without a question", "fix --yes STORE"),
        ("only what is provably safe, as at boot", "fix --preen STORE"),
    ),
    "page": (("a saved check as an HTML page", "page check.json --store STORE -o page.html"),),
    "plan": (("write a plan, to be read and applied", "plan STORE -o plan.json"),),
    "apply": (("carry out a plan", "apply plan.json --yes"),),
    "undo": (("bring the store back as it was", "undo STORE --yes"),),
    "rebuild": (("all queues, from the log", "rebuild consumequeue STORE --into NEW"),),
    "salvage": (("records out of whatever is left", "salvage STORE/commitlog --into NEW"),),
    "compare": (
        ("where two replicas differ", "compare STORE REPLICA"),
        ("a plan to take from the replica what is missing", "compare STORE REPLICA --heal -o heal.json"),
    ),
    "report": (("messages by topic and day", "report STORE --by topic-day"),),
    "timeline": (("what happened when", "timeline STORE"),),
    "export": (("messages of a topic as Parquet", "export STORE --topic Seg0 --into NEW"),),
    "browse": (("begin at a message with a key", "browse STORE --find KEY"),),
    "write": (
        (
            "a store of 100 messages that a seed decides",
            "write --synth plain --messages 100 --seed 7 --into NEW",
        ),
    ),
    "damage": (("a copy with a torn tail", "damage STORE --fault torn-tail --seed 7 --into NEW"),),
    "simulate": (("what version 5.3.2 would do", "simulate STORE --as-broker 5.3.2"),),
    "bugreport": (("a small masked copy", "bugreport STORE --shrink -o bug.tar.gz"),),
    "explain": (("a rule", "explain CL004"), ("a class of damage", "explain C1")),
    "config": (("what is set, and where", "config"),),
    "schema": (("of what `check --format json` prints", "schema check"),),
    "completion": (("for bash", "completion bash"),),
}
"""By the name of the command, without the program's."""


def examples_of(command_path: str) -> Examples:
    """The examples of a command by its whole name, `rocketfsck query id`; without any: none."""
    return EXAMPLES.get(command_path.partition(" ")[2], ())
