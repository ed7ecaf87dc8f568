"""The bytes of a record with others in the places of what is said in it. Reference 2.2, 2.7.

Checksums are moved, not computed again: CRC32 is linear, so that the difference between the old bytes and the
new ones is also the difference of their checksums. A checksum that was wrong stays wrong by the same bits.

JSON with its texts masked, whole or broken: RocketMQ's own words and numbers stay.
"""

from __future__ import annotations

import hmac
import re
import zlib
from collections.abc import Iterator

from rocketfsck.formats.properties import CRC32, PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.writer.mask.moved import move_record
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


_KEPT_VALUES_TEXT = (
    "WAIT DELAY REAL_QID TRAN_MSG INNER_NUM INNER_BASE INNER_MULTI_QUEUE_OFFSET TIMER_OUT_MS "
    "TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DELAY_MS TIMER_ROLL_TIMES TIMER_ENQUEUE_MS "
    "TIMER_DEQUEUE_MS RECONSUME_TIME MAX_RECONSUME_TIMES CONSUME_START_TIME MIN_OFFSET "
    "MAX_OFFSET 1ST_POP_TIME TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS "
    "TRANSACTION_PREPARED_QUEUE_OFFSET TRACE_ON __CRC32# DLQ_ORIGIN_QUEUE_ID"
)
KEPT_VALUES = frozenset(_KEPT_VALUES_TEXT.split())
"""System properties whose values are numbers and switches; what is neither is masked."""
TIME_VALUES = frozenset({"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "CONSUME_START_TIME", "1ST_POP_TIME"})
DUE_VALUES = frozenset({"TIMER_OUT_MS", "TIMER_DELIVER_MS"})
"""Properties with the time (ms) at which a timer is due: moved with all others, never rounded."""
REGION = ("MSG_REGION", "DefaultRegion")
"""The region that RocketMQ itself names."""
_PLAIN = re.compile(r"[0-9]{1,20}(?:[,; ][0-9]{1,20})*|-1|true|false|", re.ASCII | re.IGNORECASE)
_NAMED_VALUES_TEXT = (
    "KEYS TAGS RETRY_TOPIC REAL_TOPIC PGROUP UNIQ_KEY CLUSTER __transactionId__ "
    "TIMER_DEL_UNIQKEY POP_CK INNER_MULTI_DISPATCH DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID "
    "ORIGIN_MESSAGE_ID __SHARDINGKEY INSTANCE_ID ORIGIN_GROUP MSG_REGION"
)
NAMED_VALUES = frozenset(_NAMED_VALUES_TEXT.split())
"""Properties whose values are names, or lists of them: they become pseudonyms."""
_KEPT_BODIES = (b"RMQ_SYS_TRANS_OP_HALF_TOPIC", b"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
_JSON_BODIES = (b"rmq_sys_REVIVE_LOG_", b"rmq_sys_SYNC_BROKER_MEMBER")
_COMPRESSED = 0x1
_BORN_V6, _STORE_V6 = 0x10, 0x20
_FRAME, _BODY_FILL = 88, b"x"
_HOSTS_AT = 48
_ZLIB, _LZ4, _ZSTD = b"\x78", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"
_FORMATS = ((_ZLIB, 6, 5, 65535), (_LZ4, 11, 4, 65536), (_ZSTD, 6, 3, 65536))
_NO_FORMAT = (b"", 0, 0, 0)
"""How a compressed body begins, its bytes around all blocks, those before each, the most that one holds."""


def masked_body(body: bytes, topic: bytes, sys_flag: int, names: Pseudonyms) -> bytes:
    """A body of the same length that says nothing; a compressed one can be decompressed, as before."""
    if topic.startswith(_KEPT_BODIES):
        return body  # queue offsets
    if topic.startswith(_JSON_BODIES):
        try:
            return mask_json(body.decode("utf-8"), names).encode("utf-8")
        except UnicodeDecodeError:
            return names.noise(body)
    if sys_flag & _COMPRESSED:
        return _stored(body) or names.noise(body)
    return _inner_batch(body, names) or _BODY_FILL * len(body)


def _stored(body: bytes) -> bytes | None:
    """The same length, in the same format, of blocks that are stored as they are; None where that fails."""
    kind, around, head, most = next((each for each in _FORMATS if body.startswith(each[0])), _NO_FORMAT)
    blocks = _split(len(body) - around, head, most) if kind else None
    if blocks is None:
        return None
    made = b""
    for number, length in enumerate(blocks):
        last = number == len(blocks) - 1
        if kind == _ZLIB:
            made += bytes([last]) + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little")
        elif kind == _LZ4:
            made += (length | 1 << 31).to_bytes(4, "little")
        else:
            made += (length << 3 | last).to_bytes(3, "little")
        made += _BODY_FILL * length
    if kind == _ZLIB:
        return b"\x78\x01" + made + zlib.adler32(_BODY_FILL * sum(blocks)).to_bytes(4, "big")
    return _LZ4 + b"\x60\x40\x82" + made + bytes(4) if kind == _LZ4 else _ZSTD + b"\x00\x58" + made


def _split(size: int, head: int, most: int) -> list[int] | None:
    """The lengths of blocks that fill `size` bytes with their heads; None where there is no room."""
    blocks = []
    while size > head:
        length = min(size - head, most)
        if 0 < size - head - length <= head:
            length -= head
        blocks.append(length)
        size -= head + length
    return blocks if blocks and size == 0 else None


def _inner_batch(body: bytes, names: Pseudonyms) -> bytes | None:
    """The messages of an inner batch, one by one; None for a body that is not one."""
    made = bytearray(body)
    pos = 0
    while pos < len(body):
        total = int.from_bytes(body[pos : pos + 4], "big")
        length = int.from_bytes(body[pos + 16 : pos + 20], "big")
        start, end = pos + 20, pos + 20 + length
        size = int.from_bytes(body[end : end + 2], "big")
        if total < 22 or pos + total > len(body) or 22 + length + size != total:
            return None
        made[start:end] = _BODY_FILL * length
        crc = slice(pos + 8, pos + 12)
        made[crc] = moved_crc(body[crc], body[start:end], bytes(made[start:end]))
        made[end + 2 : pos + total] = masked_properties(body[end + 2 : pos + total], names)
        pos += total
    return bytes(made) if body else None


def moved_crc(stored: bytes, old: bytes, new: bytes) -> bytes:
    """The checksum field (31 bits) for new bytes, as wrong as it was. A 0 that is not a checksum stays."""
    value = int.from_bytes(stored, "big")
    if value == 0 and zlib.crc32(old) & 0x7FFFFFFF:
        return stored
    return (value ^ (zlib.crc32(old) ^ zlib.crc32(new)) & 0x7FFFFFFF).to_bytes(4, "big")


def is_kept(name: str, value: str) -> bool:
    """Whether a property says nothing of its user: a number or a switch of RocketMQ, or its own region."""
    return (name, value) == REGION or (name in KEPT_VALUES and _PLAIN.fullmatch(value) is not None)


def masked_properties(data: bytes, names: Pseudonyms) -> bytes:
    """Properties as they are written, with others of the same length as their values."""
    return b"\x02".join(_pairs(data, names))


def _pairs(data: bytes, names: Pseudonyms) -> Iterator[bytes]:
    for pair in data.split(b"\x02"):
        name, equals, value = pair.partition(b"\x01")
        known = name.decode("utf-8", "replace")
        if not equals:
            yield names.shape(pair)
        elif is_kept(known, value.decode("utf-8", "replace")):
            yield name + equals + _moved_value(known, value, names)
        elif known in KEPT_VALUES:
            yield name + equals + names.shape(value)
        elif known in NAMED_VALUES:
            separator = b"," if known == "INNER_MULTI_DISPATCH" else b" "
            yield name + equals + separator.join(map(names.raw, value.split(separator)))
        else:
            yield names.shape(name) + equals + names.shape(value)


def _moved_value(name: str, value: bytes, names: Pseudonyms) -> bytes:
    if name in TIME_VALUES or name in DUE_VALUES:
        return names.times.of_text(value, rounded=name in TIME_VALUES)
    return value


def mask_hosts(record: bytearray, sys_flag: int, names: Pseudonyms) -> None:
    """Other addresses for the hosts of a record's frame; ports stay, and so do 0.0.0.0 and 127.0.0.1."""
    born = 16 if sys_flag & _BORN_V6 else 4
    store = 16 if sys_flag & _STORE_V6 else 4
    at = _HOSTS_AT + born + 4 + 8
    for start, size in ((_HOSTS_AT, born), (at, store)):
        address = bytes(record[start : start + size])
        if len(address) == size:
            record[start : start + size] = masked_address(address, names.secret)


def masked_address(address: bytes, secret: bytes) -> bytes:
    """Another address of the same length, 4 or 16 bytes: one of a private network; local ones stay."""
    if address.strip(b"\0") in (b"", b"\x7f\0\0\x01", b"\x01"):
        return address
    head = b"\x0a" if len(address) == 4 else b"\xfd\0"
    return head + hmac.digest(secret, address, "sha256")[: len(address) - len(head)]


def mask_record(
    record: bytearray,
    *,
    sys_flag: int,
    body: tuple[int, int],
    topic: tuple[int, int],
    properties: tuple[int, int],
    names: Pseudonyms,
) -> None:
    """Mask a sound frame in place; `body`, `topic` and `properties` are (start, end) in it."""
    before = bytes(record)
    name = before[slice(*topic)]
    record[slice(*topic)] = names.raw(name)
    old = before[slice(*body)]
    new = masked_body(old, name, sys_flag, names)
    record[slice(*body)] = new
    record[8:12] = moved_crc(before[8:12], old, new) if old else before[8:12]
    record[slice(*properties)] = masked_properties(before[slice(*properties)], names)
    mask_hosts(record, sys_flag, names)
    move_record(record, sys_flag, names.times)
    trailer = property_crc_trailer(property_crc(before))
    if before.endswith(trailer) and CRC32.encode() in before[-PROPERTY_CRC_SIZE:]:
        record[-PROPERTY_CRC_SIZE:] = property_crc_trailer(property_crc(bytes(record)))


def mask_rest(data: bytes, names: Pseudonyms) -> bytes:
    """Bytes that belong to no sound record: the frames of records stay, all else becomes noise.

    The first bytes of what was once a record are its frame, also where its magic code is damaged.
    """
    made = bytearray(names.noise(data))
    starts = {0}
    for magic in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xa8"):
        at = data.find(magic)
        while at >= 0:
            starts.add(at - 4)
            at = data.find(magic, at + 1)
    for start in sorted(start for start in starts if start >= 0):
        _keep_frame(data, made, start, names)
    return bytes(made)


def _keep_frame(data: bytes, made: bytearray, start: int, names: Pseudonyms) -> None:
    frame = bytearray(data[start : start + _FRAME])
    flags = int.from_bytes(frame[36:40], "big")
    wide = (12 if flags & _BORN_V6 else 0) + (12 if flags & _STORE_V6 else 0)
    frame = bytearray(data[start : start + _FRAME + wide])
    mask_hosts(frame, flags, names)
    move_record(frame, flags, names.times)
    made[start : start + len(frame)] = frame
    topic_at = start + _FRAME + wide + int.from_bytes(frame[-4:], "big")
    width = 2 if frame[4:8] == b"\xda\xa3\x20\xa8" else 1
    topic_size = int.from_bytes(data[topic_at : topic_at + width], "big")
    for at, size in ((topic_at, width), (topic_at + width + topic_size, 2)):
        if at + size <= len(data):
            made[at : at + size] = data[at : at + size]
