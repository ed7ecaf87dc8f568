"""Stores of made-up messages from a seed: same seed, same bytes, on any machine and any number of cores.

`scan.synth.draws` says what a message is, `mix` is what is asked for, `plan` what follows from it. `stories`
tells messages of every kind, which the writer puts one by one; `bulk` makes plain ones by compiled kernels,
with the same bytes. The store does not show which of the two ran.

From a seed and a mix to a store and its manifest, by the quickest way that gives these bytes.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

from rocketfsck.errors import UsageError
from rocketfsck.progress import phase
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.writer.input.rows import DEFAULT_START_TIME
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.storewriter import StoreWriter, put
from rocketfsck.writer.synth import plan as synth_plan
from rocketfsck.writer.synth.plan import PRESETS, BodySizes, Mix, SynthesisPlan, parse_mix
from rocketfsck.writer.synth.stories import INNER_TOPIC, Storyteller
from rocketfsck.writer.writing import PROGRESS_EVERY, WRITING, Fill, MadeStore, OnPut, Sums, make_store, tell

MAX_START_TIME = 32_503_680_000_000  # the year 3000
MAX_MESSAGES = 1 << 40
DEFAULT_MESSAGES = 1000


def synthesize(
    path: Path | str,
    mix: Mix,
    options: WriteOptions | None = None,
    *,
    seed: int = 0,
    size: int | None = None,
    message_count: int | None = None,
    start_time: int = DEFAULT_START_TIME,
    manifest: ManifestLevel = ManifestLevel.BRIEF,
    manifest_path: Path | None = None,
) -> MadeStore:
    """Make a store at `path` of made-up messages.

    The messages end with the one that makes the commit log `size` bytes long or longer, or after
    `message_count` puts, whichever comes first (1000 messages if neither is given). Times in ms. Settings
    that the mix needs and the version has are switched on: the batch topic, multi-dispatch. Raises as
    `make_store` does.
    """
    options = _settled(options or WriteOptions(), mix)
    if not 0 <= start_time <= MAX_START_TIME:
        raise UsageError(f"start time {start_time} must be 0 to {MAX_START_TIME} ms")
    if size is None and message_count is None:
        message_count = DEFAULT_MESSAGES
    if size is not None and size < 0:
        raise UsageError(f"a size of {size} bytes")
    limit = MAX_MESSAGES if message_count is None else message_count
    if not 0 <= limit <= MAX_MESSAGES:
        raise UsageError(f"{limit} messages: the limit is {MAX_MESSAGES:,}")
    plan = synth_plan.make_plan(seed, mix, options, start_time)
    asked = {"seed": seed, "size": size, "message_count": message_count, "start_time": start_time}
    source = {**asked, "mix": asdict(mix)}
    bulk = is_bulk(plan, options, size, limit, manifest)
    fill = _bulk_fill(plan, size, limit) if bulk else story_fill(plan, size, limit)
    return make_store(path, fill, options, source, manifest=manifest, manifest_path=manifest_path)


def _settled(options: WriteOptions, mix: Mix) -> WriteOptions:
    """The options with what the mix needs."""
    dialect = options.dialect
    if mix.shares.get("inner") and dialect.batch_queues:
        options = replace(options, batch_topics=options.batch_topics | {INNER_TOPIC})
    if mix.shares.get("lmq") and dialect.multi_dispatch:
        options = replace(options, multi_dispatch=True)
    return options


def is_bulk(
    plan: SynthesisPlan, options: WriteOptions, size: int | None, limit: int, manifest: ManifestLevel
) -> bool:
    """Whether the kernels can and should make these messages."""
    plain = (
        plan.mix.is_plain
        and manifest is not ManifestLevel.FULL
        and not options.consumequeue_ext
        and not options.append_property_crc
        and options.batch_topics.isdisjoint(plan.topics)
        and sys.byteorder == "little"
    )
    expected = min(size or sys.maxsize, limit * synth_plan.largest_record(plan))
    return plain and compiled_wanted(expected)


def story_fill(plan: SynthesisPlan, size: int | None, limit: int) -> Fill:
    """Puts messages one by one through the writer."""

    def fill(writer: StoreWriter, on_put: OnPut | None) -> Sums:
        story = Storyteller(plan, writer.options).tell()
        start = writer.options.start_offset
        message = next(story)
        with phase(WRITING, size) as at:
            while writer.message_count < limit and (size is None or writer.log.max_offset - start < size):
                records = put(writer, message)
                tell(records, on_put)
                if writer.message_count % PROGRESS_EVERY == 0:
                    at.at(writer.log.max_offset - start)
                message = story.send(records)
        return {}

    return fill


def _bulk_fill(plan: SynthesisPlan, size: int | None, limit: int) -> Fill:
    from rocketfsck.writer.synth.bulk import bulk_fill

    return bulk_fill(plan, size, limit)


__all__ = ["PRESETS", "BodySizes", "Mix", "parse_mix", "synthesize"]
