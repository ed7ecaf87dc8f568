"""The loop of `keyjoin` that says where keys and index entries do not agree.

The loop is written in the part of Python that Numba compiles too, and runs as it is or compiled.

The loop calls no other function, so that one compilation is all; that is why there is a single place where a
mismatch is written. Numbers from disk meet `+` only where they cannot overflow.

A mismatch is a row of `out` (int64): code, queue, row of the batch, physical offset, end of the last one's
record, number, end of numbers (half-open), found, expected, count. Equal neighbours with numbers that
continue are one row. `state[0]` counts the rows used, `state[1 + code]` all mismatches, those for which `out`
has no room included. `open_rows[code]` is where the last row of a code went.
"""

from __future__ import annotations

from typing import Annotated

from rocketfsck.formats.dtypes import Longs, Words

CODE, QUEUE, ROW, OFFSET, END, NUMBER, NUMBER_END, FOUND, EXPECTED, COUNT = range(10)
MISMATCH_WIDTH = 10

ENTRY_MISSING = 0
ENTRY_WITHOUT_RECORD = 1
HASH = 2
TIME_DIFF = 3
DUPLICATE = 4
EXTRA = 5
ENTRY_ORDER = 6
ENTRY_CODES = 7

FAR = 1 << 62
LOOK_AHEAD = 64
MAX_TIME_DIFF = 0x7FFFFFFF


def join_entry_rows(
    progress: Longs,
    offset: Longs,
    time: Longs,
    queue: Longs,
    key_start: Longs,
    key_count: Longs,
    key_hash: Longs,
    tagged: Longs,
    untagged: Longs,
    entries: Annotated[Longs, 2],
    out: Annotated[Longs, 2],
    state: Longs,
    open_rows: Words,
) -> bool:
    """Merge a batch's records and their keys with index entries in order; True if a batch is done with.

    `entries` has a row for each index entry: number, physical offset, keyHash, timeDiff, the begin
    timestamp it was put with. `progress`: 0 record, 1 its next key, 2 the key that a repetition would have
    next, 3 next entry, 4 end of entries, 5 whether more entries exist, 6 offset of the entry before,
    7 the row at which a run of records without entries continues. The last key of a record that is `tagged`
    is its tags: a broker that indexes no tags is not damage, so `untagged` says where their entry is missing,
    and no mismatch does. False means that the entries ran out: the caller puts further ones behind those from
    `progress[3]` on.
    """
    r = progress[0]
    k = progress[1]
    j = progress[2]
    e = progress[3]
    limit = progress[4]
    done = True
    while r < len(offset):
        if limit - e <= 1 and progress[5] != 0:
            done = False
            break
        at = offset[r]
        keys = key_count[r]
        start = key_start[r]
        if k == 0 and keys > 0 and limit - e > keys + 1:
            # the quick way: all keys have their entries, and what follows is in order and of a later record
            begin = entries[e, 4]
            wanted = 0
            if 0 < begin < time[r] < FAR:
                wanted = min((time[r] - begin) // 1000, MAX_TIME_DIFF)
            same = 0
            while (
                same < keys
                and entries[e + same, 1] == at
                and entries[e + same, 2] == key_hash[start + same]
                and entries[e + same, 3] == wanted
                and entries[e + same, 4] == begin
            ):
                same += 1
            following = entries[e + keys, 1]
            if same == keys and at < following <= entries[e + keys + 1, 1]:
                progress[6] = max(progress[6], at)
                e += keys
                r += 1
                j = 0
                continue
        code = -1
        place = at
        row = r
        number = -1
        number_end = -1
        found = -1
        expected = -1
        times = 1
        next_entry = False
        if e < limit and entries[e, 1] == at:
            number = entries[e, 0]
            number_end = number + 1
            found = entries[e, 2]
            if k < keys:
                expected = key_hash[start + k]
                # a key that the record has twice, within a repetition, which continues with that
                again = 0 < j < k and key_hash[start + j] == found
                if found == expected and not again:
                    begin = entries[e, 4]
                    lasted = time[r] - begin if -FAR < begin < FAR and -FAR < time[r] < FAR else 0
                    wanted = 0
                    if begin > 0 and lasted > 0:
                        wanted = min(lasted // 1000, MAX_TIME_DIFF)
                    if entries[e, 3] != wanted:
                        code = TIME_DIFF
                        found = entries[e, 3]
                        expected = wanted
                    next_entry = True
                    k += 1
                    j = 0
                elif j < k and key_hash[start + j] == found:
                    # a restart begins again with a record whose first entries filled the file before
                    code = DUPLICATE
                    j += 1
                    next_entry = True
                elif tagged[r] and k == keys - 1:
                    code = EXTRA  # in no key's place
                    next_entry = True
                else:
                    code = HASH
                    for later in range(k + 1, min(keys, k + LOOK_AHEAD)):
                        if key_hash[start + later] == found:
                            code = ENTRY_MISSING
                            break
                    if code == ENTRY_MISSING:
                        number = r
                        number_end = r + 1
                        found = -1
                    else:
                        next_entry = True
                    k += 1
            else:
                code = EXTRA
                if keys > 0 and key_hash[start + j] == found:
                    code = DUPLICATE
                    j += 1
                    if j == keys:
                        j = 0
                next_entry = True
        elif e < limit and (
            entries[e, 1] < at
            or (
                e + 1 < limit
                and entries[e + 1, 1] < entries[e, 1]
                and (entries[e + 1, 1] > at or (entries[e + 1, 1] == at and k < keys))
            )
        ):
            code = ENTRY_ORDER if entries[e, 1] < progress[6] or entries[e, 1] > at else ENTRY_WITHOUT_RECORD
            row = -1
            place = entries[e, 1]
            number = entries[e, 0]
            number_end = number + 1
            found = entries[e, 2]
            expected = progress[6]
            next_entry = True
        else:
            times = keys - k
            if times > 0 and tagged[r]:
                untagged[r] = 1
                times -= 1
            if times > 0:
                code = ENTRY_MISSING
                expected = key_hash[start + k]
                number = r
                number_end = r + 1
            elif (
                keys - tagged[r] == 0 and progress[7] == r
            ):  # nothing to miss: no end of a run of missing ones
                progress[7] = r + 1
            r += 1
            k = 0
            j = 0
        if code >= 0:
            state[1 + code] += times
            o = open_rows[code]
            merges = 0 <= o < state[0] and out[o, 0] == code
            if code == ENTRY_MISSING:
                merges = merges and (progress[7] == number or progress[7] == number_end)
                progress[7] = number_end
            elif code == TIME_DIFF:
                merges = (
                    merges
                    and out[o, 6] == number
                    and int(out[o, 7]) - int(out[o, 8]) == int(found) - int(expected)
                )
            else:
                merges = merges and code != HASH and out[o, 6] == number
            if merges:
                out[o, 4] = place
                out[o, 9] += times
                out[o, 6] = number_end
            elif state[0] < len(out):
                o = state[0]
                state[0] += 1
                open_rows[code] = o
                out[o, 0] = code
                out[o, 1] = -1 if row < 0 else queue[row]
                out[o, 2] = row
                out[o, 3] = place
                out[o, 4] = place
                out[o, 5] = number
                out[o, 6] = number_end
                out[o, 7] = found
                out[o, 8] = expected
                out[o, 9] = times
        if next_entry:
            if entries[e, 1] <= at:
                progress[6] = max(progress[6], entries[e, 1])
            e += 1
    progress[0] = r
    progress[1] = k
    progress[2] = j
    progress[3] = e
    return done
