"""The exercises: made of a seed, open at first, solved by the commands that repair real stores."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from rocketfsck.commands.learn import EXERCISES, MESSAGE_COUNT, LearnAnswer, LearnCommand, learn
from rocketfsck.common.documents import to_document
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.writer.damage import DAMAGES, damage_store

from tests.conftest import NIGHTLY
from tests.unit.cli.conftest import Cli


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("learn") / "exercises"
    answer = learn(LearnCommand(directory))
    assert (answer.exit_code, answer.solved_count) == (0, 0)
    return directory


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "exercises"))


def _look(directory: Path) -> LearnAnswer:
    return learn(LearnCommand(directory, verify=True))


def _problems(answer: LearnAnswer) -> dict[str, str | None]:
    return {one.name: one.problem for one in answer.exercises}


def _bytes_of(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_every_exercise_is_open_at_first(made: Path) -> None:
    before = _bytes_of(made)
    answer = _look(made)
    assert (answer.exit_code, answer.solved_count) == (4, 0)
    assert all(str(one.problem).startswith("a check finds ") for one in answer.exercises)
    assert {one.state for one in answer.exercises} == {"open"}
    assert _bytes_of(made) == before, "nothing is changed"
    assert to_document(answer)["exercises"][0]["store"] == str(made / "1-missing-queue" / "store")


def test_each_text_is_in_the_list_of_tasks(made: Path) -> None:
    text = " ".join((made / "tasks.txt").read_text("utf-8").split())
    for exercise in EXERCISES:
        assert f"{exercise.name} {exercise.title}. {exercise.task} Hint: {exercise.hint}" in text
        assert exercise.fault in DAMAGES


def test_the_seed_decides_all_bytes(made: Path, tmp_path: Path) -> None:
    learn(LearnCommand(tmp_path / "same", seed=0))
    assert _bytes_of(tmp_path / "same") == _bytes_of(made)
    learn(LearnCommand(tmp_path / "other", seed=1))
    assert _bytes_of(tmp_path / "other") != _bytes_of(made)


@pytest.mark.parametrize("seed", range(2, 40 if NIGHTLY else 3))
def test_each_seed_has_all_exercises(seed: int, tmp_path: Path) -> None:
    learn(LearnCommand(tmp_path / "made", seed=seed))
    assert [one.problem is None for one in _look(tmp_path / "made").exercises] == [False] * len(EXERCISES)


def test_repairs_solve_the_exercises_and_undo_opens_them(directory: Path, cli: Cli) -> None:
    for exercise in EXERCISES[:4]:
        assert cli("fix", "--yes", directory / exercise.name / "store").code == 1
    answer = _look(directory)
    assert answer.solved_count == 4
    assert [one.state for one in answer.exercises] == ["solved"] * 4 + ["open"]
    assert cli("undo", "--yes", directory / "1-missing-queue" / "store").code == 0
    assert _look(directory).solved_count == 3


def test_a_filler_message_does_not_solve_the_last_and_the_replica_does(directory: Path, cli: Cli) -> None:
    name, store = EXERCISES[4].name, directory / EXERCISES[4].name / "store"
    assert cli("fix", "--yes", store).code == 1
    assert (
        _problems(_look(directory))[name]
        == "the check is clean, but the store lacks 1 message that the damage left"
    )
    assert cli("undo", "--yes", store).code == 0
    plan = directory / "plan.json"
    cli("compare", store, directory / "sound", "--heal", "-o", plan)
    assert cli("apply", "--yes", plan).code == 1
    assert _problems(_look(directory))[name] is None


def test_an_empty_store_is_no_solution(directory: Path, cli: Cli) -> None:
    store = directory / EXERCISES[0].name / "store"
    shutil.rmtree(store)
    assert _problems(_look(directory))[EXERCISES[0].name] == "the store is missing"
    cli("write", "--synth", "--messages", "3", "--manifest", "none", "--into", store)
    # the same seed gives the same first messages
    lacking = f"the check is clean, but the store lacks {MESSAGE_COUNT - 3} messages that the damage left"
    assert _problems(_look(directory))[EXERCISES[0].name] == lacking


def test_a_store_that_cannot_be_read_keeps_no_other_from_an_answer(directory: Path, cli: Cli) -> None:
    shutil.rmtree(directory / "1-missing-queue" / "store")
    (directory / "1-missing-queue" / "store").mkdir()
    assert cli("fix", "--yes", directory / "2-renamed-file" / "store").code == 1
    found = _problems(_look(directory))
    assert str(found["1-missing-queue"]).startswith("the store cannot be read: ")
    assert found["2-renamed-file"] is None


def test_more_messages_lost_than_need_be_is_no_solution(directory: Path, cli: Cli) -> None:
    """The power loss destroyed one message: a store from which two are cut does not pass."""
    store, once = directory / "3-power-loss" / "store", directory / "once"
    assert cli("fix", "--yes", "--no-undo", store).code == 1
    assert _problems(_look(directory))["3-power-loss"] is None
    store.rename(once)
    damage_store(once, store, ["torn-tail"], 3, write_truth=False)
    assert cli("fix", "--yes", "--no-undo", store).code == 1
    lacking = "the check is clean, but the store lacks 2 messages that the damage left"
    assert _problems(_look(directory))["3-power-loss"] == lacking


def test_a_sound_store_that_was_changed_is_named(directory: Path) -> None:
    segment = min((directory / "sound" / "commitlog").iterdir())
    with segment.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 8)
    with pytest.raises(StoreError, match="the sound store is changed"):
        _look(directory)


def test_bad_places_have_a_clear_answer(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists; give a new directory"):
        learn(LearnCommand(directory))
    with pytest.raises(UsageError, match="has no exercises; `rocketfsck learn"):
        _look(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="--seed is for new exercises"):
        learn(LearnCommand(directory, verify=True, seed=1))


def test_the_command_line(cli: Cli, tmp_path: Path) -> None:
    made = cli("learn", tmp_path / "new")
    assert made.code == 0
    assert f"Next: rocketfsck check {tmp_path}/new/1-missing-queue/store\n" in made.out
    looked = cli("learn", tmp_path / "new", "--verify")
    assert looked.code == 4
    assert "0 of 5 exercises are solved.\n" in looked.out
    assert looked.out.startswith("1-missing-queue  open: a check finds ")
    assert cli("learn", tmp_path / "missing" / "below").code in (8, 16)
    assert cli("learn", tmp_path / "new").code == 16
