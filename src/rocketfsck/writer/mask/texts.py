"""JSON with its texts masked, whole or broken: RocketMQ's own words and numbers stay."""

from __future__ import annotations

import re

from rocketfsck.writer.mask.names import Pseudonyms

_LITERAL = re.compile(r'("(?:[^"\\]|\\.)*")', re.DOTALL)
_WORD = re.compile(r"[^@\\/:;,\s\"]+")
_ESCAPED = r"\\u(?![dD][89a-fA-F])([0-9a-fA-F]{4})"
_WRITTEN_CHARACTER = re.compile(rf"{_ESCAPED}|(.)", re.DOTALL)
_WRITTEN_WORD = re.compile(rf'((?:{_ESCAPED}|[^@\\/:;,\s"])+)|\\u[0-9a-fA-F]{{4}}|\\.', re.DOTALL)
"""A word (group 1) of a text as JSON writes it, escaped characters in it; or an escape outside of words."""
_SHORT_NUMBER = re.compile(r"-?[0-9]{1,5}", re.ASCII)
"""A queue, a level, a version: written as a text, but no name."""
_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)
_OF_A_TABLE = re.compile(r"\s*:\s*\{")
"""What follows a topic's or group's name in a table of them."""
_NAME_MEMBERS = frozenset({'"topicName"', '"groupName"', '"topic"', '"consumerGroup"'})
_TIME = re.compile(r"\b[0-9]{13}\b", re.ASCII)
"""A time in ms, whatever its member: no queue has as many messages, and sizes and delays are smaller."""
_BARE = re.compile(r"[^\W\d_]\w*")


def mask_json(text: str, names: Pseudonyms) -> str:
    """JSON, whole or broken, with its texts masked; the names of its members stay.

    A text is masked name by name: `topic@group` as topic and group.
    """
    parts = _LITERAL.split(text)
    for number in range(0, len(parts), 2):
        if number and parts[number - 1] == '"bitPos"':
            parts[number] = _masked_bits(parts[number], names)
            continue
        if not names.times.stay:
            parts[number] = _TIME.sub(lambda found: _moved(found[0], names), parts[number])
        parts[number] = _masked_words(_BARE, parts[number], names)
    literals = parts[1::2]
    for place, literal in enumerate(literals):
        before = literals[place - 1] if place and parts[2 * place].strip() == ":" else ""
        if not _is_kept(literal, before, parts[2 * place + 2]):
            parts[2 * place + 1] = _masked_literal(literal, names)
    return "".join(parts)


def _is_kept(literal: str, before: str, after: str) -> bool:
    """Whether a text is RocketMQ's own; `before` is the member whose value it is, `after` what follows."""
    said = literal[1:-1]
    if before in _NAME_MEMBERS:
        return False
    if _SHORT_NUMBER.fullmatch(said) or said in _JSON_FIELDS:
        return said in _TABLES or _OF_A_TABLE.match(after) is None
    return said in _BODY_MEMBERS and after.lstrip().startswith(":")


def _masked_bits(text: str, names: Pseudonyms) -> str:
    """Places of a bloom filter: they follow from the name of a group, and become others as long."""
    return _NUMBER.sub(lambda found: "1" + names.shape(found[0].encode()).decode()[1:], text)


def _moved(number: str, names: Pseudonyms) -> str:
    return names.times.of_text(number.encode()).decode()


def json_words(text: str) -> set[str]:
    """The names in JSON, whole or broken: texts word by word, and bare words, without RocketMQ's members."""
    parts = _LITERAL.split(text)
    words = {word for part in parts[::2] for word in _BARE.findall(part)}
    words |= {_read(word[1]) for part in parts[1::2] for word in _WRITTEN_WORD.finditer(part) if word[1]}
    return words - _JSON_FIELDS


def _masked_literal(text: str, names: Pseudonyms) -> str:
    return _WRITTEN_WORD.sub(lambda word: _masked_written(word[1], names) if word[1] else word[0], text)


def _masked_written(word: str, names: Pseudonyms) -> str:
    """A word of a text as JSON writes it; what was escaped in it is escaped again."""
    read = _read(word)
    escaped = {place for place, one in enumerate(_WRITTEN_CHARACTER.finditer(word)) if one[1]}
    masked = enumerate(names.name(read))
    return "".join(f"\\u{ord(one):04x}" if place in escaped else one for place, one in masked)


def _read(word: str) -> str:
    """What a word of a text in JSON says."""
    return _WRITTEN_CHARACTER.sub(lambda one: one[2] or chr(int(one[1], 16)), word)


def mask_words(text: str, names: Pseudonyms) -> str:
    """A text of JSON, or the name of a member, masked name by name; RocketMQ's own members stay."""
    return text if text in _JSON_FIELDS else _masked_words(_WORD, text, names)


def _masked_words(words: re.Pattern[str], text: str, names: Pseudonyms) -> str:
    return words.sub(lambda word: word[0] if word[0] in _JSON_FIELDS else names.name(word[0]), text)


_JSON_FIELDS_TEXT = (
    "dataVersion counter stateVersion timestamp topicConfigTable topicName readQueueNums "
    "writeQueueNums perm topicFilterType topicSysFlag order attributes subscriptionGroupTable "
    "forbiddenTable groupName brokerId consumeEnable consumeFromMinEnable consumeBroadcastEnable "
    "consumeMessageOrderly retryQueueNums retryMaxTimes groupRetryPolicy type "
    "whichBrokerWhenConsumeSlowly notifyConsumerIdsChangedEnable groupSysFlag "
    "consumeTimeoutMinute subscriptionDataSet offsetTable pullOffsetTable resetOffsetTable "
    "filterDataByTopic filterData clientId consumerGroup expressionType bloomFilterData bornTime "
    "clientVersion compiledExpression deadTime expression topic queueOffsetMap SINGLE_TAG "
    "MULTI_TAG CUSTOMIZED EXPONENTIAL message.type cleanup.policy queue.type +message.type "
    "+cleanup.policy +queue.type NORMAL FIFO DELAY TRANSACTION MIXED UNSPECIFIED COMPACTION "
    "DELETE SimpleCQ BatchCQ bitNum bitPos true false null"
)
_JSON_FIELDS = frozenset(_JSON_FIELDS_TEXT.split())
_TABLES_TEXT = (
    "dataVersion counter topicConfigTable attributes subscriptionGroupTable forbiddenTable groupRetryPolicy "
    "subscriptionDataSet offsetTable pullOffsetTable resetOffsetTable filterDataByTopic filterData "
    "bloomFilterData queueOffsetMap compiledExpression"
)
_TABLES = frozenset(_TABLES_TEXT.split())
"""Members with further members in them."""
_BODY_MEMBERS = frozenset(
    ["so", "bm", "n", "q", "t", "c", "ro", "it", "d", "sn", "bn", "rp", "ao", "pt", "qo"]
)
"""Members of the messages that consumption by pop leaves behind."""
