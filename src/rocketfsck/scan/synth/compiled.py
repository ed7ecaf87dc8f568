# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)
"""Made-up messages, compiled: whole records with bodies, CRCs and properties (reference 2.1, 2.5).

`draws` says what a message is; its functions are compiled here. `make_records` never writes outside the
buffer that it was given: it stops before a record that may not fit.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Final

import numpy as np

from rocketfsck.formats import columns as formats_columns
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.magic import MAGIC_V1
from rocketfsck.scan.machine import intrinsics
from rocketfsck.scan.machine.jit import entry, inlined
from rocketfsck.scan.synth import draws as synth_draws

MAGIC: Final = MAGIC_V1 & 0xFFFFFFFF
CRC_MASK = 0x7FFFFFFF
SLACK = 64  # bytes that a body's last store may write past its end
FRAGMENT_MASK = 63


# what is kept from call to call
(
    S_NUMBER,  # of the next message
    S_OFFSET,  # physical offset of the next record
    S_STEPPED,  # ms that the clock has stepped
    S_STEP_NUMBER,  # of the message before which the clock stepped last
    S_USED,  # bytes of the buffer
    S_KEYS,  # key rows
    S_MONTH_START,
    S_MONTH_END,
    S_NEEDED,  # size of the record that did not fit in its file
    S_END,  # physical offset after the last record (S_OFFSET may be that of a new file)
) = range(10)
STATE = 10

# properties, as numbers in the table of their order
UNIQUE, KEYS, TAGS, FIXED_FIRST = 0, 1, 2, 3
_T_HASH = 31 * ord("T") + ord("#")  # of what comes between "topic#" and the tags

STOP_BUFFER, STOP_END, STOP_FILE = 0, 1, 2


def _compiled_draws() -> dict[str, Any]:
    """The functions of `draws`, compiled, each of which calls the compiled ones."""
    names = dict(vars(synth_draws))
    for name, function in vars(synth_draws).items():
        if isinstance(function, FunctionType):
            names[name] = inlined(FunctionType(function.__code__, names, name))
    return names


_DRAWS = _compiled_draws()
draw, below, choose = _DRAWS["draw"], _DRAWS["below"], _DRAWS["choose"]
drawn_body_size, drawn_content = _DRAWS["drawn_body_size"], _DRAWS["drawn_content"]
drawn_word, drawn_word_count = _DRAWS["drawn_word"], _DRAWS["drawn_word_count"]
drawn_step, month_start = _DRAWS["drawn_step"], _DRAWS["month_start"]


@inlined
def fill_random(at: int, size: int, key: Any) -> None:
    """Random bytes; up to 7 more than `size`."""
    for word in range((size + 7) >> 3):
        intrinsics.store_i64(at + 8 * word, np.int64(draw(key, word)))


@inlined
def fill_text(at: int, size: int, key: Any, fragments: int) -> None:
    """Text of fragments of 8 bytes; up to 63 bytes more than `size`."""
    for word in range((size + 63) >> 6):
        value = np.int64(draw(key, word))
        for place in range(8):
            chosen = (value >> (8 * place)) & FRAGMENT_MASK
            intrinsics.store_i64(at + 64 * word + 8 * place, intrinsics.native_i64(fragments + 8 * chosen))


@inlined
def copy_bytes(target: int, source: int, size: int) -> int:
    """Copies byte by byte, for names of a few bytes; the place behind."""
    for index in range(size):
        intrinsics.store_u8(target + index, intrinsics.load_u8(source + index))
    return target + size


@inlined
def copy_piece(target: int, pieces: int, bounds: Longs, number: int) -> int:
    """Copies one of the pieces at address `pieces`; the place behind."""
    return copy_bytes(target, pieces + bounds[number], bounds[number + 1] - bounds[number])


@inlined
def put_hex(at: int, value: int, digits: int) -> int:
    for index in range(digits):
        nibble = (value >> (4 * (digits - 1 - index))) & 15
        intrinsics.store_u8(at + index, nibble + (48 if nibble < 10 else 55))
    return at + digits


@inlined
def put_decimal(at: int, value: int) -> int:
    digits = 1
    power = 10
    while value >= power:
        power *= 10
        digits += 1
    for index in range(digits - 1, -1, -1):
        intrinsics.store_u8(at + index, 48 + value % 10)
        value //= 10
    return at + digits


@inlined
def java_hash(start: int, at: int, end: int) -> int:
    """The Java hash of a text: the beginning has the hash `start`, ASCII bytes follow; 64 bits."""
    value = start
    for place in range(at, end):
        value = (31 * value + intrinsics.load_u8(place)) & 0xFFFFFFFF
    return value


@inlined
def index_hash(value: int) -> int:
    """The key's hash in the index: its absolute value as an int, 0 for the least one."""
    if value < 0x80000000:
        return value
    return 0 if value == 0x80000000 else 0x100000000 - value


