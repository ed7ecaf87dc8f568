"""A plan as the kernels are told it: arrays of numbers, and the bytes of all names side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.host import Host, encode_host
from rocketfsck.formats.javatext import int64, java_hash
from rocketfsck.formats.properties import CLUSTER, KEYS, TAGS, UNIQ_KEY, WAIT, tags_code
from rocketfsck.scan.synth import compiled as kernels
from rocketfsck.scan.synth.draws import mix
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.synth.draws import STEP_STREAM
from rocketfsck.writer.synth.mix import CONTENTS
from rocketfsck.writer.synth.plan import (
    BORN_DELAY_LIMIT,
    CLUSTER_NAME,
    FRAGMENTS,
    TAG_PREFIX,
    WORD_PREFIX,
    Plan,
    largest_record,
)

BUFFER_SIZE = 4 << 20
_FIXED_VALUES = {WAIT: "true", CLUSTER: CLUSTER_NAME}
_PLACES = {UNIQ_KEY: kernels.UNIQUE, KEYS: kernels.KEYS, TAGS: kernels.TAGS}


@dataclass(frozen=True, slots=True)
class Pieces:
    """Byte strings side by side; piece n is `data[places[n]:places[n + 1]]`."""

    data: NDArray[np.uint8]
    places: Longs

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)


def pieces_of(texts: Sequence[bytes]) -> Pieces:
    """Byte strings, with one byte behind them so that there is always an address."""
    places = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Pieces(np.frombuffer(b"".join(texts) + b"\0", np.uint8).copy(), places)


@dataclass(frozen=True, slots=True)
class KernelInput:
    """All arguments of `make_records` that never change, and the parameters, in the kernel's order."""

    parameters: Longs
    buffer: NDArray[np.uint8]
    thresholds: Longs
    aliases: Longs
    topics: Pieces
    topic_hashes: Longs
    producers: Longs
    prefixes: Pieces
    tags: Pieces
    tag_codes: Longs
    order: Longs
    names: Pieces
    fragments: Pieces


def kernel_input(plan: Plan, options: WriteOptions, external_crc: int) -> KernelInput:
    """What the kernels need to know of a plan."""
    fixed = [name for name in plan.property_order if name in _FIXED_VALUES]
    places = _PLACES | {name: kernels.FIXED_FIRST + number for number, name in enumerate(fixed)}
    names = [f"{name}\x01" for name in (UNIQ_KEY, KEYS, TAGS)]
    names += [f"{name}\x01{_FIXED_VALUES[name]}" for name in fixed]
    tags = [""] + [f"{TAG_PREFIX}{number}" for number in range(1, plan.mix.tags + 1)]
    largest = largest_record(plan)
    return KernelInput(
        parameters=_parameters(plan, options, largest, external_crc),
        buffer=np.empty(max(BUFFER_SIZE, largest + kernels.SLACK) + kernels.SLACK, np.uint8),
        thresholds=_numbers(plan.topic_table.thresholds),
        aliases=_numbers(plan.topic_table.aliases),
        topics=pieces_of([topic.encode() for topic in plan.topics]),
        topic_hashes=_numbers([java_hash(f"{topic}#") & 0xFFFFFFFF for topic in plan.topics]),
        producers=_numbers([_host_number(producer.host) for producer in plan.producers]),
        prefixes=pieces_of([producer.unique_prefix.encode() for producer in plan.producers]),
        tags=pieces_of([text.encode() for text in tags]),
        tag_codes=_numbers([tags_code(text) for text in tags]),
        order=_numbers([places[name] for name in plan.property_order]),
        names=pieces_of([text.encode() for text in (*names, WORD_PREFIX)]),
        fragments=pieces_of([FRAGMENTS]),
    )


def _numbers(values: Sequence[int]) -> Longs:
    return np.array(values, np.int64)


def _host_number(host: Host) -> int:
    return int64(int.from_bytes(encode_host(host), "big"))


def _parameters(plan: Plan, options: WriteOptions, largest: int, external_crc: int) -> Longs:
    chosen = plan.mix
    values: dict[int, Any] = {
        kernels.P_SEED: int64(mix(plan.seed)),
        kernels.P_STEP_SEED: int64(mix(plan.seed ^ STEP_STREAM)),
        kernels.P_START_TIME: plan.start_time,
        kernels.P_RATE: chosen.rate,
        kernels.P_STEP_EVERY: chosen.steps[0],
        kernels.P_STEP_MOST: chosen.steps[1],
        kernels.P_TOPIC_COUNT: chosen.topics,
        kernels.P_QUEUE_COUNT: chosen.queues,
        kernels.P_BODY_LOW: chosen.body.low,
        kernels.P_BODY_HIGH: chosen.body.high,
        kernels.P_BODY_OCTAVES: chosen.body.octaves,
        kernels.P_CONTENT: CONTENTS.index(chosen.content),
        kernels.P_KEY_LOW: chosen.keys[0],
        kernels.P_KEY_HIGH: chosen.keys[1],
        kernels.P_WORD_COUNT: chosen.words,
        kernels.P_WORDS_BY_RANK: chosen.skew == "zipf",
        kernels.P_TAG_COUNT: chosen.tags,
        kernels.P_PRODUCER_COUNT: chosen.producers,
        kernels.P_BORN_LIMIT: BORN_DELAY_LIMIT,
        kernels.P_STORE_HOST: _host_number(plan.store_host),
        kernels.P_LARGEST: largest,
        kernels.P_TRAILING: plan.dialect.trailing_separator,
        kernels.P_FILE_SIZE: options.geometry.commitlog_file_size,
        kernels.P_EXTERNAL: external_crc,
        kernels.P_CAPACITY: max(BUFFER_SIZE, largest + kernels.SLACK),
    }
    parameters = np.zeros(kernels.PARAMETERS, np.int64)
    for place, value in values.items():
        parameters[place] = value
    return parameters
