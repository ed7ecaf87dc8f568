r"""The JSON files below `config/`, as brokers write and read them. Reference 1.6.

fastjson 1.x writes them: tabs, `\n`, and maps with Integer keys unquoted and on one line,
`{"T@G":{0:12,1:3⏎⇥⇥}`, which is not strict JSON. `encode_config(decode_config(data)) == data` for every file
that a broker wrote. The reader takes what fastjson's parser takes: names without quotes, single quotes,
comments, surplus commas; like there, nothing may follow the value.

Bytes that are not UTF-8 (brokers before 5.0.0 wrote the JVM's default charset) become lone surrogates
(`surrogateescape`) and are written back as they were.

What the config files say, typed: topics, consumer offsets, delay offsets. Reference 1.6.

Each view takes the value of `config.decode_config` and raises FormatError if it has not the shape that a
broker would load. Integer keys may be quoted: fastjson converts them.

Who consumes what, by the files of a broker that say so.

    subscriptionGroup.json    subscriptionGroupTable: the settings of each consumer group, and from 5.0.0 on
                              `subscriptionDataSet`, the topics that it subscribes to
    consumerFilter.json       filterDataByTopic: subscriptions with expressions of SQL92

Each function takes the value of `config.decode_config` and raises FormatError if it has not the shape that a
broker would load. Reference 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from math import isfinite
from typing import Any

from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN, parse_int64

TOPIC_GROUP_SEPARATOR = "@"
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How often a table has changed and when last (ms). `state_version` is None before 5.0.0."""

    counter: int
    timestamp: int
    state_version: int | None = None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic of `topics.json`, None its name if it lacks one; `perm` is a sum of the numbers PERM_…"""

    topic_name: str | None
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


def table_of(value: Any, what: str) -> Mapping[Any, Any]:
    """A value that must be an object."""
    if not isinstance(value, Mapping):
        raise FormatError(f"{what} is not an object")
    return value


def member_of(value: Any, name: str, *, may_be_null: bool = True) -> Mapping[Any, Any]:
    """The object under `name`; a missing one is empty, and so is null where brokers do not fail over it."""
    member = table_of(value, "the file").get(name, {})
    return {} if member is None and may_be_null else table_of(member, name)


def integer_of(value: Any, what: str) -> int:
    """A value that must be a number of 64 bits, or a text with one."""
    number = parse_int64(value) if isinstance(value, str) else value
    if type(number) is not int or not INT64_MIN <= number <= INT64_MAX:
        raise FormatError(f"{what} is {value!r}, not a 64-bit number")
    return number


def _integer_table(value: Any, what: str) -> dict[int, int]:
    return {
        integer_of(key, f"a key of {what}"): integer_of(item, what)
        for key, item in table_of(value, what).items()
    }


def data_version(value: Any) -> DataVersion | None:
    """The `dataVersion` of a file, None if it has none."""
    found = member_of(value, "dataVersion")
    if not found:
        return None
    state = found.get("stateVersion")
    return DataVersion(
        integer_of(found.get("counter", 0), "counter"),
        integer_of(found.get("timestamp", 0), "timestamp"),
        None if state is None else integer_of(state, "stateVersion"),
    )


def topic_configs(value: Any) -> dict[str, TopicConfig]:
    """The topics of `topics.json` by the name they are listed under."""
    topics = {}
    for listed, item in member_of(value, "topicConfigTable", may_be_null=False).items():
        entry = table_of(item, f"topic {listed}")
        name, default = entry.get("topicName"), TopicConfig(None)
        topics[str(listed)] = TopicConfig(
            None if name is None else str(name),
            integer_of(entry.get("readQueueNums", default.read_queue_nums), f"readQueueNums of {listed}"),
            integer_of(entry.get("writeQueueNums", default.write_queue_nums), f"writeQueueNums of {listed}"),
            integer_of(entry.get("perm", default.perm), f"perm of {listed}"),
            str(entry.get("topicFilterType", default.topic_filter_type)),
            integer_of(entry.get("topicSysFlag", default.topic_sys_flag), f"topicSysFlag of {listed}"),
            entry.get("order") is True,
            {str(name): str(text) for name, text in member_of(entry, "attributes").items()},
        )
    return topics


def consumer_offsets(value: Any) -> dict[str, dict[int, int]]:
    """The next queue offset to consume, by `topic@group` and queueId, of `consumerOffset.json`."""
    table = member_of(value, "offsetTable", may_be_null=False)
    return {str(name): _integer_table(offsets, f"offsets of {name}") for name, offsets in table.items()}


def lmq_consumer_offsets(value: Any) -> dict[str, dict[int, int]]:
    """The same of `lmqConsumerOffset.json`, where a broker with `enableLmq` keeps the offsets of all groups.

    `lmqOffsetTable` has those of light groups, whose queues all have the queueId 0.
    """
    table = member_of(value, "lmqOffsetTable")
    light = {str(name): {0: integer_of(offset, f"offset of {name}")} for name, offset in table.items()}
    return {**consumer_offsets(value), **light}


OFFSET_VIEWS: Mapping[str, Callable[[Any], dict[str, dict[int, int]]]] = {
    "consumerOffset.json": consumer_offsets,
    "lmqConsumerOffset.json": lmq_consumer_offsets,
}
"""The files of committed offsets: of brokers without `enableLmq`, and with it."""


def delay_offsets(value: Any) -> dict[int, int]:
    """The next queue offset to deliver by delay level (from 1) of `delayOffset.json`."""
    return _integer_table(member_of(value, "offsetTable", may_be_null=False), "offsetTable")


def compaction_offsets(value: Any) -> dict[str, int]:
    """The queue offset up to which `topic_queueId` was compacted, of `compaction/position-checkpoint`."""
    table = member_of(value, "queueOffsetMap")
    return {str(name): integer_of(offset, f"offset of {name}") for name, offset in table.items()}


def split_topic_group(name: str) -> tuple[str, str] | None:
    """Topic and group of a `topic@group` key, None where the broker would not find two parts."""
    parts = name.split(TOPIC_GROUP_SEPARATOR)
    return (parts[0], parts[1]) if len(parts) == 2 else None


MAX_DEPTH = 128
_MAX_DIGITS = 1000

_BLANKS = re.compile(r"(?:[ \t\n\r\f\b]+|/\*(?s:.*?)\*/|//[^\n]*)*")
_BLANKS_AND_COMMAS = re.compile(r"(?:[ \t\n\r\f\b,]+|/\*(?s:.*?)\*/|//[^\n]*)*")
# Before and behind a value, fastjson passes over control characters too.
_AROUND_VALUE = re.compile(r"(?:[\x00-\x20\x7f]+|/\*(?s:.*?)\*/|//[^\n]*)*")
_NUMBER = re.compile(r"(-?\d+)((?:\.\d*)?(?:[eE][-+]?\d+)?)([LSBFD]?)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": None}
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "F": "\f", "r": "\r", '"': '"', "'": "'"}
_ESCAPES |= {"/": "/", "\\": "\\"} | {str(digit): chr(digit) for digit in range(8)}
_HEX_ESCAPES = {"u": re.compile(r"[0-9a-fA-F]{4}"), "x": re.compile(r"[0-9a-fA-F]{2}")}
_SURROGATE_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")

_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_UNWRITABLE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class InlineList(list[Any]):
    """A list on one line, as fastjson writes a Java Set or array; a List has an item a line."""


class RepeatedNames(dict[Any, Any]):
    """A table in which a name occurs more than once: the last value counts; `pairs` are all, in order."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class _Reader:
    """Reads one value; positions are character positions and become byte offsets only in errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def fail(self, message: str, pos: int | None = None) -> FormatError:
        before = self.text[: self.pos if pos is None else pos]
        return FormatError(message, offset=len(before.encode(errors="surrogateescape")))

    def skip(self, pattern: re.Pattern[str] = _BLANKS) -> str:
        """Pass over what does not count; the next character, "" at the end."""
        match = pattern.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()
        return self.text[self.pos : self.pos + 1]

    def value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise self.fail(f"nested deeper than {MAX_DEPTH}")
        start = self.skip(_AROUND_VALUE)
        if start == "{":
            return self.table(depth)
        if start == "[":
            return self.sequence(depth)
        if start in ('"', "'"):
            return self.string()
        if match := _NUMBER.match(self.text, self.pos):
            return self.number(match)
        if (match := _WORD.match(self.text, self.pos)) and match.group() in _WORDS:
            self.pos = match.end()
            return _WORDS[match.group()]
        raise self.fail("a value is missing" if start else "ends before the value")

    def number(self, match: re.Match[str]) -> int | float:
        if match.end() - match.start() > _MAX_DIGITS:
            raise self.fail("a number of too many digits")
        self.pos = match.end()
        whole, rest, suffix = match.groups()
        return float(whole + rest) if rest or suffix in ("F", "D") else int(whole)

    def table(self, depth: int) -> dict[Any, Any]:
        self.pos += 1
        pairs: list[tuple[Any, Any]] = []
        while (start := self.skip(_BLANKS_AND_COMMAS)) != "}":
            key = self.key(start)
            # Nothing, not even a blank, may come between a number and its colon.
            if (self.skip() if isinstance(key, str) else self.text[self.pos : self.pos + 1]) != ":":
                raise self.fail("a colon is missing after the name")
            self.pos += 1
            pairs.append((key, self.value(depth + 1)))
            if self.skip(_AROUND_VALUE) not in (",", "}"):
                raise self.fail("a comma or } is missing after the value")
        self.pos += 1
        found = dict(pairs)
        return found if len(found) == len(pairs) else RepeatedNames(pairs)

    def key(self, start: str) -> Any:
        if start in ('"', "'"):
            begin = self.pos
            name = self.string()
            if "\x1a" in self.text[begin : self.pos]:
                raise self.fail("a name with the character 0x1A", begin)
            return name
        if match := _NUMBER.match(self.text, self.pos):
            return self.number(match)
        if match := _WORD.match(self.text, self.pos):
            self.pos = match.end()
            return match.group()
        raise self.fail("a name is missing" if start else "ends inside {")

    def sequence(self, depth: int) -> list[Any]:
        self.pos += 1
        found: list[Any] = []
        on_one_line = not self.text.startswith("\n", self.pos)
        while (start := self.skip(_BLANKS_AND_COMMAS)) != "]":
            if not start:
                raise self.fail("ends inside [")
            found.append(self.value(depth + 1))
            if self.skip(_AROUND_VALUE) not in (",", "]"):
                raise self.fail("a comma or ] is missing after the value")
        self.pos += 1
        return InlineList(found) if on_one_line and found else found

    def string(self) -> str:
        start = self.pos
        plain = _PLAIN[self.text[start]]
        self.pos += 1
        pieces: list[str] = []
        escaped = False
        while True:
            match = plain.match(self.text, self.pos)
            assert match is not None
            pieces.append(match.group())
            self.pos = match.end() + 1
            if match.end() == len(self.text):
                raise self.fail("ends inside a string", start)
            if self.text[match.end()] != "\\":
                break
            escaped = True
            pieces.append(self.escape())
        joined = "".join(pieces)
        return _SURROGATE_PAIR.sub(_join_surrogates, joined) if escaped else joined

    def escape(self) -> str:
        kind = self.text[self.pos : self.pos + 1]
        self.pos += 1
        if digits := _HEX_ESCAPES.get(kind):
            if match := digits.match(self.text, self.pos):
                self.pos = match.end()
                return chr(int(match.group(), 16))
        elif kind in _ESCAPES:
            return _ESCAPES[kind]
        raise self.fail("an unknown escape", self.pos - 2)


def _join_surrogates(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def valid_prefix(data: bytes) -> tuple[Any, int]:
    """The value that the bytes begin with and the offset where it ends; whatever follows is not looked at.

    FormatError if the bytes do not begin with a complete value.
    """
    reader = _Reader(bytes(data).decode(errors="surrogateescape"))
    reader.pos = int(reader.text.startswith("\ufeff"))
    value = reader.value()
    return value, len(reader.text[: reader.pos].encode(errors="surrogateescape"))


def decode_config(data: bytes) -> Any:
    """The value of a config file: dict, list, str, int, float, bool or None. Integer keys are ints; a
    table keeps its order, and is RepeatedNames where a name occurs twice.

    FormatError, with the byte offset, where fastjson would throw, also for what follows the value.
    """
    value, end = valid_prefix(data)
    rest = data[end:].decode(errors="surrogateescape")
    match = _AROUND_VALUE.match(rest)
    assert match is not None
    if match.end() != len(rest):
        raise FormatError("something follows the value", offset=end + len(rest[: match.end()].encode()))
    return value


def encode_config(value: Any) -> bytes:
    """The bytes that a broker writes for a value (fastjson 1.x, pretty).

    TypeError for a value that `decode_config` cannot give.
    """
    pieces: list[str] = []
    _write(value, 0, pieces)
    text = _UNWRITABLE.sub("?", "".join(pieces))
    return text.encode(errors="surrogateescape")


def _quoted(text: str) -> str:
    return '"' + _SPECIAL.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _java_double(number: float) -> str:
    """Java's `Double.toString` of a finite number; fastjson writes null for all others."""
    if not isfinite(number):
        return "null"
    exact = Decimal(repr(number))
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = f"{exact:f}"
        return text if "." in text else text + ".0"
    sign, digits, _ = exact.normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exact.adjusted()}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, str):
        return _quoted(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _write(value: Any, indent: int, out: list[str]) -> None:
    if isinstance(value, Mapping):
        _write_table(value, indent, out)
    elif isinstance(value, list):
        _write_list(value, indent, out)
    else:
        out.append(_scalar(value))


def _newline(indent: int, out: list[str]) -> None:
    out.append("\n" + "\t" * indent)


def _write_table(table: Mapping[Any, Any], indent: int, out: list[str]) -> None:
    if list(table) == ["$ref"] and isinstance(
        table["$ref"], str
    ):  # fastjson's mark for an object that it has written before
        out.append(f'{{"$ref":{_quoted(table["$ref"])}}}')
        return
    out.append("{")
    items: Iterable[tuple[Any, Any]] = table.items()
    if isinstance(table, RepeatedNames) and dict(table.pairs) == table:  # else it was altered since
        items = table.pairs
    for number, (key, value) in enumerate(items):
        if number:
            out.append(",")
        if isinstance(key, str):
            _newline(indent + 1, out)
        out.append(_scalar(key) + ":")
        _write(value, indent + 1, out)
    if table:
        _newline(indent, out)
    out.append("}")


def _write_list(items: list[Any], indent: int, out: list[str]) -> None:
    on_one_line = isinstance(items, InlineList) or not items
    out.append("[")
    for number, item in enumerate(items):
        if number:
            out.append(",")
        if not on_one_line:
            _newline(indent + 1, out)
        _write(item, indent if on_one_line else indent + 1, out)
    if not on_one_line:
        _newline(indent, out)
    out.append("]")


@dataclass(frozen=True, slots=True)
class SubscriptionGroup:
    """A consumer group of `subscriptionGroup.json`, with what a broker assumes where a setting is missing."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group subscribes to of a topic: the kind of expression (TAG, SQL92), and the expression."""

    group: str
    topic: str
    expression_type: str | None
    expression: str | None


def subscription_groups(value: Any) -> dict[str, SubscriptionGroup]:
    """The consumer groups of `subscriptionGroup.json` by the name they are listed under."""
    found = {}
    for listed, item in member_of(value, "subscriptionGroupTable").items():
        entry = table_of(item, f"group {listed}")
        settings: dict[str, Any] = {}
        for setting in fields(SubscriptionGroup):
            stated = entry.get(_camel(setting.name))
            if stated is not None and isinstance(setting.default, bool):
                settings[setting.name] = stated is True
            elif stated is not None and isinstance(setting.default, int):
                settings[setting.name] = integer_of(stated, f"{_camel(setting.name)} of {listed}")
        attributes = {str(name): str(text) for name, text in member_of(entry, "attributes").items()}
        name = str(entry.get("groupName", listed))
        found[str(listed)] = SubscriptionGroup(name, **settings, attributes=attributes)
    return found


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def group_subscriptions(value: Any) -> list[Subscription]:
    """The subscriptions that `subscriptionGroup.json` has with its groups, in its order."""
    found = []
    for listed, item in member_of(value, "subscriptionGroupTable").items():
        entries = table_of(item, f"group {listed}").get("subscriptionDataSet")
        for entry in entries if isinstance(entries, list) else ():
            values = table_of(entry, f"a subscription of {listed}")
            found.append(_subscription(str(listed), str(values.get("topic", "")), values))
    return found


def filter_subscriptions(value: Any) -> list[Subscription]:
    """The subscriptions that `consumerFilter.json` has, in its order."""
    found = []
    for topic, item in member_of(value, "filterDataByTopic").items():
        for group, entry in member_of(item, "groupFilterData").items():
            values = table_of(entry, f"a subscription of {group}")
            found.append(_subscription(str(group), str(topic), values))
    return found


def _subscription(group: str, topic: str, values: Mapping[Any, Any]) -> Subscription:
    kind, text = values.get("expressionType"), values.get("expression")
    return Subscription(
        group, topic, None if kind is None else str(kind), None if text is None else str(text)
    )
