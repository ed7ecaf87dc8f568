"""Lines of logs: each statement of the released sources is itself, and real lines have answers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.answers import entries_of, explain_text
from rocketfsck.verify.logged.areas import AREAS, FAMILIES
from rocketfsck.verify.logged.matching import Saying, family_of, match, sayings, statements
from rocketfsck.verify.rules.catalog import FAULT_CLASSES

LOGS = Path(__file__).parents[3] / "data/logs"
OF_RECOVERY = re.compile(
    r"CommitLog#(recover|check)|DLedgerCommitLog#\w*[rR]ecover|MappedFileQueue#(do)?[lL]oad|ConfigManager#load|"
    r"DefaultMessageStore#(load|recover|truncate)|ConsumeQueue(Store)?#(recover|correct|truncateDirty)|"
    r"IndexService#load|StoreCheckpoint#"
)


def _filled(saying: Saying, fill: str) -> str:
    """The text with each hole filled."""
    return fill.join(saying.parts)


@pytest.mark.parametrize("fill", ["7", "a/b-c", "TopicTest"])
def test_each_statement_is_recognised_as_itself(fill: str) -> None:
    others = []
    for saying in sayings():
        found = match([_filled(saying, fill)])
        assert found is not None, saying
        if found.saying is not saying:
            others.append((saying, found.saying))
    assert all(_alike(*pair) for pair in others)
    assert len(others) < 4


def _alike(one: Saying, other: Saying) -> bool:
    """Whether two texts of neighbouring versions differ in punctuation alone."""
    letters = [re.sub(r"\W", "", _filled(said, "")) for said in (one, other)]
    return letters[0] == letters[1] or family_of(one.statements[0]) is family_of(other.statements[0])


def test_each_row_is_of_statements_and_names_what_exists() -> None:
    used = Counter(family.name for said in statements() if (family := family_of(said)) is not None)
    for family in FAMILIES.values():
        assert used[family.name] > 0 or family.frames or family.errors, family.name
        assert set(family.rules) <= set(RuleName)
        assert set(family.classes) <= FAULT_CLASSES.keys(), family.name


def test_each_error_and_warning_of_recovery_has_a_row_of_its_own() -> None:
    grave = [
        said for said in statements() if said.level in ("error", "warn") and OF_RECOVERY.match(said.place)
    ]
    assert len(grave) > 40
    assert [said for said in grave if family_of(said) is None] == []


def test_each_class_does_something_known() -> None:
    begins = tuple(begin for area in AREAS for begin in area.begins)
    assert [said.place for said in statements() if not said.owner.startswith(begins)] == []


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_real_lines_have_answers(log: Path) -> None:
    """Lines of real brokers, of the classes that log about stores."""
    assert explain_text(log.read_text("utf-8")).unknown_count == 0


@pytest.mark.parametrize(
    "layout",
    [
        "{}",
        "2026-02-24 09:38:29 WARN main - {}",
        "2026-02-24 09:38:29,123 WARN [main] - {}",
        "15:07:46.209 WARN  RocketmqStore {}",
        "[2026-02-24T09:38:29.123Z] [main] WARN RocketmqStore - {}",
    ],
)
def test_layouts(layout: str) -> None:
    [found] = explain_text(layout.format("found a illegal magic code 0x696e4d73")).answers
    assert found.family is FAMILIES["illegal-magic"]
    assert found.weight == "damage"
    assert found.values == (("toHexString", "696e4d73"),)


def test_what_is_in_a_hole_may_make_a_line_normal() -> None:
    [found] = explain_text("found a illegal magic code 0x0").answers
    assert found.weight == "normal"


TRACE = """\
2026-02-24 09:38:29 ERROR main - load exception
java.lang.IllegalArgumentException: null
        at java.nio.Buffer.position(Buffer.java:244)
        at org.apache.rocketmq.store.MappedFile.selectMappedBuffer(MappedFile.java:410)
        at org.apache.rocketmq.store.ConsumeQueue.correctMinOffset(ConsumeQueue.java:370)
        at org.apache.rocketmq.store.DefaultMessageStore.recoverTopicQueueTable(DefaultMessageStore.java:1631)
        ... 3 common frames omitted
"""


@pytest.mark.parametrize("text", [TRACE, TRACE.partition("\n")[2], TRACE.replace("\n", "\r\n")])
def test_a_stack_trace(text: str) -> None:
    """The trace of issue 10108: the frame says more than the line above it."""
    [found] = explain_text(text).answers
    assert found.family is FAMILIES["queue-last-file-empty"]
    assert [issue.number for issue in found.family.issues][:2] == [10108, 9728]


def test_a_line_without_a_row_says_who_logs_it_since_when() -> None:
    [found] = explain_text("ERROR X - IndexStoreService recover, load local file error").answers
    assert found.family is None
    assert found.logged_by[0].place == "IndexStoreService#recover"
    assert found.logged_by[0].versions == "5.2.0-5.5.0"
    assert "tiered" in found.meaning


@pytest.mark.parametrize(
    "text",
    [
        "hello world",
        "the quick brown fox",
        "2026-02-24 09:38:29 INFO main - brokerName=broker-a",
        "",
        "\n\n",
        "java.lang.NullPointerException: null\n\tat com.example.Main.main(Main.java:1)",
        "magic code",
    ],
)
def test_what_is_not_about_a_store(text: str) -> None:
    assert explain_text(text).answers == ()


def test_equal_lines_are_counted_and_the_gravest_comes_first() -> None:
    lines = ["Over index file capacity: index count = 250; index max num = 250"] * 3
    found = explain_text("\n".join([*lines, "found a illegal magic code 0x55555555", "nothing"]))
    assert [(answer.weight, answer.count, answer.line) for answer in found.answers] == [
        ("damage", 1, 4),
        ("normal", 3, 1),
    ]
    assert (found.entry_count, found.unknown_count) == (5, 1)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\udcff\x00\x1b[31m" * 9, "a b " * 200_000, "{} " * 5_000])
def test_hostile_text_takes_no_time(text: str) -> None:
    assert explain_text(text).answers == ()
    [entry] = entries_of(text[:50])
    assert entry.number == 1
