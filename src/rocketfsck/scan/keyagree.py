"""The quick way through a join of keys and index entries, compiled: entries as they lie on disk.

It goes on as long as records and entries agree and stops, having decided nothing, in front of the first
record that is not clear; `keymerge` says what is wrong there. Both give the same answer where both can.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from typing import Any

from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.formats.places import ENTRY_SIZE, PHY_OFFSET_AT
from rocketfsck.scan.intrinsics import load_i64, load_u32, native_i32, native_i64, swapped
from rocketfsck.scan.jit import entry
from rocketfsck.scan.keymerge import FAR, MAX_TIME_DIFF

Array = Any


@entry
def join_agreeing(
    entries: int,
    count: int,
    begin_timestamp: int,
    end: int,
    base_offset: int,
    pos: Array,
    time: Array,
    sys_flag: Array,
    key_start: Array,
    key_count: Array,
    key_hash: Array,
    record_count: int,
    progress: Array,
) -> int:
    """Merges records from `progress[0]` on with `count` entries at an address; gives how many it took.

    Of `progress` (`keymerge.join_entry_rows`) it moves 0, 6 and 7; 1 and 2, before and after, are 0. In 9
    it counts the records with keys, the first and the last of which are in 10 and 11. A record is clear when
    all its keys have their entries, nothing else has its offset, and the two entries behind them are in order
    and below `end`. Array columns have at least `record_count` rows.
    """
    record = progress[0]
    newest = progress[6]
    run = progress[7]
    keyed_count = progress[9]
    first_keyed = progress[10]
    last_keyed = progress[11]
    pos_at = pos.ctypes.data
    time_at = time.ctypes.data
    flag_at = sys_flag.ctypes.data
    start_at = key_start.ctypes.data
    count_at = key_count.ctypes.data
    hash_at = key_hash.ctypes.data
    place = entries
    last_place = entries + ENTRY_SIZE * (count - 1)
    while record < record_count:
        offset = base_offset + native_i64(pos_at + 8 * record)
        keys = native_i32(count_at + 4 * record)
        if native_i32(flag_at + 4 * record) & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            keys = 0
        behind = place + ENTRY_SIZE * keys
        if offset <= 0 or behind >= last_place:
            break
        following = load_i64(behind + PHY_OFFSET_AT)
        next_one = load_i64(behind + ENTRY_SIZE + PHY_OFFSET_AT)
        if following <= offset or next_one < following or next_one >= end:
            break
        if keys > 0:
            stored = native_i64(time_at + 8 * record)
            wanted = 0
            if 0 < begin_timestamp < stored < FAR:
                wanted = min((stored - begin_timestamp) // 1000, MAX_TIME_DIFF)
            word = hash_at + 4 * native_i64(start_at + 8 * record)
            # the first 16 bytes of an entry are keyHash, upper and lower half of phyOffset, timeDiff
            upper = swapped(offset >> 32)
            lower = swapped((offset << 32) | wanted)
            while (
                place < behind
                and native_i64(place) == load_u32(word) | upper
                and native_i64(place + 8) == lower
            ):
                place += ENTRY_SIZE
                word += 4
            if place < behind:
                place = behind - ENTRY_SIZE * keys
                break
            newest = max(newest, offset)
            last_keyed = record
            if keyed_count == 0:
                first_keyed = record
            keyed_count += 1
        elif run == record:
            run = record + 1
        record += 1
    progress[0] = record
    progress[6] = newest
    progress[7] = run
    progress[9] = keyed_count
    progress[10] = first_keyed
    progress[11] = last_keyed
    return (place - entries) // ENTRY_SIZE
