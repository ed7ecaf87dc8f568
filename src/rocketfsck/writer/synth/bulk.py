"""Plain made-up messages in bulk: kernels fill whole buffers, the writer's streams take them.

The result is that of `stories` and `storewriter.put` message by message, byte for byte: a test holds the two
together for every version. A store of 1 GiB of 1 KiB messages takes 4 s of CPU this way, and 4 minutes
message by message. What happens once a file (its making, its end, an index file's first entry and its header,
the first unit of a queue) is left to the writer's own functions. Reference 2.1, 2.8, 3.4, 4.4.

A plan as the kernel gets it: numbers, and the bytes of all names side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats import consumequeue, dtypes, javatext, properties, record
from rocketfsck.progress import Phase, phase
from rocketfsck.scan.machine.jit import chosen
from rocketfsck.scan.synth import compiled as kernels
from rocketfsck.scan.synth.draws import Columns, Parameters, Words, mix
from rocketfsck.scan.units import put_entries
from rocketfsck.writer.commitlog import CommitLog, make_room, write_at
from rocketfsck.writer.consumequeue import QueueState, put_unit
from rocketfsck.writer.indexfile import IndexFileState, IndexService, fetch_file, put_key, write_entries
from rocketfsck.writer.manifest import crc32, crc32_of_zeros
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.storewriter import CheckpointState, StoreWriter
from rocketfsck.writer.synth import plan as synth_plan
from rocketfsck.writer.synth.plan import SynthesisPlan
from rocketfsck.writer.writing import WRITING, Fill, OnPut, Sums

BUFFER_SIZE = 4 << 20
_FIXED_VALUES = {properties.WAIT: "true", properties.CLUSTER: synth_plan.CLUSTER_NAME}
_PLACES = {properties.UNIQ_KEY: kernels.UNIQUE, properties.KEYS: kernels.KEYS, properties.TAGS: kernels.TAGS}


@dataclass(frozen=True, slots=True)
class Pieces:
    """Byte strings side by side; piece n is `data[places[n]:places[n + 1]]`."""

    data: NDArray[np.uint8]
    places: dtypes.Longs

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)


def pieces_of(texts: Sequence[str]) -> Pieces:
    """Texts in UTF-8, with one byte after them so that there is always an address."""
    encoded = [text.encode() for text in texts]
    places = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Pieces(np.frombuffer(b"".join(encoded) + b"\0", np.uint8), places)


@dataclass(frozen=True, slots=True)
class KernelInput:
    """What the kernel is given of a plan, and the texts that `words` has the addresses of."""

    parameters: Parameters
    words: Words
    buffer: NDArray[np.uint8]
    texts: tuple[Pieces, ...]


def kernel_input(
    plan: SynthesisPlan, options: WriteOptions, external_crc: int, end_number: int, end_offset: int
) -> KernelInput:
    """What the kernel needs to know of a plan; `end_number` and `end_offset` are where the messages end."""
    fixed = [name for name in plan.property_order if name in _FIXED_VALUES]
    places = _PLACES | {name: kernels.FIXED_FIRST + number for number, name in enumerate(fixed)}
    names = [f"{name}\x01" for name in (properties.UNIQ_KEY, properties.KEYS, properties.TAGS)]
    names += [f"{name}\x01{_FIXED_VALUES[name]}" for name in fixed]
    tags = [""] + [f"{synth_plan.TAG_PREFIX}{number}" for number in range(1, plan.mix.tags + 1)]
    prefixes = [producer.unique_prefix for producer in plan.producers]
    texts = [pieces_of(found) for found in (plan.topics, prefixes, tags, [*names, synth_plan.WORD_PREFIX])]
    texts.append(Pieces(np.frombuffer(synth_plan.FRAGMENTS, np.uint8), np.zeros(1, np.int64)))
    topics, prefix, tag, name, fragments = texts
    words = Words(
        thresholds=_numbers(plan.topic_table.thresholds),
        aliases=_numbers(plan.topic_table.aliases),
        topic_place=topics.places,
        topic_bytes=topics.address,
        topic_hash=_numbers([javatext.java_hash(f"{topic}#") & 0xFFFFFFFF for topic in plan.topics]),
        producers=_numbers([_host_number(producer.host) for producer in plan.producers]),
        prefixes=prefix.address,
        tag_place=tag.places,
        tag_bytes=tag.address,
        tag_codes=_numbers([properties.tags_code(text) for text in tags]),
        order=_numbers([places[name] for name in plan.property_order]),
        name_place=name.places,
        name_bytes=name.address,
        fragments=fragments.address,
    )
    chosen, largest = plan.mix, synth_plan.largest_record(plan)
    parameters = Parameters(
        seed=javatext.int64(mix(plan.seed)),
        step_seed=javatext.int64(mix(plan.seed ^ synth_plan.STEP_STREAM)),
        start_time=plan.start_time,
        rate=chosen.rate,
        step_every=chosen.steps[0],
        step_most=chosen.steps[1],
        queue_count=chosen.queues,
        body_low=chosen.body.low,
        body_high=chosen.body.high,
        body_octaves=int(chosen.body.octaves),
        content=synth_plan.CONTENTS.index(chosen.content),
        key_low=chosen.keys[0],
        key_high=chosen.keys[1],
        word_count=chosen.words,
        words_by_rank=int(chosen.skew == "zipf"),
        tag_count=chosen.tags,
        index_tags=int(plan.dialect.tag_entries),
        producer_count=chosen.producers,
        born_limit=synth_plan.BORN_DELAY_LIMIT,
        store_host=_host_number(plan.store_host),
        largest=largest,
        trailing=int(plan.dialect.trailing_separator),
        file_size=options.geometry.commitlog_file_size,
        end_number=end_number,
        end_offset=end_offset,
        external=external_crc,
        capacity=max(BUFFER_SIZE, largest + kernels.SLACK),
    )
    buffer = np.empty(parameters.capacity + kernels.SLACK, np.uint8)
    return KernelInput(parameters, words, buffer, tuple(texts))


def _numbers(values: Sequence[int]) -> dtypes.Longs:
    return np.array(values, np.int64)


def _host_number(host: record.Host) -> int:
    return javatext.int64(int.from_bytes(record.encode_host(host), "big"))


ROWS = 1 << 15
KEY_ROWS = 1 << 17
INDEX_CHUNK_SIZE = 1 << 20


def bulk_fill(plan: SynthesisPlan, size: int | None, limit: int) -> Fill:
    """Puts the messages of a plain plan, as `synthesis.story_fill` does."""

    def fill(writer: StoreWriter, on_put: OnPut | None) -> Sums:
        assert on_put is None
        bulk = _Bulk(writer, plan, size, limit)
        with phase(WRITING, size) as at:
            bulk.run(at)
        return bulk.sums

    return fill


class _Bulk:
    """One run: the writer, what the kernels get, and what they keep between calls."""

    def __init__(self, writer: StoreWriter, plan: SynthesisPlan, size: int | None, limit: int) -> None:
        external = chosen()
        if external is None:
            raise StoreError("the kernels find no CRC-32 on this machine; set ROCKETFSCK_KERNELS=plain")
        self.writer = writer
        self.plan = plan
        self.size = size
        options = writer.options
        end = javatext.INT64_MAX if size is None else options.start_offset + size
        self.given: KernelInput = kernel_input(plan, options, external, limit, end)
        self.state = np.zeros(kernels.STATE, np.int64)
        self.state[[kernels.S_OFFSET, kernels.S_END]] = writer.log.max_offset
        self.state[kernels.S_STEP_NUMBER] = -1
        sizes = [ROWS] * 5 + [KEY_ROWS] * 2
        self.columns = Columns(*(np.zeros(size, np.int64) for size in sizes))
        count = plan.mix.topics * plan.mix.queues
        starts = options.queue_start_offsets
        self.next_offset = _numbers([starts.get(self._queue_key(queue), 0) for queue in range(count)])
        self.queues: dict[int, QueueState] = {}
        self.sums: dict[str, int] = {}
        self.crc = 0

    def _queue_key(self, queue: int) -> tuple[str, int]:
        topic, queue_id = divmod(queue, self.plan.mix.queues)
        return self.plan.topics[topic], queue_id

    def run(self, at: Phase) -> None:
        """Everything, buffer by buffer."""
        log, options = self.writer.log, self.writer.options
        stop = kernels.STOP_BUFFER
        while stop != kernels.STOP_END:
            count, stop = self._make_records()
            if count:
                self._append(count)
            if stop == kernels.STOP_FILE:
                self._end_file(int(self.state[kernels.S_NEEDED]))
                self.state[kernels.S_OFFSET] = log.max_offset
            at.at(log.max_offset - options.start_offset)
        if log.stream.last_start is not None:
            self._settle_crc(log.stream.last_start, log.max_offset)

    def _end_file(self, needed: int) -> None:
        """Go on in the next file, where `needed` bytes fit."""
        stream = self.writer.log.stream
        pos = stream.position
        make_room(self.writer.log, needed, single=True)
        end = stream.position
        if end > pos:
            self.crc = crc32(stream.read_back(pos, end - pos), self.crc)
            self._settle_crc(end - stream.file_size, end)

    def _settle_crc(self, start: int, end: int) -> None:
        """Note the CRC of the file at `start`, of which `self.crc` is known up to `end`."""
        stream = self.writer.log.stream
        path = str(stream.path_of(start).relative_to(self.writer.root))
        self.sums[path] = crc32_of_zeros(self.crc, start + stream.file_size - end)
        self.crc = 0

    def _make_records(self) -> tuple[int, int]:
        given = self.given
        address = given.buffer.ctypes.data
        count, stop = kernels.make_records(
            given.parameters, given.words, self.state, address, self.next_offset, self.columns
        )
        return int(count), int(stop)

    def _append(self, count: int) -> None:
        """Takes the records of the buffer over into log, queues, index and checkpoint."""
        writer, times = self.writer, self.columns.time
        self._append_log(count)
        self._append_units(count)
        rolls = []
        if writer.options.message_index:
            rolls = self._append_entries(int(self.state[kernels.S_KEYS]))
        follow_checkpoint(writer.checkpoint, times, self.columns.offset, count, rolls)
        writer.message_count += count
        writer.last_timestamp = int(times[count - 1])

    def _append_log(self, count: int) -> None:
        log, columns = self.writer.log, self.columns
        used = int(self.state[kernels.S_USED])
        data = self.given.buffer[:used].data
        stream = log.stream
        make_room(log, int(columns.size[0]), single=True)  # the first file is made by the first record
        assert stream.last_start is not None
        write_at(stream.path_of(stream.last_start), data, stream.position - stream.last_start)
        self.crc = crc32(data, self.crc)
        stream.skip_to(stream.position + used)
        if log.dialect.stale_blank_filler:
            _remember(log, data, columns.size[:count])
        log.last_record_offset = int(columns.offset[count - 1])
        log.record_count += count

    def _append_units(self, count: int) -> None:
        columns = self.columns
        queue = columns.queue[:count]
        counts = np.bincount(queue, minlength=len(self.next_offset))
        ends = np.cumsum(counts)
        order = np.argsort(queue, kind="stable")
        units = np.empty(count, consumequeue.UNIT.dtype())
        units["offset"], units["size"] = columns.offset[order], columns.size[order]
        units["tagsCode"] = columns.tags[order]
        seen = np.flatnonzero(counts)
        if any(number not in self.queues for number in seen.tolist()):
            # In the order of their first messages: the order of topics.json can depend on it.
            seen, first = np.unique(queue, return_index=True)
            seen = seen[np.argsort(first)]
        for number in seen.tolist():
            end = int(ends[number])
            self._append_queue(number, units[end - int(counts[number]) : end].view(np.uint8).data)
        reach_is_end = self.plan.dialect.max_physic_offset_is_end
        reach = columns.offset[:count] + (columns.size[:count] if reach_is_end else 0)
        last = np.zeros(len(self.next_offset), np.int64)
        last[queue] = reach  # of equal places the last one stays
        for number in seen.tolist():
            state = self.queues[number]
            state.max_physic_offset = int(last[number])
            state.next_offset = int(self.next_offset[number])

    def _append_queue(self, number: int, data: memoryview) -> None:
        state = self.queues.get(number)
        if state is None:
            state = self.queues[number] = self.writer.queues.state(*self._queue_key(number))
        stream = state.stream
        if stream.last_start is None:
            unit = data[: consumequeue.UNIT_SIZE]
            offset, size = int.from_bytes(unit[:8], "big"), int.from_bytes(unit[8:12], "big")
            put_unit(state, offset, size, int.from_bytes(unit[12:], "big", signed=True), state.next_offset)
            data = data[consumequeue.UNIT_SIZE :]
        while data:
            if not stream.remaining:
                stream.next_file()
            part = data[: stream.remaining]
            stream.write(bytes(part))
            data = data[len(part) :]

    def _append_entries(self, count: int) -> list[tuple[int, int]]:
        """Puts the keys; the rows that found an index file full, each with that file's endTimestamp."""
        service, columns = self.writer.index, self.columns
        rolls = []
        pos = 0
        while pos < count:
            row = int(columns.key_record[pos])
            timestamp = int(columns.time[row])
            file, full = fetch_file(service, timestamp)
            if full is not None:
                rolls.append((row, full.end_timestamp))
            if file.next_entry == 1:
                # timeDiff of a file's first entry counts from the file before: the writer knows.
                put_key(service, file, int(columns.key_hash[pos]), int(columns.offset[row]), timestamp)
                pos += 1
                continue
            taken = min(service.entry_count - file.header.index_count, count - pos)
            self._put_keys(service, file, pos, taken)
            pos += taken
        return rolls

    def _put_keys(self, service: IndexService, file: IndexFileState, pos: int, count: int) -> None:
        columns, header = self.columns, file.header
        entries, empty = put_entries(
            columns.key_hash[pos : pos + count].astype(np.int32),
            columns.key_record[pos : pos + count].astype(np.int32),
            columns.offset,
            columns.time,
            file.next_entry,
            header.begin_timestamp,
            np.frombuffer(file.slots, np.int32),
            compiled=True,
        )
        file.pending += entries.view(np.uint8).data
        row = int(columns.key_record[pos + count - 1])
        counts_all = self.plan.dialect.counts_entries_in_hash_slot_count
        file.header = replace(
            header,
            end_timestamp=int(columns.time[row]),
            end_physical_offset=int(columns.offset[row]),
            hash_slot_count=header.hash_slot_count + (count if counts_all else empty),
            index_count=header.index_count + count,
        )
        if len(file.pending) >= INDEX_CHUNK_SIZE:
            write_entries(service, file)


