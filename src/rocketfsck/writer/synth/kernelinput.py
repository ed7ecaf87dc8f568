"""A plan as the kernel gets it: numbers, and the bytes of all names side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.host import Host, encode_host
from rocketfsck.formats.javatext import int64, java_hash
from rocketfsck.formats.properties import CLUSTER, KEYS, TAGS, UNIQ_KEY, WAIT, tags_code
from rocketfsck.scan.synth import compiled as kernels
from rocketfsck.scan.synth.draws import mix
from rocketfsck.scan.synth.given import Parameters, Words
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.synth.draws import STEP_STREAM
from rocketfsck.writer.synth.mix import CONTENTS
from rocketfsck.writer.synth.plan import (
    BORN_DELAY_LIMIT,
    CLUSTER_NAME,
    FRAGMENTS,
    TAG_PREFIX,
    WORD_PREFIX,
    SynthesisPlan,
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
    names = [f"{name}\x01" for name in (UNIQ_KEY, KEYS, TAGS)]
    names += [f"{name}\x01{_FIXED_VALUES[name]}" for name in fixed]
    tags = [""] + [f"{TAG_PREFIX}{number}" for number in range(1, plan.mix.tags + 1)]
    prefixes = [producer.unique_prefix for producer in plan.producers]
    texts = [pieces_of(found) for found in (plan.topics, prefixes, tags, [*names, WORD_PREFIX])]
    texts.append(Pieces(np.frombuffer(FRAGMENTS, np.uint8), np.zeros(1, np.int64)))
    topics, prefix, tag, name, fragments = texts
    words = Words(
        thresholds=_numbers(plan.topic_table.thresholds),
        aliases=_numbers(plan.topic_table.aliases),
        topic_place=topics.places,
        topic_bytes=topics.address,
        topic_hash=_numbers([java_hash(f"{topic}#") & 0xFFFFFFFF for topic in plan.topics]),
        producers=_numbers([_host_number(producer.host) for producer in plan.producers]),
        prefixes=prefix.address,
        tag_place=tag.places,
        tag_bytes=tag.address,
        tag_codes=_numbers([tags_code(text) for text in tags]),
        order=_numbers([places[name] for name in plan.property_order]),
        name_place=name.places,
        name_bytes=name.address,
        fragments=fragments.address,
    )
    chosen, largest = plan.mix, largest_record(plan)
    parameters = Parameters(
        seed=int64(mix(plan.seed)),
        step_seed=int64(mix(plan.seed ^ STEP_STREAM)),
        start_time=plan.start_time,
        rate=chosen.rate,
        step_every=chosen.steps[0],
        step_most=chosen.steps[1],
        queue_count=chosen.queues,
        body_low=chosen.body.low,
        body_high=chosen.body.high,
        body_octaves=int(chosen.body.octaves),
        content=CONTENTS.index(chosen.content),
        key_low=chosen.keys[0],
        key_high=chosen.keys[1],
        word_count=chosen.words,
        words_by_rank=int(chosen.skew == "zipf"),
        tag_count=chosen.tags,
        index_tags=int(plan.dialect.tag_entries),
        producer_count=chosen.producers,
        born_limit=BORN_DELAY_LIMIT,
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


def _numbers(values: Sequence[int]) -> Longs:
    return np.array(values, np.int64)


def _host_number(host: Host) -> int:
    return int64(int.from_bytes(encode_host(host), "big"))
