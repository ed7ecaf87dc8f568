# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)
"""Made-up messages, compiled: whole records with bodies, CRCs and properties; units; index entries.

The rules are those of the writer's synthesis (a counter-based generator in 64-bit integers, stated there);
the records, units and entries are those of reference 2.1, 3.1 and 4.4. A kernel is told everything in arrays
of int64, whose places are named here, and never writes outside the buffer that it was given: `make_records`
stops before a record that may not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rocketfsck.scan.compiler import intrinsic, ir, types
from rocketfsck.scan.intrinsics import (
    I64,
    call_crc,
    load_u8,
    native_i32,
    native_i64,
    prefetch,
    store_i32,
    store_i64,
    store_u8,
)
from rocketfsck.scan.jit import entry, helper, inlined
from rocketfsck.scan.kernels_index import BLOCK, ENTRY_SIZE, expected_time_diff, slot_of

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)

MAGIC = 0xDAA320A7
HEAD_SIZE = 88  # up to the body
UNIT_SIZE = 20
DAY = 86_400_000
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

# what a message's numbers are drawn for
(
    _KIND,
    TOPIC,
    QUEUE,
    SIZE,
    SIZE_IN_OCTAVE,
    BODY,
    CONTENT,
    TAG,
    KEY_COUNT,
    PRODUCER,
    BORN,
) = range(11)
FIRST_WORD = 16

# properties, as numbers in the table of their order
UNIQUE, KEYS, TAGS, FIXED_FIRST = 0, 1, 2, 3

STOP_BUFFER, STOP_END, STOP_FILE = 0, 1, 2


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
def mix(value: Any) -> Any:
    """SplitMix64's finaliser; unsigned 64 bits throughout."""
    value = (value ^ (value >> np.uint64(30))) * FIRST_FACTOR
    value = (value ^ (value >> np.uint64(27))) * SECOND_FACTOR
    return value ^ (value >> np.uint64(31))


@inlined
def draw(key: Any, number: int) -> Any:
    return mix(key + np.uint64(number + 1) * GOLDEN)


@inlined
def below(value: Any, limit: int) -> int:
    return np.int64(((value >> HALF) * np.uint64(limit)) >> HALF)


@inlined
def bit_length(value: int) -> int:
    count = 0
    while value > 0:
        value >>= 1
        count += 1
    return count