def _remember(log: CommitLog, data: memoryview, sizes: NDArray[np.int64]) -> None:
    """Keep what the broker's encode buffer holds after these records: each one's bytes, as far as no later
    one was as long."""
    ends = np.cumsum(sizes)
    backwards = sizes[::-1]
    longest = np.maximum.accumulate(backwards)
    is_seen = np.ones(len(sizes), np.bool_)
    is_seen[1:] = backwards[1:] > longest[:-1]
    for row in (len(sizes) - 1 - np.flatnonzero(is_seen))[::-1].tolist():
        size, end = int(sizes[row]), int(ends[row])
        log.encode_buffer[:size] = data[end - size : end]


def follow_checkpoint(
    state: CheckpointState, times: Any, offsets: Any, count: int, rolls: list[tuple[int, int]]
) -> None:
    """What `CheckpointState.dispatched` makes of these records, called only for those that it flushes at."""
    full = dict(rolls)
    row = 0
    for stop in [*sorted(full), count]:
        while row < stop:
            if state.flushed_timestamp is not None:
                due = state.flushed_timestamp + state.cadence
                late = np.flatnonzero(times[row:stop] >= due)
                if not len(late):
                    break
                row += int(late[0])
            _dispatched(state, int(times[row]), int(offsets[row]), None)
            row += 1
        if stop < count:
            _dispatched(state, int(times[stop]), int(offsets[stop]), full[stop])
            row = stop + 1
    state.physic_msg_timestamp = int(times[count - 1])
    state.put_unit(int(times[count - 1]), int(offsets[count - 1]))


def _dispatched(state: CheckpointState, timestamp: int, physical_offset: int, full: int | None) -> None:
    state.physic_msg_timestamp = timestamp
    state.dispatched(timestamp, physical_offset, in_queue=True, full=full)