@entry
def make_records(
    parameters: synth_draws.Parameters,
    words: synth_draws.Words,
    state: Longs,
    buffer: int,
    next_offset: Longs,
    columns: synth_draws.Columns,
) -> tuple[int, int]:
    """Writes records into the buffer and a row of each into the columns; how many, and why it stopped."""
    capacity = parameters.capacity
    largest = parameters.largest + SLACK
    low = buffer
    seed = np.uint64(parameters.seed)
    step_every = parameters.step_every
    prefix_at = words.name_place[len(words.name_place) - 2]
    prefix_size = words.name_place[len(words.name_place) - 1] - prefix_at
    used = 0
    keys = 0
    row = 0
    stop = STOP_BUFFER
    while True:
        number = state[S_NUMBER]
        if number >= parameters.end_number or state[S_END] >= parameters.end_offset:
            stop = STOP_END
            break
        if used + largest > capacity or row >= len(columns.queue):
            break
        if keys + 2 + parameters.key_high > len(columns.key_hash):
            break
        key = draw(seed, number)
        topic = choose(draw(key, synth_draws.DRAW_TOPIC), words.thresholds, words.aliases)
        queue_id = below(draw(key, synth_draws.DRAW_QUEUE), parameters.queue_count)
        queue = topic * parameters.queue_count + queue_id
        if step_every > 0 and number > 0 and number % step_every == 0 and state[S_STEP_NUMBER] != number:
            state[S_STEPPED] += drawn_step(parameters.step_seed, number, parameters.step_most)
            state[S_STEP_NUMBER] = number
        stored = parameters.start_time + number * 1000 // parameters.rate + state[S_STEPPED]
        stored = max(stored, 0)
        born = max(stored - below(draw(key, synth_draws.DRAW_BORN), parameters.born_limit), 0)
        if born < state[S_MONTH_START] or born >= state[S_MONTH_END]:
            state[S_MONTH_START] = month_start(born)
            state[S_MONTH_END] = month_start(state[S_MONTH_START] + 32 * synth_draws.DAY)
        producer = below(draw(key, synth_draws.DRAW_PRODUCER), parameters.producer_count)

        # body
        body_size = drawn_body_size(key, parameters.body_low, parameters.body_high, parameters.body_octaves)
        record = low + used
        body = record + formats_columns.BODY_AT
        body_key = draw(key, synth_draws.DRAW_BODY)
        if drawn_content(key, parameters.content) == synth_draws.TEXT:
            fill_text(body, body_size, body_key, words.fragments)
        else:
            fill_random(body, body_size, body_key)
        crc = 0
        if body_size > 0:
            crc = intrinsics.call_crc(parameters.external, body, body_size) & CRC_MASK

        # topic and properties
        at = body + body_size
        topic_at = at + 1
        at = copy_piece(topic_at, words.topic_bytes, words.topic_place, topic)
        intrinsics.store_u8(topic_at - 1, at - topic_at)
        properties = at + 2
        at = properties
        hashed = words.topic_hash[topic]
        first_key = keys
        keys += 1
        word_count = 0
        tag = below(draw(key, synth_draws.DRAW_TAG), parameters.tag_count + 1)
        for slot in range(len(words.order)):
            name = words.order[slot]
            if name == UNIQUE:
                at = copy_piece(at, words.name_bytes, words.name_place, name)
                start = at
                at = copy_bytes(at, words.prefixes + 20 * producer, 20)
                at = put_hex(at, born - state[S_MONTH_START], 8)
                at = put_hex(at, number & 0xFFFF, 4)
                columns.key_hash[first_key] = index_hash(java_hash(hashed, start, at))
                columns.key_record[first_key] = row
            elif name == KEYS:
                word_count = drawn_word_count(key, parameters.key_low, parameters.key_high)
                if word_count == 0:
                    continue
                at = copy_piece(at, words.name_bytes, words.name_place, name)
                prefix = words.name_bytes + prefix_at
                for place in range(word_count):
                    if place > 0:
                        intrinsics.store_u8(at, 32)
                        at += 1
                    word = drawn_word(key, place, parameters.word_count, parameters.words_by_rank)
                    start = at
                    at = put_decimal(copy_bytes(at, prefix, prefix_size), word)
                    columns.key_hash[keys] = index_hash(java_hash(hashed, start, at))
                    columns.key_record[keys] = row
                    keys += 1
            elif name == TAGS:
                if tag == 0:
                    continue
                at = copy_piece(at, words.name_bytes, words.name_place, name)
                at = copy_piece(at, words.tag_bytes, words.tag_place, tag)
            else:
                at = copy_piece(at, words.name_bytes, words.name_place, name)
            intrinsics.store_u8(at, 2)
            at += 1
        if parameters.trailing == 0:
            at -= 1
        if parameters.index_tags != 0 and tag != 0:
            start = words.tag_bytes + words.tag_place[tag]
            end = words.tag_bytes + words.tag_place[tag + 1]
            value = (hashed * 31**2 + _T_HASH) & 0xFFFFFFFF
            columns.key_hash[keys] = index_hash(java_hash(value, start, end))
            columns.key_record[keys] = row
            keys += 1
        properties_size = at - properties
        intrinsics.store_u8(properties - 2, properties_size >> 8)
        intrinsics.store_u8(properties - 1, properties_size & 0xFF)
        size = at - record

        if state[S_OFFSET] % parameters.file_size + size + 8 > parameters.file_size:
            state[S_NEEDED] = size
            keys = first_key
            stop = STOP_FILE
            break

        # head
        intrinsics.store_be32(record, size)
        intrinsics.store_be32(record + formats_columns.MAGIC_CODE_AT, MAGIC)
        intrinsics.store_be32(record + formats_columns.BODY_CRC_AT, crc)
        intrinsics.store_be32(record + formats_columns.QUEUE_ID_AT, queue_id)
        intrinsics.store_be32(record + formats_columns.FLAG_AT, 0)
        intrinsics.store_be64(record + formats_columns.QUEUE_OFFSET_AT, next_offset[queue])
        intrinsics.store_be64(record + formats_columns.PHYSICAL_OFFSET_AT, state[S_OFFSET])
        intrinsics.store_be32(record + formats_columns.SYS_FLAG_AT, 0)
        intrinsics.store_be64(record + formats_columns.BORN_TIMESTAMP_AT, born)
        intrinsics.store_be64(record + formats_columns.BORN_HOST_AT, words.producers[producer])
        intrinsics.store_be64(record + formats_columns.STORE_TIMESTAMP_AT, stored)
        intrinsics.store_be64(record + formats_columns.STORE_HOST_AT, parameters.store_host)
        intrinsics.store_be32(record + formats_columns.RECONSUME_TIMES_AT, 0)
        intrinsics.store_be64(record + formats_columns.PREPARED_OFFSET_AT, 0)
        intrinsics.store_be32(record + formats_columns.BODY_LENGTH_AT, body_size)

        columns.queue[row] = queue
        columns.size[row] = size
        columns.offset[row] = state[S_OFFSET]
        columns.time[row] = stored
        columns.tags[row] = words.tag_codes[tag]
        next_offset[queue] += 1
        state[S_OFFSET] += size
        state[S_END] = state[S_OFFSET]
        state[S_NUMBER] = number + 1
        used += size
        row += 1
    state[S_USED] = used
    state[S_KEYS] = keys
    return row, stop