@inlined
def in_octave(value: Any, second: Any, low: int, high: int) -> int:
    count = max(bit_length(high // low) - 1, 1)
    octave = below(value, count)
    start = low << octave
    end = high + 1 if octave == count - 1 else 2 * start
    return start + below(second, end - start)


@helper
def month_start(timestamp: int) -> int:
    days = timestamp // DAY
    day_of_era = (days + 719_468) % 146_097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    return (days - (day_of_year - (153 * month + 2) // 5)) * DAY


@inlined
def fill_random(at: int, size: int, key: Any) -> None:
    """Random bytes; up to 7 more than `size`."""
    for word in range((size + 7) >> 3):
        store_i64(at + 8 * word, np.int64(mix(key + np.uint64(word + 1) * GOLDEN)))


@inlined
def fill_text(at: int, size: int, key: Any, fragments: int) -> None:
    """Text of fragments of 8 bytes; up to 63 bytes more than `size`."""
    for word in range((size + 63) >> 6):
        value = np.int64(mix(key + np.uint64(word + 1) * GOLDEN))
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
        key = mix(seed + np.uint64(number + 1) * GOLDEN)
        chosen = draw(key, TOPIC)
        topic = below(chosen, parameters[P_TOPIC_COUNT])
        if np.int64(chosen & LOW_HALF) >= thresholds[topic]:
            topic = aliases[topic]
        queue_id = below(draw(key, QUEUE), parameters[P_QUEUE_COUNT])
        queue = topic * parameters[P_QUEUE_COUNT] + queue_id
        if step_every > 0 and number > 0 and number % step_every == 0 and state[S_STEP_NUMBER] != number:
            most = parameters[P_STEP_MOST]
            step = below(draw(np.uint64(parameters[P_STEP_SEED]), number), 2 * most + 1) - most
            state[S_STEPPED] += step
            state[S_STEP_NUMBER] = number
        stored = parameters[P_START_TIME] + number * 1000 // parameters[P_RATE] + state[S_STEPPED]
        stored = max(stored, 0)
        born = max(stored - below(draw(key, BORN), parameters[P_BORN_LIMIT]), 0)
        if born < state[S_MONTH_START] or born >= state[S_MONTH_END]:
            state[S_MONTH_START] = month_start(born)
            state[S_MONTH_END] = month_start(state[S_MONTH_START] + 32 * DAY)
        producer = below(draw(key, PRODUCER), parameters[P_PRODUCER_COUNT])

        # body
        if parameters[P_BODY_OCTAVES] != 0:
            first, second = draw(key, SIZE), draw(key, SIZE_IN_OCTAVE)
            body_size = in_octave(first, second, parameters[P_BODY_LOW], parameters[P_BODY_HIGH])
        else:
            span = parameters[P_BODY_HIGH] - parameters[P_BODY_LOW] + 1
            body_size = parameters[P_BODY_LOW] + below(draw(key, SIZE), span)
        content = parameters[P_CONTENT]
        if content == 2:
            content = below(draw(key, CONTENT), 2)
        record = low + used
        body = record + HEAD_SIZE
        body_key = draw(key, BODY)
        if content == 1:
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
        tag = below(draw(key, TAG), parameters[P_TAG_COUNT] + 1)
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
                span = parameters[P_KEY_HIGH] - parameters[P_KEY_LOW] + 1
                word_count = parameters[P_KEY_LOW] + below(draw(key, KEY_COUNT), span)
                if word_count == 0:
                    continue
                at = copy_bytes(at, name_bytes + name_place[name], name_place[name + 1] - name_place[name])
                prefix = name_bytes + name_place[len(name_place) - 2]
                for place in range(word_count):
                    if place > 0:
                        store_u8(at, 32)
                        at += 1
                    value = draw(key, FIRST_WORD + place)
                    if parameters[P_WORDS_BY_RANK] != 0:
                        word = in_octave(value, mix(value), 1, parameters[P_WORD_COUNT]) - 1
                    else:
                        word = below(value, parameters[P_WORD_COUNT])
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


@entry
def make_units(
    count: int,
    record_queue: Any,
    record_size: Any,
    record_offset: Any,
    record_tags: Any,
    starts: Any,
    out: int,
) -> None:
    """Writes the units of `count` records, those of a queue side by side: `starts` are the first unit's
    places by queue, and are moved on."""
    for row in range(count):
        queue = record_queue[row]
        at = out + UNIT_SIZE * starts[queue]
        starts[queue] += 1
        store_be64(at, record_offset[row])
        store_be32(at + 8, record_size[row])
        store_be64(at + 12, record_tags[row])


@entry
def make_entries(
    key_hash: Any,
    key_record: Any,
    first_key: int,
    count: int,
    record_offset: Any,
    record_time: Any,
    number: int,
    begin_timestamp: int,
    slot_count: int,
    factor: int,
    slots: int,
    scratch: int,
    out: int,
) -> int:
    """Puts `count` keys as index entries from `number` on; how many found their slot empty.

    `slots` are the file's, native int32; `scratch` has room for BLOCK numbers of 64 bits.
    """
    empty = 0
    base = 0
    while base < count:
        size = min(BLOCK, count - base)
        for index in range(size):
            slot = slot_of(key_hash[first_key + base + index], slot_count, factor)
            prefetch(slots + 4 * slot)
            store_i64(scratch + 8 * index, slot)
        for index in range(size):
            key = first_key + base + index
            row = key_record[key]
            at = out + ENTRY_SIZE * (base + index)
            slot = native_i64(scratch + 8 * index)
            entry_number = number + base + index
            previous = native_i32(slots + 4 * slot)
            if previous <= 0 or previous > entry_number:
                previous = 0
                empty += 1
            store_i32(slots + 4 * slot, entry_number)
            store_be32(at, key_hash[key])
            store_be64(at + 4, record_offset[row])
            store_be32(at + 12, expected_time_diff(record_time[row], begin_timestamp))
            store_be32(at + 16, previous)
        base += size
    return empty


@entry
def first_from(times: Any, start: int, count: int, limit: int) -> int:
    """The first row from `start` on whose time is at least `limit`, `count` if there is none."""
    for row in range(start, count):
        if times[row] >= limit:
            return row
    return count
