"""Stores with bytes changed at random: every query ends, with an answer or with a clear error."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.errors import RocketfsckError
from rocketfsck.query import (
    BrokerView,
    find_by_expression,
    find_by_id,
    find_by_key,
    find_by_offset,
    find_by_time,
    group_offsets,
    message_life,
    queue_offsets,
)
from rocketfsck.query.ids import offset_id_of
from rocketfsck.store import Store
from rocketfsck.writer import Event

from tests.unit.query.maker import NOW, make, message, reopen

MUTANTS = 60
ODD = (b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0" * 40, b"\xff" * 20)


def questions(store: Store, text: str) -> list[Callable[[], object]]:
    def broker() -> None:
        for version in ("4.4.0", "5.3.3"):
            with BrokerView(store, version) as view:
                view.query_message("Order", "all")
                view.get_message("Order", 0, 5)
                view.offset_in_queue_by_time("Order", 0, NOW + 5000)

    return [
        broker,
        lambda: [find_by_key(store, "Order", key) for key in ("k3", "all", "U0007")],
        lambda: [find_by_offset(store, "Order", 0, offset) for offset in (0, 7, 99)],
        lambda: [find_by_time(store, "Order", 0, NOW + at) for at in (0, 5000, 99_000)],
        lambda: find_by_id(store, text),
        lambda: message_life(store, "U0007"),
        lambda: list(find_by_expression(store, "body ~ /7/ or keys contains 'k3'")),
        lambda: list(queue_offsets(store)),
        lambda: group_offsets(store),
    ]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, bytes], str]:
    root = tmp_path_factory.mktemp("hostile")
    offsets = {"consumerOffset.json": {"offsetTable": {"Order@one": {0: 3}}}}
    messages: list[Event] = [message(number, delay_level=int(number == 9)) for number in range(40)]
    store = make(root, messages, config=offsets)
    (found,) = find_by_key(store, "Order", "k3").found
    files = {file.path: file.path.read_bytes() for file in store.all_files() if file.size}
    return root, files, offset_id_of(found.message, found.offset)


@pytest.mark.parametrize("seed", range(MUTANTS))
def test_mutants(sound: tuple[Path, dict[Path, bytes], str], seed: int) -> None:
    root, files, text = sound
    dice = random.Random(seed)
    chosen = dice.sample(sorted(files), 3)
    try:
        for path in chosen:
            data = bytearray(files[path])
            for _ in range(dice.choice((1, 4, 40))):
                pos = dice.randrange(len(data))
                new = dice.choice((*ODD, bytes([dice.randrange(256)])))
                data[pos : pos + len(new)] = new
            path.write_bytes(data[: dice.choice((len(data), len(data), dice.randrange(len(data) + 1)))])
        for question in questions(reopen(root), text):
            try:
                question()
            except RocketfsckError as error:
                assert str(error)
    finally:
        for path in chosen:
            path.write_bytes(files[path])


def test_the_sound_store_answers(sound: tuple[Path, dict[Path, bytes], str]) -> None:
    root, _, text = sound
    for question in questions(reopen(root), text):
        question()
