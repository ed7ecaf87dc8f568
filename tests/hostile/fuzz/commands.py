"""Command lines of every command that reads, drawn with arguments that fit the store, or do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rocketfsck.errors import FormatError
from rocketfsck.formats.messageid import OffsetMessageId, encode_offset_id
from rocketfsck.formats.properties import parse_properties
from rocketfsck.formats.record import decode_record
from rocketfsck.pipeline.views.table import VIEW_NAMES
from rocketfsck.writer.damage import DAMAGES

from tests.hostile.fuzz.drawing import Ground

DUMP_KINDS = (
    "commitlog", "consumequeue", "batchconsumequeue", "consumequeue-ext", "index", "checkpoint", "config",
    "epoch",
    "text", "raw", "timerwheel", "timerlog", "timercheck", "dledger-data", "dledger-index", "all",
)  # fmt: skip
VERSIONS = ("4.4.0", "4.7.1", "4.9.8", "5.0.0", "5.1.4", "5.3.3")
EXPRESSIONS = (
    "queue_id == 1", 'topic == "TopicA" and tags == "t1"', "body ~ /A+/", 'content contains "z"',
    "queue_offset >= 3",
    'properties.KEYS contains "k1"', "faults > 0", 'transaction == "commit" or sys_flag == 8',
)  # fmt: skip
HOSTILE_NUMBERS = ("0", "-1", "1", "3", "2147483647", "9223372036854775807", "-9223372036854775808")
TIMES = ("2023-11-14T22:13:25", "1700000003000", "0", "2100-01-01", "1969-12-31")
QUERY = frozenset({0, 4, 8, 12, 16, 20, 28})
STATUSES: Mapping[str, frozenset[int]] = {
    "info": frozenset({0, 8, 16}),
    "dump": frozenset({0, 8, 16}),
    "check": frozenset({0, 4, 8, 12}),
    "plan": frozenset({0, 4, 8, 12}),
    "simulate": frozenset({0, 4, 8}),
    "rebuild": frozenset({0, 4, 8, 16}),
    "salvage": frozenset({0, 1, 4, 5, 8, 16}),
    "extract": frozenset({0, 4, 8, 16}),
    "convert": frozenset({0, 4, 8, 16}),
    "compare": frozenset({0, 1, 4, 5, 8, 12, 16}),
    "find": QUERY,
    "count": frozenset({0, 4, 8, 12}),
    "export": frozenset({0, 4, 8, 12}),
    "query": QUERY,
    "explain": frozenset({0}),
    "apply": frozenset({0, 1, 4, 5, 8, 12, 16}),
    "undo": frozenset({0, 8}),
    "write": frozenset({0, 8, 16}),
    "damage": frozenset({0, 8, 16}),
}
"""The exit statuses that a command may end with on a store, however it is damaged.

