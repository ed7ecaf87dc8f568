"""Config files out of what is left of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.config import decode_config, encode_config, topic_configs
from rocketfsck.repair.build.config import build_subscriptions, build_topics, close_text, read_config
from rocketfsck.repair.plan.arguments import ConfigOrigin, DelayLevels, TopicNames, TopicType, TopicTypes
from rocketfsck.repair.plan.model import Action
from rocketfsck.verify.store.configfiles import is_system_topic

from tests.conftest import Directory
from tests.unit.repair.repairs.conftest import Patient, Patients, bad, names

TOPICS = "config/topics.json"
OFFSETS = "config/consumerOffset.json"
GROUPS = "config/subscriptionGroup.json"


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ('{"a":{"b":1,"c":2', {"a": {"b": 1}}),
        ('{"a":{"b":1,"c":2},"d":{"e":', {"a": {"b": 1, "c": 2}}),
        ('{"a":[1,2,3', {"a": [1, 2]}),
        ('{"a":"x,}\\"y","b', {"a": 'x,}"y'}),
        ("{'a':'q','b':3", {"a": "q"}),
        ('{"a":{"b":1,"c":2\0\0\0', {"a": {"b": 1}}),
        ('{"a":1,"b":2}]', {"a": 1}),
    ],
)
def test_a_text_that_was_cut_is_closed(text: str, closed: object) -> None:
    data = close_text(text.encode())
    assert data is not None and decode_config(data) == closed


@pytest.mark.parametrize("text", ["", "{", '{"a":{', '{"a":{},', "[1,2,", '{"a', "\0\0", "}", '{:,"a":1'])
def test_of_nothing_nothing_is_made(text: str) -> None:
    assert close_text(text.encode()) is None


def test_topics_out_of_the_log_and_the_queues(patient: Patients) -> None:
    store = patient("5.3.3-basic").open()
    data = build_topics(store)
    assert data is not None
    made = topic_configs(decode_config(data))
    written = topic_configs(decode_config((store.root / TOPICS).read_bytes()))
    assert {queue.topic for queue in store.queues} <= set(made) | {"SCHEDULE_TOPIC_XXXX"}
    for name in set(made) & set(written):
        assert made[name].read_queue_nums <= max(written[name].read_queue_nums, made[name].read_queue_nums)
    batch = build_topics(
        dataclasses.replace(store, queues=(dataclasses.replace(store.queues[0], kind="batch"),))
    )
    assert batch is not None and b"BatchCQ" in batch


def test_no_topics_of_an_empty_store(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file("commitlog/00000000000000000000").write_bytes(bytes(65536))
    assert build_topics(dataclasses.replace(sick.open(), queues=())) is None


def test_a_lost_topics_file_is_made_of_the_log(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(TOPICS).write_bytes(bytes(100))
    sick.file(f"{TOPICS}.bak").unlink(missing_ok=True)
    plan, after = sick.mend()
    (action,) = plan.actions
    assert (action.name, action.preen) == ("restore-config", False)
    assert isinstance(action.arguments, ConfigOrigin) and action.arguments.source == "log"
    made = topic_configs(decode_config(sick.mended(TOPICS).read_bytes()))
    assert {item.topic: item.queue_count for item in action.arguments.topics} == {
        name: topic.write_queue_nums for name, topic in made.items()
    }
    assert not bad(after)
    assert TOPICS in sick.aside()


def test_groups_without_settings_get_those_of_new_groups(real_copy: Directory, tmp_path: Path) -> None:
    sick = Patient(real_copy("5.5.0-full-killed"), tmp_path / "area")
    known = decode_config(sick.file(GROUPS).read_bytes())["subscriptionGroupTable"]
    for name in (GROUPS, f"{GROUPS}.bak"):
        sick.file(name).unlink(missing_ok=True)
    plan, after = sick.mend()
    (action,) = [action for action in plan.actions if action.name == "restore-config"]
    assert (action.target, action.preen) == (GROUPS, False)
    assert isinstance(action.arguments, ConfigOrigin) and action.arguments.source == "groups"
    made = decode_config(sick.mended(GROUPS).read_bytes())["subscriptionGroupTable"]
    assert made.keys() == {*action.arguments.groups} and made.keys() <= known.keys()
    for name, settings in made.items():
        assert {**known[name], **settings} == known[name]
    assert RuleName.SUBSCRIPTIONS_GONE not in bad(after)


def test_groups_are_not_made_up(real_copy: Directory, tmp_path: Path) -> None:
    sick = Patient(real_copy("5.5.0-full-killed"), tmp_path / "area")
    assert build_subscriptions(sick.open()) is None  # the file is there
    sick.file(GROUPS).write_bytes(bytes(100))
    sick.file(f"{GROUPS}.bak").unlink(missing_ok=True)
    assert GROUPS not in {action.target for action in sick.plan().actions}


@pytest.mark.parametrize("content", [b"{}", b"null"])
@pytest.mark.parametrize("source", ["backup", "log"])
def test_a_file_without_any_topic_gets_them_again(patient: Patients, content: bytes, source: str) -> None:
    sick = patient("5.3.3-basic")
    before = topic_configs(decode_config(sick.file(TOPICS).read_bytes()))
    sick.file(f"{TOPICS}.bak").write_bytes(sick.file(TOPICS).read_bytes() if source == "backup" else content)
    sick.file(TOPICS).write_bytes(content)
    assert "CF024" in bad(sick.check())
    plan, after = sick.mend()
    (arguments,) = [one.arguments for one in plan.actions if one.target == TOPICS]
    assert isinstance(arguments, ConfigOrigin) and arguments.source == source
    assert "CF024" not in bad(after)
    stored = {queue.topic for queue in sick.open().queues} & before.keys()
    assert stored and stored <= topic_configs(decode_config(sick.mended(TOPICS).read_bytes())).keys()


def test_a_file_that_is_written_anew_is_not_cut_as_well(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(TOPICS).write_bytes(b"[1, 2] and more")
    sick.file(f"{TOPICS}.bak").unlink(missing_ok=True)
    assert {"CF003", "CF007"} <= bad(sick.check())
    plan, after = sick.mend()
    assert names(plan) == ["restore-config"]
    assert not bad(after)


def test_the_beginning_of_a_cut_file_is_kept(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    data = sick.file(OFFSETS).read_bytes()
    sick.file(OFFSETS).write_bytes(data[: len(data) // 2])
    sick.file(f"{OFFSETS}.bak").unlink()
    plan, after = sick.mend()
    assert [action.arguments for action in plan.actions] == [ConfigOrigin("beginning")]
    assert not bad(after)
    whole, part = decode_config(data), decode_config(sick.mended(OFFSETS).read_bytes())
    assert part["offsetTable"] and part["offsetTable"].items() <= whole["offsetTable"].items()


def test_topics_that_a_cut_file_lost_are_listed_again(real_copy: Directory, tmp_path: Path) -> None:
    sick = Patient(real_copy("5.5.0-full-killed"), tmp_path / "area")
    data = sick.file(TOPICS).read_bytes()
    for name in (TOPICS, f"{TOPICS}.bak"):
        sick.file(name).write_bytes(data[: len(data) // 2])
    plan, after = sick.mend(only=["restore-config"])
    (action,) = plan.actions
    assert "keep the topics that are whole" in action.note and TOPICS not in str(bad(after))
    whole = topic_configs(decode_config(data))
    made = topic_configs(decode_config(sick.mended(TOPICS).read_bytes()))
    assert isinstance(action.arguments, ConfigOrigin)
    added = {topic.topic for topic in action.arguments.topics}
    kept = made.keys() - added
    assert added and kept and all(made[topic] == whole[topic] for topic in kept)
    topics = {queue.topic for queue in sick.open().queues if not is_system_topic(queue.topic)}
    assert topics <= made.keys() <= whole.keys()


def test_what_is_left_must_have_the_right_shape(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(OFFSETS).write_bytes(b'{"offsetTable":"x","more":[1,2')
    sick.file(f"{OFFSETS}.bak").write_bytes(b"[]")
    plan = sick.plan()
    assert not plan.actions and {item.rule for item in plan.unanswered} == {"CF002", "CF007"}


def test_a_backup_that_is_newer_but_of_another_shape_is_not_taken(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    value = decode_config(sick.file(TOPICS).read_bytes())
    value["dataVersion"]["counter"] += 5
    sick.file(f"{TOPICS}.bak").write_bytes(encode_config({**value, "topicConfigTable": [1]}))
    assert "CF006" in bad(sick.check())
    assert not sick.plan().actions


def test_topics_get_the_names_that_they_are_listed_under(real_copy: Directory, tmp_path: Path) -> None:
    sick = Patient(real_copy("5.5.0-full-killed"), tmp_path / "area")
    value = decode_config(sick.file(TOPICS).read_bytes())
    table = value["topicConfigTable"]
    first, second, *_ = sorted(table)
    del table[first]["topicName"]
    table[second]["topicName"] = None
    sick.file(TOPICS).write_bytes(encode_config(value))
    assert "CF027" in bad(sick.check())
    plan, after = sick.mend()
    assert "name-topics" in names(plan)
    assert not bad(after)
    mended = topic_configs(decode_config(sick.mended(TOPICS).read_bytes()))
    assert all(topic.topic_name == name for name, topic in mended.items())


def test_names_come_with_a_file_that_is_restored(real_copy: Directory, tmp_path: Path) -> None:
    """The .bak that a broker goes by lacks a name; the file itself cannot be read."""
    sick = Patient(real_copy("5.5.0-full-killed"), tmp_path / "area")
    value = decode_config(sick.file(TOPICS).read_bytes())
    del value["topicConfigTable"][min(value["topicConfigTable"])]["topicName"]
    sick.file(f"{TOPICS}.bak").write_bytes(encode_config(value))
    sick.file(TOPICS).write_bytes(b"{")
    assert "CF027" in bad(sick.check())
    plan = sick.plan()
    assert "restore-config" in names(plan)
    assert "name-topics" in names(plan)


def test_acts_refuse_what_is_gone(patient: Patients) -> None:
    sick = patient("4.9.8-delay")
    for action in (
        Action("restore-config", "config/none.json", "", ConfigOrigin("backup")),
        Action("restore-config", "config/none.json", "", ConfigOrigin("beginning")),
        Action("set-delay-offset", "config/none.json", "", DelayLevels((1,))),
        Action("set-queue-type", "config/none.json", "", TopicTypes((TopicType("T", "SimpleCQ"),))),
        Action("set-queue-type", TOPICS, "", TopicTypes((TopicType("NoSuchTopic", "SimpleCQ"),))),
        Action("name-topics", TOPICS, "", TopicNames(("NoSuchTopic",))),
    ):
        with pytest.raises(StoreError):
            sick.act(action)


def test_the_offset_of_a_level_without_a_queue_is_zero(patient: Patients) -> None:
    sick = patient("4.9.8-delay")
    sick.file("config/delayOffset.json").write_bytes(b'{"offsetTable":{9:5}}')
    plan, after = sick.mend()
    assert names(plan) == ["set-delay-offset"]
    assert decode_config(sick.mended("config/delayOffset.json").read_bytes())["offsetTable"] == {9: 0}
    assert not bad(after)


def test_reading_what_is_no_config(patient: Patients) -> None:
    root = patient("5.3.3-basic").root
    assert read_config(str(root / "none"), 100) is None
    assert read_config(str(root / TOPICS), 10) is None
    assert read_config(str(root / "lock"), 10) is None
    assert json.dumps(read_config(str(root / TOPICS), 1 << 20))


@pytest.mark.parametrize("with_copy", [True, False])
def test_offsets_that_are_gone_come_from_the_copy_only(patient: Patients, with_copy: bool) -> None:
    sick = patient("5.3.3-basic")
    topics = decode_config(sick.file(TOPICS).read_bytes())
    topics["topicConfigTable"]["%RETRY%cg"] = {
        "topicName": "%RETRY%cg", "readQueueNums": 1, "writeQueueNums": 1
    }  # fmt: skip
    sick.file(TOPICS).write_bytes(encode_config(topics))
    whole = sick.file(OFFSETS).read_bytes()
    sick.file(OFFSETS).write_bytes(b"{}")
    sick.file(f"{OFFSETS}.bak").write_bytes(whole if with_copy else b"{}")
    assert "CF015" in bad(sick.check())
    plan, after = sick.mend()
    if with_copy:
        assert names(plan) == ["restore-config"] and not plan.actions[0].preen
        assert plan.actions[0].notices
        assert not bad(after) and sick.mended(OFFSETS).read_bytes() == whole
    else:
        assert names(plan) == [] and bad(after) == {"CF015"}
