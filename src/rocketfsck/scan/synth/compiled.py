# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)
"""Made-up messages, compiled: whole records with bodies, CRCs and properties (reference 2.1, 2.5).

What a message is says `draws`, whose functions are compiled here. `make_records` gets everything in arrays of
int64, whose places have names here, and never writes outside the buffer that it was given: it stops before a
record that may not fit.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from rocketfsck.scan.machine.compiler import intrinsic, ir, types
from rocketfsck.scan.machine.intrinsics import (
    I64,
    call_crc,
    load_u8,
    native_i64,
    store_i64,
    store_u8,
)
from rocketfsck.scan.machine.jit import entry, inlined
from rocketfsck.scan.synth import draws
from rocketfsck.scan.synth.draws import (
    DAY,
    DRAW_BODY,
    DRAW_BORN,
    DRAW_PRODUCER,
    DRAW_QUEUE,
    DRAW_TAG,
    DRAW_TOPIC,
    TEXT,
)

MAGIC = 0xDAA320A7
HEAD_SIZE = 88  # up to the body
CRC_MASK = 0x7FFFFFFF
SLACK = 64  # bytes that a body's last store may write past its end
FRAGMENT_MASK = 63

# what `make_records` is told
(
    P_SEED,  # the seed, mixed
    P_STEP_SEED,
    P_START_TIME,
    P_RATE,
    P_STEP_EVERY,
    P_STEP_MOST,
    P_TOPIC_COUNT,
    P_QUEUE_COUNT,  # of a topic
    P_BODY_LOW,
    P_BODY_HIGH,
    P_BODY_OCTAVES,
    P_CONTENT,  # 0 random, 1 text, 2 both
    P_KEY_LOW,
    P_KEY_HIGH,
    P_WORD_COUNT,
    P_WORDS_BY_RANK,
    P_TAG_COUNT,
    P_PRODUCER_COUNT,
    P_BORN_LIMIT,
    P_STORE_HOST,  # address and port
    P_LARGEST,  # bytes of the largest record
    P_TRAILING,  # 1: 0x02 behind the last property
    P_FILE_SIZE,
    P_END_NUMBER,  # no message from this number on
    P_END_OFFSET,  # none once a record ends at this physical offset or behind it
    P_EXTERNAL,  # CRC
    P_CAPACITY,  # bytes of the buffer
    P_ROWS,  # rows of the record columns
    P_KEY_ROWS,
) = range(29)
PARAMETERS = 29

# what it keeps from call to call
(
    S_NUMBER,  # of the next message
    S_OFFSET,  # physical offset of the next record
    S_STEPPED,  # ms that the clock has stepped
    S_STEP_NUMBER,  # of the message that the last step was taken for
    S_USED,  # bytes of the buffer
    S_KEYS,  # key rows
    S_MONTH_START,
    S_MONTH_END,
    S_NEEDED,  # size of the record that did not fit in its file
    S_END,  # physical offset behind the last record (S_OFFSET may be that of a new file)
) = range(10)
STATE = 10

# properties, as numbers in the table of their order
UNIQUE, KEYS, TAGS, FIXED_FIRST = 0, 1, 2, 3

STOP_BUFFER, STOP_END, STOP_FILE = 0, 1, 2


def _compiled_draws() -> dict[str, Any]:
    """The functions of `draws`, compiled, each of which calls the compiled ones."""
    names = dict(vars(draws))
    for name, function in vars(draws).items():
        if isinstance(function, FunctionType):
            names[name] = inlined(FunctionType(function.__code__, names, name))
    return names


_DRAWS = _compiled_draws()
draw, below, choose = _DRAWS["draw"], _DRAWS["below"], _DRAWS["choose"]
drawn_body_size, drawn_content = _DRAWS["drawn_body_size"], _DRAWS["drawn_content"]
drawn_word, drawn_word_count = _DRAWS["drawn_word"], _DRAWS["drawn_word_count"]
drawn_step, month_start = _DRAWS["drawn_step"], _DRAWS["month_start"]


@intrinsic
def store_be32(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Stores the low 32 bits of a number, big-endian."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        swapped = builder.bswap(builder.trunc(args[1], ir.IntType(32)))
        builder.store(swapped, builder.inttoptr(args[0], ir.IntType(32).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def store_be64(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Stores a number of 64 bits, big-endian."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        builder.store(builder.bswap(args[1]), builder.inttoptr(args[0], I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@inlined
def fill_random(at: int, size: int, key: Any) -> None:
    """Random bytes; up to 7 more than `size`."""
    for word in range((size + 7) >> 3):
        store_i64(at + 8 * word, np.int64(draw(key, word)))


@inlined
def fill_text(at: int, size: int, key: Any, fragments: int) -> None:
    """Text of fragments of 8 bytes; up to 63 bytes more than `size`."""
    for word in range((size + 63) >> 6):
        value = np.int64(draw(key, word))
        for place in range(8):
            chosen = (value >> (8 * place)) & FRAGMENT_MASK
            store_i64(at + 64 * word + 8 * place, native_i64(fragments + 8 * chosen))


@inlined
def copy_bytes(target: int, source: int, size: int) -> int:
    """Copies byte by byte, for names of a few bytes; the place behind."""
    for index in range(size):
        store_u8(target + index, load_u8(source + index))
    return target + size


@inlined
def put_hex(at: int, value: int, digits: int) -> int:
    for index in range(digits):
        nibble = (value >> (4 * (digits - 1 - index))) & 15
        store_u8(at + index, nibble + (48 if nibble < 10 else 55))
    return at + digits


@inlined
def put_decimal(at: int, value: int) -> int:
    digits = 1
    power = 10
    while value >= power:
        power *= 10
        digits += 1
    for index in range(digits - 1, -1, -1):
        store_u8(at + index, 48 + value % 10)
        value //= 10
    return at + digits


@inlined
def java_hash(start: int, at: int, end: int) -> int:
    """The Java hash of a text whose beginning has the hash `start`, behind it ASCII bytes; 64 bits."""
    value = start
    for place in range(at, end):
        value = (31 * value + load_u8(place)) & 0xFFFFFFFF
    return value


@inlined
def index_hash(value: int) -> int:
    """The key's hash in the index: its absolute value as an int, 0 for the least one."""
    if value < 0x80000000:
        return value
    return 0 if value == 0x80000000 else 0x100000000 - value


