"""The rules CF of config files, alone and against the queues: each fires in one store and not in another."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.store.config import check_config
from rocketfsck.verify.tasks.task import Known

from tests.unit.verify.storemaker import NOW, QUEUE_SIZE, Maker, knowing, log_facts, queue_facts, rules


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path)
    made.log(0)
    made.queue("T", 0)
    made.config("topics.json", topics("T"))
    return made


def topics(*names: str, attributes: dict[str, str] | None = None) -> dict[str, Any]:
    table = {
        name: {
            "attributes": attributes or {},
            "readQueueNums": 4,
            "topicName": name,
            "writeQueueNums": 4,
        }
        for name in names
    }
    return {"dataVersion": {"counter": 3, "timestamp": NOW}, "topicConfigTable": table}


def offsets(**table: dict[int, int]) -> dict[str, Any]:
    return {"offsetTable": {name.replace("__", "@"): value for name, value in table.items()}}


GROUP = "cg"


def test_a_sound_store_has_no_findings(maker: Maker) -> None:
    maker.config("consumerOffset.json", offsets(T__cg={0: 3}))
    maker.config("delayOffset.json", {"offsetTable": {}})
    assert maker.found(check_config, knowing(queue_facts("T", 0, 0, 3))) == []


def test_cf001_damaged_without_a_backup(maker: Maker) -> None:
    path = maker.file("config/consumerOffset.json", b'{"offsetTable":{"T@cg":{0:1')
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.where.file) == ("CF001", "config/consumerOffset.json")
    assert finding.where.start == path.stat().st_size
    maker.file("config/consumerOffset.json.bak", b"{")
    assert rules(maker.found(check_config)) == ["CF001"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "the file is empty"), (bytes(200), "the file has only NUL bytes"), (b"[1,", "ends")],
)
def test_cf002_damaged_with_a_sound_backup(maker: Maker, data: bytes, reason: str) -> None:
    maker.file("config/consumerOffset.json", data)
    maker.config("consumerOffset.json.bak", offsets(T__cg={0: 1}))
    (finding,) = maker.found(check_config)
    assert finding.rule == "CF002"
    assert reason in str(finding.found["reason"])


def test_cf002_what_the_backup_says_is_compared_with_the_queues(maker: Maker) -> None:
    maker.file("config/consumerOffset.json", b"{")
    maker.config("consumerOffset.json.bak", offsets(T__cg={0: 9}))
    found = maker.found(check_config, knowing(queue_facts("T", 0, 0, 3)))
    assert rules(found) == ["CF002", "CF017"]
    assert found[1].where.file == "config/consumerOffset.json.bak"


def test_cf003_trailing_bytes(maker: Maker) -> None:
    path = maker.config("consumerOffset.json", offsets(T__cg={0: 9}))
    whole = path.read_bytes()
    path.write_bytes(whole + b"}\n}")
    found = maker.found(check_config, knowing(queue_facts("T", 0, 0, 3)))
    assert rules(found) == ["CF003", "CF017"]
    assert (found[0].where.start, found[0].where.end) == (len(whole), len(whole) + 3)
    assert found[0].found == {"extra_byte_count": 3, "backup_sound": False}


def test_cf004_only_the_backup_is_there(maker: Maker) -> None:
    maker.config("consumerOffset.json.bak", offsets(T__cg={0: 1}))
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.found["pending"]) == ("CF004", "")
    maker.config("consumerOffset.json.tmp", offsets(T__cg={0: 1}))
    found = maker.found(check_config)
    assert rules(found) == ["CF004", "CF008"]
    assert ".tmp" in str(found[0].found["pending"])


def test_cf005_a_damaged_backup_of_a_sound_file(maker: Maker) -> None:
    maker.file("config/topics.json.bak", b"{]")
    assert rules(maker.found(check_config)) == ["CF005"]
    maker.file("config/topics.json.bak", b"")
    assert maker.found(check_config) == []


def test_cf006_a_backup_that_is_newer(maker: Maker) -> None:
    newer = topics("T")
    newer["dataVersion"]["counter"] = 4
    maker.config("topics.json.bak", newer)
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.found["counter"], finding.expected["counter"]) == ("CF006", 3, 4)
    conf = maker.conf.read_text()
    maker.conf.write_text(conf + "brokerRole=SLAVE\n")  # it takes the file of its master, even an older one
    assert maker.found(check_config) == []
    maker.conf.write_text(conf)
    newer = {**topics("T", "RMQ_SYS_TRANS_HALF_TOPIC"), "dataVersion": newer["dataVersion"]}
    maker.config("topics.json.bak", newer)
    assert maker.found(check_config) == []  # the new master of a slave makes this topic when it needs it
    newer = {**topics("T", "RMQ_SYS_TRANS_HALF_TOPIC", "U"), "dataVersion": newer["dataVersion"]}
    maker.config("topics.json.bak", newer)
    assert rules(maker.found(check_config)) == ["CF006"]
    newer["dataVersion"]["counter"] = 2
    maker.config("topics.json.bak", newer)
    assert maker.found(check_config) == []
    newer["dataVersion"] = {"counter": "many"}
    maker.config("topics.json.bak", newer)
    assert maker.found(check_config) == []


@pytest.mark.parametrize(
    "value", [[], {"offsetTable": []}, {"offsetTable": None}, {"offsetTable": {"T@cg": {"x": 1}}}]
)
def test_cf007_another_shape(maker: Maker, value: object) -> None:
    maker.config("consumerOffset.json", value)
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.where.file) == ("CF007", "config/consumerOffset.json")


def test_cf008_an_unfinished_write(maker: Maker) -> None:
    maker.file("config/topics.json.tmp", b"{")
    assert rules(maker.found(check_config)) == ["CF008"]


def test_a_file_too_large_to_parse_is_not_checked(maker: Maker) -> None:
    maker.file("config/consumerOffset.json", b"{", CONFIG_LIMIT + 1)
    (item,) = maker.run(check_config)
    assert isinstance(item, NotChecked)
    assert item.operational


@pytest.mark.parametrize(
    ("version", "low", "again", "skipped"), [("4.9.8", 0, 0, 1), ("4.9.3", 0, 3, 0), ("4.9.3", 1, 0, 1)]
)
def test_cf010_beyond_the_end(maker: Maker, version: str, low: int, again: int, skipped: int) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config("consumerOffset.json", offsets(T__cg={0: 4}))
    known = knowing(queue_facts("T", 0, low, 3))
    (finding,) = [item for item in maker.found(check_config, known, version) if item.rule != "CF022"]
    assert (finding.rule, finding.where.queue_offset) == ("CF010", 4)
    assert finding.found == {
        "group": GROUP,
        "offset": 4,
        "again_count": again,
        "skipped_count": skipped,
    }
    assert finding.expected["max_offset"] == 3


@pytest.mark.parametrize(
    ("beside", "rule"),
    [
        ({}, "CF017"),  # somebody set it for a group that never came
        ({"subscriptionGroup.json": {"subscriptionGroupTable": {"cg": {}}}}, "CF010"),
        ({"topicQueueMapping.json": {"topicQueueMappingInfoMap": {"T": {}}}}, "CF017"),
    ],
)
def test_cf017_beyond_the_end_in_normal_work(maker: Maker, beside: dict[str, Any], rule: str) -> None:
    for name, value in beside.items():
        maker.config(name, value)
    maker.config("consumerOffset.json", offsets(T__cg={0: 4}))
    assert rules(maker.found(check_config, knowing(queue_facts("T", 0, 0, 3)))) == [rule]


def test_cf010_a_group_with_an_offset_inside_another_queue_consumed_here(maker: Maker) -> None:
    maker.queue("T", 1)
    maker.config("consumerOffset.json", offsets(T__cg={0: 100_000, 1: 2}))
    known = knowing(queue_facts("T", 0, 0, 3), queue_facts("T", 1, 0, 3))
    assert rules(maker.found(check_config, known)) == ["CF010"]
    maker.conf.write_text(maker.conf.read_text() + "brokerRole=SLAVE\n")
    assert rules(maker.found(check_config, known)) == ["CF017"]


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ({"T__a": {0: 1}, "T__b": {0: 2}}, [("a", 5), ("b", 3)]),
        ({"T__a": {0: 1}}, [("a", 5), ("b", 4)]),
        ({"T__a": {0: 1}, "T__b": {0: 5}}, []),  # one group was reset
        ({"T__a": {0: 1}, "T__b": {0: 2}, "T__c": {0: 1}}, []),  # another one went on
        ({"T__a": {0: 6}, "T__b": {0: 5}}, []),
    ],
)
def test_cf016_a_file_that_is_older_than_its_copy(
    maker: Maker, main: dict[str, dict[int, int]], expected: list[tuple[str, int]]
) -> None:
    maker.config("consumerOffset.json", offsets(**main))
    maker.config("consumerOffset.json.bak", offsets(T__a={0: 6}, T__b={0: 5}))
    found = maker.found(check_config, knowing(queue_facts("T", 0, 1, 9)))
    found = [item for item in found if item.rule == "CF016"]
    assert [(item.found["group"], item.found["again_count"]) for item in found] == expected


def test_cf010_in_a_queue_that_is_not_there(maker: Maker) -> None:
    maker.config("consumerOffset.json", offsets(T__cg={3: 4}))
    (finding,) = maker.found(check_config, knowing(queue_facts("T", 0, 0, 3)))
    assert (finding.rule, finding.expected["max_offset"]) == ("CF017", 0)
    assert maker.found(check_config, Known()) == []  # not known: not judged


@pytest.mark.parametrize(
    "known",
    [
        knowing(queue_facts("T", 0, 0, 3), T=4),
        knowing(queue_facts("T", 0, 0, 3, damaged=True)),
        knowing(T=3),
    ],
)
def test_cf011_beyond_the_end_of_a_queue_that_lost_units(maker: Maker, known: Known) -> None:
    maker.config("subscriptionGroup.json", {"subscriptionGroupTable": {"cg": {}}})
    maker.config("consumerOffset.json", offsets(T__cg={0: 4}))
    assert rules(maker.found(check_config, known)) == ["CF011"]


def test_cf012_before_the_first_live_unit(maker: Maker) -> None:
    maker.config("consumerOffset.json", offsets(T__cg={0: 4}))
    (finding,) = maker.found(check_config, knowing(queue_facts("T", 0, 0, 9, live=5)))
    assert (finding.rule, finding.expected["min_offset"]) == ("CF012", 5)
    maker.config("consumerOffset.json", offsets(T__cg={0: 5}))
    assert maker.found(check_config, knowing(queue_facts("T", 0, 0, 9, live=5))) == []


def test_cf013_offsets_of_a_topic_that_is_gone(maker: Maker) -> None:
    maker.config("consumerOffset.json", offsets(Gone__cg={0: 4, 1: 5}))
    (finding,) = maker.found(check_config, knowing(queue_facts("T", 0, 0, 9)))
    assert (finding.rule, finding.where.topic) == ("CF013", "Gone")
    maker.config("consumerOffset.json", offsets(Gone__cg={0: 0}))
    assert maker.found(check_config, knowing(queue_facts("T", 0, 0, 9))) == []


def test_cf013_is_not_said_without_topics(maker: Maker) -> None:
    (maker.root / "config/topics.json").unlink()
    maker.config("consumerOffset.json", {"offsetTable": {"no-group": {0: 4}}})
    assert rules(maker.found(check_config)) == ["CF024"]


def test_cf014_negative_offsets(maker: Maker) -> None:
    maker.config("consumerOffset.json", offsets(T__cg={0: -1}, Gone__cg={1: -7}))
    assert [item.found["offset"] for item in maker.found(check_config) if item.rule == "CF014"] == [-1, -7]


def test_cf020_a_queue_without_a_topic(maker: Maker) -> None:
    maker.queue("U", 0)
    maker.queue("U", 1)
    maker.queue("SCHEDULE_TOPIC_XXXX", 2)
    maker.queue("%LMQ%x", 0)
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.where.topic, finding.found["queue_count"]) == ("CF020", "U", 2)


def test_cf021_a_queue_beyond_the_topics(maker: Maker) -> None:
    maker.queue("T", 3)
    assert maker.found(check_config) == []
    maker.queue("T", 4)
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.where.queue_id) == ("CF021", 4)


def test_cf022_topics_without_a_queue(maker: Maker) -> None:
    maker.config("topics.json", topics("T", *"ABCDEFG", "TBW102"))
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.found["topic_count"]) == ("CF022", 7)
    assert finding.found["topics"] == "A, B, C, D, E, ..."


def test_cf023_a_queue_of_a_deleted_topic(maker: Maker) -> None:
    maker.queue("U", 0)
    alive = queue_facts("U", 0, 0, 9)
    assert rules(maker.found(check_config, knowing(alive))) == ["CF020"]
    facts = queue_facts("U", 0, 0, 9)
    dead = type(facts)("U", 0, "file", 0, 9, None, 50, 9)
    found = maker.found(check_config, knowing(dead))
    assert rules(found) == ["CF023", "CF020"]
    assert found[0].where.file == "consumequeue/U/0"


@pytest.mark.parametrize("name", ["queue.type", "+queue.type"])
def test_st024_a_queue_in_the_wrong_tree(maker: Maker, name: str) -> None:
    maker.config("topics.json", topics("T", attributes={name: "BatchCQ"}))
    (finding,) = maker.found(check_config, version="5.1.3")
    assert (finding.rule, finding.found) == ("ST024", {"area": "consumequeue", "attribute": "BatchCQ"})
    maker.config("topics.json", topics("T", attributes={name: "SimpleCQ"}))
    assert maker.found(check_config, version="5.1.3") == []
    maker.config("topics.json", topics("T", attributes={name: "NewCQ"}))
    assert maker.found(check_config, version="5.1.3") == []


def test_st024_a_batch_queue_of_a_simple_topic(maker: Maker) -> None:
    maker.config("topics.json", topics("T", "B", attributes={"queue.type": "SimpleCQ"}))
    maker.file("batchconsumequeue/B/0/00000000000000000000", b"\1", 460)
    (finding,) = maker.found(check_config, version="5.1.3")
    assert (finding.rule, finding.where.topic) == ("ST024", "B")


def schedule(low: int, high: int) -> Known:
    return knowing(queue_facts("SCHEDULE_TOPIC_XXXX", 2, low, high))


@pytest.mark.parametrize(
    ("offset", "expected"), [(5, []), (9, []), (10, ["CF030"]), (4, ["CF032"]), (-1, ["CF030"])]
)
def test_cf030_cf032_delay_offsets_lie_in_their_queue(maker: Maker, offset: int, expected: list[str]) -> None:
    maker.config("delayOffset.json", {"offsetTable": {3: offset}})
    found = maker.found(check_config, schedule(5, 9))
    assert rules(found) == expected
    assert all(item.where.queue_id == 2 for item in found)


def delayed(maker: Maker, *due_ms: int) -> Known:
    """A queue of level 3 whose messages are due so long after the last record, and what is known."""
    data = b"".join(
        UNIT.build({"offset": 100 * n, "size": 100, "tagsCode": NOW + due}) for n, due in enumerate(due_ms)
    )
    maker.queue("SCHEDULE_TOPIC_XXXX", 2, data=data)
    maker.config("consumerOffset.json", offsets())
    return knowing(queue_facts("SCHEDULE_TOPIC_XXXX", 2, 0, len(due_ms)), logs=(log_facts(0),))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (None, [("CF033", 3, 3)]),
        ({}, [("CF033", 3, 3)]),
        ({3: 0}, [("CF034", 3, 3)]),
        ({3: 2}, [("CF034", 1, 3)]),
        ({3: 3}, []),
        ({3: 4}, []),
    ],
)
def test_cf033_and_cf034_what_was_due_long_ago(
    maker: Maker, table: dict[int, int] | None, expected: list[tuple[str, int, int]]
) -> None:
    known = delayed(maker, -90_000, -80_000, -70_000, -1_000, 5_000)
    if table is not None:
        maker.config("delayOffset.json", {"offsetTable": table})
    found = [item for item in maker.found(check_config, known) if item.where.queue_id == 2]
    assert [(item.rule, item.found["again_count"], item.expected["offset"]) for item in found] == expected


def test_cf033_goes_by_the_last_record_not_by_the_newest_time(maker: Maker) -> None:
    known = delayed(maker, 10_000, 20_000)
    ahead = replace(log_facts(0), max_store_timestamp=NOW + 3_600_000)
    assert maker.found(check_config, replace(known, logs=(ahead,))) == []
    later = replace(log_facts(0), last_store_timestamp=NOW + 3_600_000)
    (finding,) = maker.found(check_config, replace(known, logs=(later,)))
    assert (finding.rule, finding.found["again_count"]) == ("CF033", 2)


def test_cf033_is_not_said_of_a_store_without_a_broker(maker: Maker) -> None:
    known = delayed(maker, -90_000)
    (maker.root / "config/consumerOffset.json").unlink()
    assert maker.found(check_config, known) == []


def test_cf031_a_level_that_is_not_configured(maker: Maker) -> None:
    maker.config("delayOffset.json", {"offsetTable": {18: 0}})
    assert maker.found(check_config) == []
    maker.config("delayOffset.json", {"offsetTable": {19: 0}})
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.expected["level_count"]) == ("CF031", 18)


def timer(maker: Maker, read: int = NOW, flushed: int = 0, queue_offset: int = 0) -> None:
    values = dict.fromkeys((field.name for field in TIMER_CHECK.fields), 0)
    values |= {"lastReadTimeMs": read, "lastTimerLogFlushPos": flushed, "lastTimerQueueOffset": queue_offset}
    maker.file("config/timercheck", TIMER_CHECK.build(values), 4096)


def test_cf040_timercheck_length(maker: Maker) -> None:
    timer(maker)
    assert maker.found(check_config, version="5.1.3") == []
    maker.file("config/timercheck", b"\0" * 40)
    (finding,) = maker.found(check_config, version="5.1.3")
    assert (finding.rule, finding.found["size"]) == ("CF040", 40)


def test_cf041_timercheck_against_clock_timer_log_and_queue(maker: Maker) -> None:
    maker.file("timerlog/00000000000000000000", b"\1", 4096)
    maker.queue("rmq_sys_wheel_timer", 0)
    known = knowing(queue_facts("rmq_sys_wheel_timer", 0, 0, 7))
    timer(maker, NOW, 4096, 7)
    assert maker.found(check_config, known, version="5.1.3") == []
    timer(maker, NOW + 90_000_000, 4097, 8)
    found = maker.found(check_config, known, version="5.1.3")
    assert rules(found) == ["CF041"] * 3
    assert [item.expected["limit"] for item in found] == [NOW + 86_400_000, 4096, 7]
    assert [item.where.start for item in found] == [0, 8, 16]


def test_timercheck_backup_is_not_read_and_one_that_is_gone_is_said(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer(maker)
    maker.file("config/timercheck.bak", b"x")
    assert maker.found(check_config, version="5.1.3") == []
    store = maker.open("5.1.3")
    (maker.root / "config/timercheck").unlink()
    (maker.root / "config/topics.json").unlink()
    monkeypatch.setattr(Maker, "open", lambda *_: store)
    items = maker.run(check_config)
    assert [item.what for item in items if isinstance(item, NotChecked)] == [
        "config/topics.json",
        "config/timercheck",
    ]


def test_cf050_offsets_of_light_queues(maker: Maker) -> None:
    maker.queue("%LMQ%q", 0, size=QUEUE_SIZE)
    table = {"offsetTable": {"%LMQ%q@cg": {0: 1}}}
    maker.config("consumerOffset.json", table)
    known = knowing(queue_facts("%LMQ%q", 0, 0, 3))
    assert rules(maker.found(check_config, known, version="4.9.8")) == ["CF050"]
    assert maker.found(check_config, known, version="4.9.0") == []
    maker.config("consumerOffset.json", {"offsetTable": {}})
    maker.config("lmqConsumerOffset.json", {"lmqOffsetTable": {"%LMQ%q@cg": 5}})
    (finding,) = maker.found(check_config, known)
    assert (finding.rule, finding.where.queue_id, finding.where.queue_offset) == ("CF017", 0, 5)
    maker.queue("T", 0, size=QUEUE_SIZE)  # with enableLmq, the offsets of all groups are in that file
    maker.config("lmqConsumerOffset.json", {"lmqOffsetTable": {}, "offsetTable": {"T@cg": {0: 9}}})
    maker.config("subscriptionGroup.json", {"subscriptionGroupTable": {"cg": {}}})
    (finding,) = maker.found(check_config, knowing(queue_facts("T", 0, 0, 3)))
    assert (finding.rule, finding.where.file) == ("CF010", "config/lmqConsumerOffset.json")


def test_cf024_topics_are_gone_beside_other_configs(maker: Maker) -> None:
    maker.queue("U", 0)
    maker.queue("SCHEDULE_TOPIC_XXXX", 2)
    (maker.root / "config/topics.json").unlink()
    maker.config("subscriptionGroup.json", {"subscriptionGroupTable": {}})
    (finding,) = maker.found(check_config)
    assert (finding.rule, finding.where.file) == ("CF024", "config/topics.json")
    assert (finding.found["topic_count"], finding.found["topics"]) == (2, "T, U")


@pytest.mark.parametrize("value", [None, {}, {"topicConfigTable": {}}])
def test_cf024_a_file_that_lists_no_topic(maker: Maker, value: object) -> None:
    """5.5.0 was asked: it knows its own topics then, and reads no .bak."""
    maker.config("topics.json", value)
    maker.config("topics.json.bak", topics("T"))
    found = [item for item in maker.found(check_config) if item.rule != "CF007"]
    (finding,) = found
    assert (finding.rule, finding.where.start, finding.found["topics"]) == ("CF024", 0, "T")


def test_cf024_is_not_said_of_a_broker_that_found_none(maker: Maker) -> None:
    maker.config("topics.json", topics("TBW102"))
    assert rules(maker.found(check_config)) == ["CF020"]
    maker.config("topics.json", {"topicConfigTable": None})  # from which a broker goes to the .bak
    maker.config("topics.json.bak", topics("T"))
    assert rules(maker.found(check_config)) == ["CF007"]


@pytest.mark.parametrize("entry", [{}, {"topicName": None}])
def test_cf027_a_topic_without_its_name(maker: Maker, entry: dict[str, object]) -> None:
    """5.1.4 and 5.5.0 were asked, and did not start; 5.1.0 and 5.1.1 do."""
    listed = {"T": {"topicName": "T"}, "TBW102": entry, "%RETRY%g": entry}
    maker.config("topics.json", {"topicConfigTable": listed})
    found = [item.where for item in maker.found(check_config) if item.rule == "CF027"]
    assert [(where.file, where.topic) for where in found] == [
        ("config/topics.json", "%RETRY%g"),
        ("config/topics.json", "TBW102"),
    ]


def test_cf027_is_not_said_of_another_name(maker: Maker) -> None:
    """5.5.0 was asked: it starts."""
    maker.config("topics.json", {"topicConfigTable": {"T": {"topicName": "U"}}})
    assert "CF027" not in rules(maker.found(check_config))


@pytest.mark.parametrize("name", ["topics", "rdb"])
def test_cf024_an_empty_directory_is_no_database(maker: Maker, name: str) -> None:
    """5.5.0 was asked: it makes a new database there, and knows none of the topics."""
    (maker.root / "config/topics.json").unlink()
    maker.config("consumerOffset.json", {"offsetTable": {}})
    (maker.root / "config" / name).mkdir()
    (finding,) = [item for item in maker.found(check_config) if item.rule == "CF024"]
    assert finding.found["topics"] == "T"


def test_offsets_of_a_file_with_null_are_gone(maker: Maker) -> None:
    """5.5.0 was asked: it has no offset then, and reads no .bak."""
    maker.queue("T", 0, size=QUEUE_SIZE)
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config("consumerOffset.json", None)
    maker.config("consumerOffset.json.bak", offsets(T__cg={0: 5}))
    facts = (queue_facts("T", 0, 0, 9), queue_facts("%RETRY%cg", 0, 0, 3))
    assert {"CF007", "CF015"} <= set(rules(maker.found(check_config, knowing(*facts))))


def test_cf024_a_timer_wheel_shows_that_a_broker_had_topics(maker: Maker) -> None:
    (maker.root / "config/topics.json").unlink()
    (maker.root / "timerwheel").write_bytes(bytes(64))
    (finding,) = [item for item in maker.found(check_config) if item.rule.startswith("CF")]
    assert (finding.rule, finding.found["topics"]) == ("CF024", "T")


@pytest.mark.parametrize(
    "beside",
    [
        (),  # no configs: these were not copied, or are elsewhere
        ("delayOffset.json",),  # a store without a broker writes that, too
        ("consumerOffset.json", "topics.json.bak"),  # CF004
        ("consumerOffset.json", "topics/CURRENT"),  # topics in RocksDB; the JSON file is of former days
        ("consumerOffset.json", "rdb/CURRENT"),
        ("consumerOffset.json", "metadata/CURRENT"),  # a database of a broker to come
    ],
)
def test_cf024_is_not_said_where_topics_may_be_elsewhere(maker: Maker, beside: tuple[str, ...]) -> None:
    (maker.root / "config/topics.json").unlink()
    for name in beside:
        maker.config(name, topics("T") if "topics" in name else {"offsetTable": {}})
    found = rules(maker.found(check_config))
    assert "CF024" not in found
    assert ("CF025" in found) == (beside in ((), ("delayOffset.json",)))


@pytest.mark.parametrize(
    ("listed", "lacking"),
    [
        (["Other", "Another"], ["%RETRY%g", "T", "U", "V"]),  # another broker's
        (["T", "Other", "Another"], ["%RETRY%g", "U", "V"]),
        (["T", "U", "Other", "Another"], None),  # one was deleted
        (["Other", "TBW102", "%RETRY%x", "Cluster_REPLY_TOPIC"], None),  # a slave's that has just begun
        (["T"], None),  # an older copy: what has no topic may be deleted
        (["T", "U", "V"], None),
    ],
)
def test_cf026_most_topics_are_not_listed(maker: Maker, listed: list[str], lacking: list[str] | None) -> None:
    for topic in ("U", "V", "%RETRY%g", "SCHEDULE_TOPIC_XXXX"):
        maker.queue(topic, 0)
    maker.config("topics.json", topics(*listed))
    found = [finding for finding in maker.found(check_config) if finding.rule == "CF026"]
    assert [finding.found["topics"] for finding in found] == ([", ".join(lacking)] if lacking else [])


def test_cf025_is_not_said_of_a_store_without_queues(maker: Maker) -> None:
    (maker.root / "config/topics.json").unlink()
    shutil.rmtree(maker.root / "consumequeue")
    assert rules(maker.found(check_config)) == []


def test_cf024_is_not_said_of_queues_that_brokers_make_themselves(maker: Maker) -> None:
    shutil.rmtree(maker.root / "consumequeue")
    maker.queue("SCHEDULE_TOPIC_XXXX", 2)
    (maker.root / "config/topics.json").unlink()
    maker.config("consumerOffset.json", {"offsetTable": {}})
    assert maker.found(check_config) == []


def test_cf015_offsets_are_gone_with_their_copy(maker: Maker) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg", "%RETRY%pop_T", "%RETRY%CID_RMQ_SYS_TRANS"))
    maker.config("subscriptionGroup.json", {"subscriptionGroupTable": {"pop": {}}})
    (finding,) = [item for item in maker.found(check_config) if item.rule == "CF015"]
    assert finding.where.file == "config/consumerOffset.json"
    assert finding.found == {"group_count": 2, "groups": "cg, pop", "queue_count": 1, "again_count": 0}


@pytest.mark.parametrize(
    ("table", "retried", "fires"),
    [
        ({}, 0, True),  # no broker writes that
        ({"offsetTable": {}}, 0, False),  # a broadcast group, or one that never committed
        ({"offsetTable": {}}, 2, True),  # a group that sent messages back had offsets
        ({"offsetTable": {"T@cg": {}}}, 2, True),
        ({"offsetTable": {"T@cg": {"0": 1}}}, 2, False),
    ],
)
def test_cf015_empty_tables(maker: Maker, table: dict[str, Any], retried: int, fires: bool) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config("consumerOffset.json", table)
    known = knowing(queue_facts("T", 0, 0, 3), queue_facts("%RETRY%cg", 0, 0, retried))
    assert ("CF015" in rules(maker.found(check_config, known))) is fires


@pytest.mark.parametrize(
    "beside",
    [
        "consumerOffset.json.bak",
        "lmqConsumerOffset.json",
        "consumerOffsets/CURRENT",
        "rdb/CURRENT",
        "metadata/CURRENT",
    ],
)
def test_cf015_is_not_said_where_offsets_are_elsewhere(maker: Maker, beside: str) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config(beside, {"offsetTable": {"T@cg": {"0": 1}}})
    assert "CF015" not in rules(maker.found(check_config))


def test_cf015_is_not_said_of_a_store_without_a_broker(maker: Maker) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config("delayOffset.json", {"offsetTable": {}})  # the store code of 4.x writes that
    assert "CF015" not in rules(maker.found(check_config))


@pytest.mark.parametrize("backup", [None, b""])
def test_cf015_empty_files(maker: Maker, backup: bytes | None) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.file("config/consumerOffset.json", b"")
    if backup is not None:
        maker.file("config/consumerOffset.json.bak", backup)
    (finding,) = [
        item for item in maker.found(check_config, knowing(queue_facts("T", 0, 2, 9))) if item.rule == "CF015"
    ]
    assert finding.found["again_count"] == 7


def test_cf015_is_not_said_without_groups(maker: Maker) -> None:
    maker.config("topics.json", topics("T", "%RETRY%TOOLS_CONSUMER"))
    assert "CF015" not in rules(maker.found(check_config))
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    shutil.rmtree(maker.root / "consumequeue")
    assert "CF015" not in rules(maker.found(check_config))


@pytest.fixture
def ran(maker: Maker) -> Maker:
    """A store whose broker ran: brokers write consumerFilter.json every ten seconds, stores alone do not."""
    maker.config("consumerFilter.json", {"filterDataByTopic": {}})
    return maker


def test_cf018_no_settings_of_groups(ran: Maker) -> None:
    ran.config("topics.json", topics("T", "%RETRY%cg", "%RETRY%cg_T", "%RETRY%one", "%RETRY%CID_RMQ_SYS_X"))
    ran.config("consumerOffset.json", offsets(T__cg={0: 3}, T__two={0: 3}, T__TOOLS_CONSUMER={0: 3}))
    (finding,) = [item for item in ran.found(check_config) if item.rule == "CF018"]
    assert finding.where.file == "config/subscriptionGroup.json"
    assert finding.found == {"group_count": 3, "groups": "cg, one, two"}


@pytest.mark.parametrize("name", ["subscriptionGroup.json", "subscriptionGroup.json.bak"])
def test_cf018_not_with_the_file_or_its_copy(ran: Maker, name: str) -> None:
    ran.config("topics.json", topics("T", "%RETRY%cg"))
    ran.config(name, {"subscriptionGroupTable": {}})
    assert "CF018" not in rules(ran.found(check_config))


@pytest.mark.parametrize("database", ["config/subscriptionGroups", "config/rdb"])
def test_cf018_not_with_a_database(ran: Maker, database: str) -> None:
    ran.config("topics.json", topics("T", "%RETRY%cg"))
    ran.file(f"{database}/CURRENT", b"MANIFEST-000001\n")
    assert "CF018" not in rules(ran.found(check_config))


def test_cf018_not_without_groups(ran: Maker) -> None:
    ran.config("topics.json", topics("T", "%RETRY%TOOLS_CONSUMER"))
    assert "CF018" not in rules(ran.found(check_config))


def test_cf018_not_of_a_store_without_a_broker(maker: Maker) -> None:
    maker.config("topics.json", topics("T", "%RETRY%cg"))
    maker.config("consumerOffset.json", offsets(T__cg={0: 3}))
    assert "CF018" not in rules(maker.found(check_config))
