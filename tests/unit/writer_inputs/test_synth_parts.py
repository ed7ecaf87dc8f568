"""The generator, mixes and plans by themselves: known values, bounds, refusals."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.messageid import decode_unique_id
from rocketfsck.scan.synth.draws import below, draw, in_octave, mix, month_start
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import WriteOptions
from rocketfsck.writer.synth import PRESETS, BodySizes, Mix, parse_mix, synthesize
from rocketfsck.writer.synth.plan import (
    FRAGMENTS,
    KIND_NAMES,
    Clock,
    alias_table,
    basics,
    body_bytes,
    integer_root,
    largest_record,
    make_plan,
    message_key,
    step_of,
    unique_key,
    zipf_weights,
)
from rocketfsck.writer.synth.stories import zlib_stream, zstd_frame

from tests.reported import reported

START = 1_704_067_200_000


def test_the_generator_is_splitmix64() -> None:
    # The first outputs of SplitMix64 seeded with 0 (Vigna's reference program).
    assert [draw(0, number) for number in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
    assert message_key(-1, 0) == message_key((1 << 64) - 1, 0)
    assert mix(0) == 0


def test_below_and_octaves_stay_in_bounds() -> None:
    ends = (0, (1 << 64) - 1)
    assert [below(value, 10) for value in ends] == [0, 9]
    for low, high in ((1, 1), (1, 2), (16, 4096), (3, 1000), (1, 1 << 32)):
        found = [in_octave(first, second, low, high) for first in ends for second in ends]
        assert min(found) == low
        assert max(found) == high
    small = sum(in_octave(draw(1, n), draw(2, n), 16, 4096) < 256 for n in range(2000))
    assert 900 < small < 1100


def test_steps_go_both_ways() -> None:
    found = [step_of(3, number, 50) for number in range(500)]
    assert min(found) < -40
    assert max(found) > 40
    assert all(abs(step) <= 50 for step in found)


def test_integer_roots_and_weights() -> None:
    for value in (0, 1, 2, 1023, 1024, 10**40):
        root = integer_root(value, 10)
        assert root**10 <= value < (root + 1) ** 10
    assert zipf_weights(3, 0) == [1 << 40] * 3
    assert zipf_weights(3, 10) == [1 << 40, 1 << 39, (1 << 40) // 3]
    assert zipf_weights(4, 15)[3] == (1 << 40) // 8  # 4 ** 1.5
    assert min(zipf_weights(10_000, 30)) == 1


def test_the_alias_table_has_the_weights() -> None:
    weights = [70, 20, 9, 1]
    table = alias_table(weights)
    counts = [0] * 4
    for number in range(20_000):
        counts[table.choose(draw(5, number))] += 1
    assert all(abs(count / 200 - weight) < 1.5 for count, weight in zip(counts, weights, strict=True))
    assert alias_table([5]).choose(123) == 0


def test_mixes_from_text() -> None:
    assert parse_mix("plain") == Mix()
    assert parse_mix("topics=2, keys=1:3,body=log:1KiB:2MiB,steps=5:6,zipf=1.5,delay=5") == Mix(
        topics=2,
        keys=(1, 3),
        body=BodySizes(1024, 2 << 20, octaves=True),
        steps=(5, 6),
        zipf=15,
        shares={"normal": 100, "delay": 5},
    )
    assert parse_mix("everything,normal=0").shares["normal"] == 0
    assert set(PRESETS["everything"].shares) == set(KIND_NAMES)
    assert Mix().is_plain
    assert not PRESETS["mixed"].is_plain


@pytest.mark.parametrize(
    "text",
    [
        "", "odd", "plain,mixed", "topics=0", "topics=10001", "topics=x", "zipf=3.1", "zipf=1.55", "zipf=",
        "body=5:4", "body=log:0:4", "body=-1", "keys=65", "content=odd", "skew=", "steps=5", "colour=1",
        "normal=0", "topics=9999,queues=9999", "words=4294967297", "rate=1e3", "producers=99999999999999",
    ],
)  # fmt: skip
def test_mixes_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        parse_mix(text)


def test_months() -> None:
    for year in (1970, 1999, 2000, 2023, 2024, 2100, 2999):
        for month in range(1, 13):
            first = datetime(year, month, 1, tzinfo=UTC)
            start = int(first.timestamp()) * 1000
            assert month_start(start) == month_start(start + 27 * 86_400_000 + 86_399_999) == start
            assert month_start(start - 1) < start or start == 0


def test_clock_steps_and_never_goes_below_zero() -> None:
    plan = make_plan(1, parse_mix("rate=1000,steps=2:10"), WriteOptions(), START)
    clock = Clock(plan)
    stepped = 0
    for number in range(20):
        stepped += step_of(1, number, 10) if number and number % 2 == 0 else 0
        assert clock.at(number) == START + number + stepped
    assert Clock(make_plan(1, parse_mix("plain"), WriteOptions(), 0)).at(0) == 0


def test_unique_keys_are_those_of_clients() -> None:
    plan = make_plan(9, parse_mix("producers=300"), WriteOptions(), START + 40 * 86_400_000)
    found = basics(plan, 70_000, START + 40 * 86_400_000)
    parts = decode_unique_id(unique_key(found))
    assert parts.counter == 70_000 & 0xFFFF
    assert parts.address == found.producer.host.address
    assert parts.span == found.born_timestamp - month_start(found.born_timestamp)
    assert decode_unique_id(unique_key(basics(
        make_plan(9, parse_mix("plain"), WriteOptions("4.6.0"), START), 0, START))).pid == 0  # fmt: skip


def test_bodies() -> None:
    assert len(FRAGMENTS) == 64 * 8
    for size in (0, 1, 7, 8, 9, 64, 65, 1000):
        assert len(body_bytes(7, size, text=True)) == len(body_bytes(7, size, text=False)) == size
    text, noise = body_bytes(7, 10_000, text=True), body_bytes(7, 10_000, text=False)
    assert len(zlib.compress(text)) < 4500
    assert len(zlib.compress(noise)) > 9900
    assert text.isascii()
    key = draw(7, 5)
    assert noise[:8] == draw(key, 0).to_bytes(8, "little")
    assert noise[8:16] == draw(key, 1).to_bytes(8, "little")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_compressed_forms_are_what_decoders_read(size: int) -> None:
    data = body_bytes(3, size, text=True)
    assert zlib.decompress(zlib_stream(data)) == data
    zstandard = pytest.importorskip("zstandard")
    assert zstandard.ZstdDecompressor().decompress(zstd_frame(data)) == data


def test_what_does_not_fit_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    small = Geometry(commitlog_file_size=4096)
    options = WriteOptions(geometry=small)
    for mix_text, wanted, arguments in (
        ("body=4000", "limit with these", {}),
        ("plain", "64 bits", {"seed": 1 << 64}),
        ("plain", "a size of", {"size": -1}),
        ("plain", "messages", {"message_count": -1}),
        ("plain", "start time", {"start_time": -1}),
    ):
        with pytest.raises(UsageError, match=wanted):
            synthesize(tmp_path / "store", parse_mix(mix_text), options, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="maxMessageSize"):
        synthesize(tmp_path / "store", parse_mix("body=5MiB"), WriteOptions())
    with pytest.raises(UsageError, match="records of"):
        synthesize(tmp_path / "store", parse_mix("body=4MiB"), WriteOptions("4.4.0"))
    assert not list(tmp_path.iterdir())
    plan = make_plan(0, parse_mix("body=10,keys=64"), WriteOptions(), START)
    assert largest_record(plan) > 10 + 64 * 14


def test_defaults_and_progress(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    small = WriteOptions(geometry=Geometry(slot_count=10, entry_count=5000), sync=False)
    with reported("writing the messages", seen):
        made = synthesize(tmp_path / "a", parse_mix("body=0"), small)
    assert made.store.message_count == 1000
    assert seen == [(0, None), (made.store.max_offset, None)]
    empty = synthesize(tmp_path / "b", Mix(), small, size=0)
    assert empty.store.message_count == 0