@entry
def make_records(
    parameters: Any,
    state: Any,
    buffer: int,
    thresholds: Any,
    aliases: Any,
    topic_place: Any,
    topic_bytes: int,
    topic_hash: Any,
    producers: Any,
    prefixes: int,
    tag_place: Any,
    tag_bytes: int,
    tag_codes: Any,
    order: Any,
    name_place: Any,
    name_bytes: int,
    word_prefix_size: int,
    fragments: int,
    next_offset: Any,
    record_queue: Any,
    record_size: Any,
    record_offset: Any,
    record_time: Any,
    record_tags: Any,
    key_hash: Any,
    key_record: Any,
) -> tuple[int, int]:
    """Writes records into the buffer and a row of each into the columns; how many, and why it stopped.

    `…_place` are the bounds of the pieces in the bytes of that name: of topics, of tags, and of the
    properties' names with 0x01 behind (whole pairs from FIXED_FIRST on; the last piece is the prefix of
    words). `producers` are address and port in one number, `prefixes` the first 20 digits of their uniqIDs.
    """
    capacity = parameters[P_CAPACITY]
    largest = parameters[P_LARGEST] + SLACK
    low = buffer
    seed = np.uint64(parameters[P_SEED])
    step_every = parameters[P_STEP_EVERY]
    used = 0
    keys = 0
    row = 0
    stop = STOP_BUFFER
    while True:
        number = state[S_NUMBER]
        if number >= parameters[P_END_NUMBER] or state[S_END] >= parameters[P_END_OFFSET]:
            stop = STOP_END
            break
        if used + largest > capacity or row >= parameters[P_ROWS]:
            break
        if keys + 1 + parameters[P_KEY_HIGH] > parameters[P_KEY_ROWS]:
            break
        key = draw(seed, number)
        topic = choose(draw(key, DRAW_TOPIC), thresholds, aliases)
        queue_id = below(draw(key, DRAW_QUEUE), parameters[P_QUEUE_COUNT])
        queue = topic * parameters[P_QUEUE_COUNT] + queue_id
        if step_every > 0 and number > 0 and number % step_every == 0 and state[S_STEP_NUMBER] != number:
            state[S_STEPPED] += drawn_step(parameters[P_STEP_SEED], number, parameters[P_STEP_MOST])
            state[S_STEP_NUMBER] = number
        stored = parameters[P_START_TIME] + number * 1000 // parameters[P_RATE] + state[S_STEPPED]
        stored = max(stored, 0)
        born = max(stored - below(draw(key, DRAW_BORN), parameters[P_BORN_LIMIT]), 0)
        if born < state[S_MONTH_START] or born >= state[S_MONTH_END]:
            state[S_MONTH_START] = month_start(born)
            state[S_MONTH_END] = month_start(state[S_MONTH_START] + 32 * DAY)
        producer = below(draw(key, DRAW_PRODUCER), parameters[P_PRODUCER_COUNT])

        # body
        body_size = drawn_body_size(
            key, parameters[P_BODY_LOW], parameters[P_BODY_HIGH], parameters[P_BODY_OCTAVES]
        )
        record = low + used
        body = record + HEAD_SIZE
        body_key = draw(key, DRAW_BODY)
        if drawn_content(key, parameters[P_CONTENT]) == TEXT:
            fill_text(body, body_size, body_key, fragments)
        else:
            fill_random(body, body_size, body_key)
        crc = 0
        if body_size > 0:
            crc = call_crc(parameters[P_EXTERNAL], body, body_size) & CRC_MASK

        # topic and properties
        at = body + body_size
        topic_size = topic_place[topic + 1] - topic_place[topic]
        store_u8(at, topic_size)
        at = copy_bytes(at + 1, topic_bytes + topic_place[topic], topic_size)
        properties = at + 2
        at = properties
        hashed = topic_hash[topic]
        first_key = keys
        keys += 1
        word_count = 0
        tag = below(draw(key, DRAW_TAG), parameters[P_TAG_COUNT] + 1)
        for slot in range(len(order)):
            name = order[slot]
            if name == UNIQUE:
                at = copy_bytes(at, name_bytes + name_place[name], name_place[name + 1] - name_place[name])
                start = at
                at = copy_bytes(at, prefixes + 20 * producer, 20)
                at = put_hex(at, born - state[S_MONTH_START], 8)
                at = put_hex(at, number & 0xFFFF, 4)
                key_hash[first_key] = index_hash(java_hash(hashed, start, at))
                key_record[first_key] = row
            elif name == KEYS:
                word_count = drawn_word_count(key, parameters[P_KEY_LOW], parameters[P_KEY_HIGH])
                if word_count == 0:
                    continue
                at = copy_bytes(at, name_bytes + name_place[name], name_place[name + 1] - name_place[name])
                prefix = name_bytes + name_place[len(name_place) - 2]
                for place in range(word_count):
                    if place > 0:
                        store_u8(at, 32)
                        at += 1
                    word = drawn_word(key, place, parameters[P_WORD_COUNT], parameters[P_WORDS_BY_RANK])
                    start = at
                    at = put_decimal(copy_bytes(at, prefix, word_prefix_size), word)
                    key_hash[keys] = index_hash(java_hash(hashed, start, at))
                    key_record[keys] = row
                    keys += 1
            elif name == TAGS:
                if tag == 0:
                    continue
                at = copy_bytes(at, name_bytes + name_place[name], name_place[name + 1] - name_place[name])
                at = copy_bytes(at, tag_bytes + tag_place[tag], tag_place[tag + 1] - tag_place[tag])
            else:
                at = copy_bytes(at, name_bytes + name_place[name], name_place[name + 1] - name_place[name])
            store_u8(at, 2)
            at += 1
        if parameters[P_TRAILING] == 0:
            at -= 1
        properties_size = at - properties
        store_u8(properties - 2, properties_size >> 8)
        store_u8(properties - 1, properties_size & 0xFF)
        size = at - record

        if state[S_OFFSET] % parameters[P_FILE_SIZE] + size + 8 > parameters[P_FILE_SIZE]:
            state[S_NEEDED] = size
            keys = first_key
            stop = STOP_FILE
            break

        # head
        store_be32(record, size)
        store_be32(record + 4, MAGIC)
        store_be32(record + 8, crc)
        store_be32(record + 12, queue_id)
        store_be32(record + 16, 0)
        store_be64(record + 20, next_offset[queue])
        store_be64(record + 28, state[S_OFFSET])
        store_be32(record + 36, 0)
        store_be64(record + 40, born)
        store_be64(record + 48, producers[producer])
        store_be64(record + 56, stored)
        store_be64(record + 64, parameters[P_STORE_HOST])
        store_be32(record + 72, 0)
        store_be64(record + 76, 0)
        store_be32(record + 84, body_size)

        record_queue[row] = queue
        record_size[row] = size
        record_offset[row] = state[S_OFFSET]
        record_time[row] = stored
        record_tags[row] = tag_codes[tag]
        next_offset[queue] += 1
        state[S_OFFSET] += size
        state[S_END] = state[S_OFFSET]
        state[S_NUMBER] = number + 1
        used += size
        row += 1
    state[S_USED] = used
    state[S_KEYS] = keys
    return row, stop