16 is there where what is asked may not fit what is there: a directory for `info`, a store without a log for
`compare` and `convert`, kinds and filters of `dump`, messages for `extract`, a place without a record for
`salvage`, extension files for `rebuild --only-missing-tail`.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A record of the sound store, by all that one could ask for it."""

    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    key: str
    unique_key: str


Line = list[str]
Draw = Callable[[random.Random, Ground], Line]


def records_of(ground: Ground) -> tuple[Known, ...]:
    """The records of the commit log as it was."""
    return _records_of(ground.subject.name, tuple(
        (ground.contents[spot.file], spot.start) for spot in ground.spots.get("record", {}).get("totalSize",
        ())
        if spot.file.startswith("commitlog/")
    ))  # fmt: skip


@cache
def _records_of(_name: str, places: tuple[tuple[bytes, int], ...]) -> tuple[Known, ...]:
    found = []
    for content, start in places:
        try:
            record = decode_record(content, start)
            pairs = parse_properties(record.properties, "scan") or {}
        except FormatError:
            continue
        found.append(
            Known(
                record.topic.decode("utf-8", "replace"),
                record.queue_id,
                record.queue_offset,
                encode_offset_id(
                    OffsetMessageId(record.store_host.address, record.store_host.port, record.physical_offset)
                ),
                (pairs.get("KEYS") or "k1").split(" ")[0] or "k1",
                pairs.get("UNIQ_KEY") or "0" * 32,
            )
        )
    return tuple(found) or (Known("TopicA", 0, 0, "0" * 32, "k1", "0" * 32),)


def _some(rng: random.Random, *options: Sequence[str], share: float = 0.4) -> Line:
    """Some of the options, each with its value."""
    return [word for option in options if rng.random() < share for word in option]


def _format(rng: random.Random, *forms: str) -> Line:
    form = rng.choice(("", *forms))
    return ["--format", form] if form else []


def _check(rng: random.Random, _ground: Ground) -> Line:
    level = rng.choice(("quick", "cross", "full"))
    line = ["check", "--level", level, "{store}", "{stated}"]
    line += _format(rng, "json", "json", "jsonl", "csv", "arrow")
    line += _some(rng, ["--all"], ["-j", "1"], ["--as-broker", rng.choice(VERSIONS)], share=0.25)
    line += _some(rng, ["--select", rng.choice(("CL", "XR", "CQ004", "IX"))], ["--subset", "1/2"], share=0.1)
    return line


def _info(rng: random.Random, ground: Ground) -> Line:
    place = _place(rng, ground, 0.3)
    line = ["info", place, "{stated}", *_some(rng, ["-v"])]
    line += _some(rng, ["--stats"]) if place == "{store}" else []
    return line + _format(rng, "json", "jsonl")


def _place(rng: random.Random, ground: Ground, share: float) -> str:
    """The store, or something in it."""
    if rng.random() >= share:
        return "{store}"
    return "{store}/" + rng.choice((*ground.files, *ground.folders))


def _dump(rng: random.Random, ground: Ground) -> Line:
    line = [
        "dump",
        _place(rng, ground, 0.5),
        *_some(rng, ["--kind", rng.choice(DUMP_KINDS)], share=0.6),
        "{stated}",
    ]
    if rng.random() < 0.3:
        return [*line, "--hex", *_some(rng, ["-v"])]
    line += _some(rng, ["--body", rng.choice(("text", "hex", "base64"))], ["--limit", "7"])
    filters = (
        ["--topic", rng.choice(ground.subject.topics or ("TopicA",))], ["--queue",
        rng.choice(HOSTILE_NUMBERS)],
        ["--physical-offset", rng.choice(HOSTILE_NUMBERS)], ["--pos", "100:900"], ["--begin",
        rng.choice(TIMES)],
        ["--queue-offset", "1:4"], ["--key", "k1"], ["--tag", "t1"], ["--slot", rng.choice(HOSTILE_NUMBERS)],
    )  # fmt: skip
    line += _some(rng, rng.choice(filters), share=0.3)
    return line + _format(rng, "json", "jsonl", "csv", "arrow", "parquet")


def _plan(rng: random.Random, _ground: Ground) -> Line:
    line = ["plan", "{store}", "{stated}", *_some(rng, ["--preen"], share=0.5), *_format(rng, "json")]
    return [*line, *_some(rng, ["--level", rng.choice(("quick", "cross"))], share=0.3)]


def _simulate(rng: random.Random, ground: Ground) -> Line:
    version = rng.choice((*VERSIONS, ground.subject.version))
    line = [
        "simulate",
        "{store}",
        "--as-broker",
        version,
        *_some(rng, ["--broker-conf", "{conf}"], ["--no-losses"], ["-v"]),
    ]
    return line + _format(rng, "json")


def _rebuild(rng: random.Random, ground: Ground) -> Line:
    what = rng.choice(("index", "consumequeue", "checkpoint", "all"))
    line = [
        "rebuild",
        what,
        "{store}",
        "--into",
        "{out}/built",
        "--no-sync",
        "{stated}",
        *_format(rng, "json"),
    ]
    if what in ("index", "consumequeue"):
        line += _some(rng, ["--only-missing-tail"], share=0.3)
    if what == "index" and "--only-missing-tail" not in line:
        line += _some(rng, ["--from-offset", rng.choice(("0", "2048", "9223372036854775807"))], share=0.2)
    if what == "consumequeue":
        line += _some(rng, ["--topic", rng.choice(ground.subject.topics or ("TopicA",))], share=0.2)
    return line


def _salvage(rng: random.Random, ground: Ground) -> Line:
    line = ["salvage", _place(rng, ground, 0.2), "--into", "{out}/saved"]
    line += _some(
        rng, ["--layout", rng.choice(("keep", "pack"))], ["--min-confidence", rng.choice(("low", "high"))]
    )
    return line + _some(rng, ["--dry-run"], share=0.3) + _some(rng, ["--broker-conf", "{conf}"], share=0.3)


def _extract(rng: random.Random, ground: Ground) -> Line:
    topics = [*(ground.subject.topics or ("TopicA",)), "SCHEDULE_TOPIC_XXXX"]
    wanted = [word for topic in rng.sample(topics, rng.choice((1, 1, 2))) for word in ("--topic", topic)]
    times = [["--begin", rng.choice(TIMES)], ["--end", rng.choice(TIMES)]]
    line = rng.choice(
        (wanted, times[0], [*wanted, *times[1]], [*wanted[:2], "--queue", str(rng.choice((0, 1)))])
    )
    return ["extract", "{store}", *line, "--into", "{out}/part", "--no-sync", *_format(rng, "json")]


def _convert(rng: random.Random, ground: Ground) -> Line:
    is_plain = ground.subject.name.startswith("dledger") or rng.random() < 0.1
    what = "plain" if is_plain else rng.choice(("controller", "geometry", "files"))
    sides = rng.choice((["{store}"], ["{store}", "{sound}"])) if what == "controller" else ["{store}"]
    size = ["--commitlog-file-size", rng.choice(("64KiB", "1MiB", "100"))] if what == "geometry" else []
    return ["convert", what, *sides, *size, "--into", "{out}/converted", "--no-sync", *_format(rng, "json")]


def _compare(rng: random.Random, _ground: Ground) -> Line:
    sides = rng.choice((["{store}", "{sound}"], ["{sound}", "{store}"], ["{store}", "{store}"]))
    line = ["compare", *sides]
    if rng.random() < 0.5:
        line += ["--heal", *_some(rng, ["--prefer", rng.choice("AB")])]
        line += rng.choice(([], ["-o", "{out}/heal.json"], ["--into", "{out}/healed"]))
    return line + (_format(rng, "json") if "--heal" not in line else [])


def _count(rng: random.Random, _ground: Ground) -> Line:
    return [
        "count",
        "{store}",
        "{stated}",
        *_some(rng, ["--keys", "3"], ["-v"]),
        *_format(rng, "json", "csv"),
    ]


def _export(rng: random.Random, _ground: Ground) -> Line:
    view = rng.choice(VIEW_NAMES)
    return ["export", "{store}", "--into", "{out}/exported", "--view", view, "{stated}"]


def _damage(rng: random.Random, _ground: Ground) -> Line:
    faults = [word for _ in range(rng.choice((1, 1, 2))) for word in ("--fault", rng.choice(sorted(DAMAGES)))]
    line = [
        "damage",
        "{store}",
        "--into",
        "{out}/damaged",
        *faults,
        "--seed",
        str(rng.randrange(99)),
        "{stated}",
    ]
    return [*line, *_format(rng, "json")]


def _explain(rng: random.Random, _ground: Ground) -> Line:
    return [
        "explain",
        *_some(rng, [rng.choice(("CL001", "XR024", "Q3", "CL"))]),
        *_format(rng, "json", "csv"),
    ]


def _query(rng: random.Random, ground: Ground) -> Line:
    asked = rng.choice(records_of(ground))
    line = rng.choice(_QUERIES)(rng, asked)
    return ["query", *line, "{stated}", *_format(rng, "json", "jsonl")]


def _find(rng: random.Random, ground: Ground) -> Line:
    one = rng.choice(records_of(ground))
    texts = (
        one.unique_key,
        one.key,
        one.message_id,
        one.topic,
        "10.0.0.1",
        "0",
        "2023-11-14",
        rng.choice(TIMES),
    )
    return ["find", "{store}", rng.choice(texts), "{stated}", *_format(rng, "json", "jsonl")]


def _via(rng: random.Random) -> Line:
    line = _some(rng, ["--trace"], ["-v"], ["--body", "text"], share=0.25)
    if rng.random() < 0.4:
        return [*line, "--as-broker", rng.choice(VERSIONS)]
    return [*line, *_some(rng, ["--via", rng.choice(("index", "scan", "both"))], share=0.6)]


def _number(rng: random.Random, value: int) -> str:
    return str(value) if rng.random() < 0.7 else rng.choice(HOSTILE_NUMBERS)


_QUERIES: Sequence[Callable[[random.Random, Known], Line]] = (
    lambda rng, one: ["id", "{store}", one.message_id, *_via(rng)],
    lambda rng, one: ["id", "{store}", one.unique_key, *_via(rng)],
    lambda rng, one: ["key", "{store}", one.topic, one.key, *_via(rng)],
    lambda rng, one: ["unique-key", "{store}", one.topic, one.unique_key, *_via(rng)],
    lambda rng, one: [
        "offset", *_via(rng), "{store}", one.topic, "--", _number(rng, one.queue_id), _number(rng,
        one.queue_offset)
    ],
    lambda rng, one: [
        "time", *_some(rng, ["--as-broker", rng.choice(VERSIONS), "--boundary", rng.choice(("lower",
        "upper"))]), "{store}", one.topic, str(one.queue_id), rng.choice(TIMES)
    ],
    lambda _rng, _one: ["offsets", "{store}"],
    lambda rng, _one: ["as-of", "{store}", rng.choice(TIMES)],
    lambda rng, _one: ["retention", "{store}", *_some(rng, ["--as-of", rng.choice(TIMES)])],
    lambda rng, one: ["life", "{store}", rng.choice((one.unique_key, one.message_id))],
    lambda rng, _one: ["scan", "{store}", rng.choice(EXPRESSIONS), *_some(rng, ["--limit", "2"], ["-v"])],
)  # fmt: skip

COMMANDS: Mapping[str, Draw] = {
    "check": _check,
    "info": _info,
    "dump": _dump,
    "find": _find,
    "query": _query,
    "plan": _plan,
    "simulate": _simulate,
    "rebuild": _rebuild,
    "salvage": _salvage,
    "extract": _extract,
    "convert": _convert,
    "compare": _compare,
    "count": _count,
    "export": _export,
    "damage": _damage,
    "explain": _explain,
}
WEIGHTS = {
    "query": 5, "find": 1, "dump": 4, "check": 3, "simulate": 3, "rebuild": 2, "salvage": 1.5, "convert": 1,
    "extract": 1,
    "info": 2, "plan": 2, "compare": 2, "count": 1, "export": 0.5, "damage": 1.5, "explain": 0.1,
}  # fmt: skip


def draw_command(rng: random.Random, ground: Ground) -> tuple[str, ...]:
    """A command line with `{store}`, `{sound}`, `{out}`, `{conf}` and `{stated}` in it."""
    name = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return tuple(COMMANDS[name](rng, ground))
