"""Starts in short: which versions start alike, what is worse than what."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import rocketfsck.query
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.dialect import ALL_VERSIONS, dialect_of, parse_version
from rocketfsck.formats.versions import BrokerTraits, StartTraits
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.query.start.verdict import (
    COMPARED,
    StartVerdict,
    message_change,
    predict_starts,
    start_classes,
    versions_of,
    worse,
)
from rocketfsck.reader import configs
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings

from tests.conftest import Directory
from tests.unit.query.maker import make, message, reopen

FINE = StartVerdict("5.3.3", ("5.3.2", "5.3.3"), covered=True, loads=True, reached_count=100)
CLASSES = start_classes(ALL_VERSIONS)


def test_the_traits_are_those_that_a_start_goes_by() -> None:
    """Every trait of a dialect that the modules of the prediction mention, and no other."""
    modules = sorted((Path(rocketfsck.query.__file__).parent / "start").glob("*.py"))
    assert modules
    names = {
        node.attr
        for module in modules
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    traits = {item.name for item in fields(BrokerTraits)}
    assert {item.name for item in fields(StartTraits)} == names & traits


def test_versions_that_start_alike_are_together() -> None:
    groups = start_classes(map(parse_version, ("5.3.3", "4.9.8", "5.3.2", "4.9.3", "4.4.0", "4.9.8")))
    assert [tuple(map(str, group)) for group in groups] == [
        ("4.4.0",),
        ("4.9.3", "4.9.8"),
        ("5.3.2", "5.3.3"),
    ]


@pytest.mark.parametrize("name", ["4.9.8-multiseg--flip-older-file", "5.3.3-killed--as-is"])
def test_one_of_a_class_stands_for_all(name: str, restart_dir: Directory) -> None:
    store = open_store(restart_dir(name))
    for group in CLASSES:
        starts = [simulate_start(store, str(version)) for version in (group[0], group[-1])]
        assert replace(starts[0], version="") == replace(starts[1], version="")


def test_a_named_version_is_the_only_one(tmp_path: Path) -> None:
    make(tmp_path, [message(number) for number in range(3)])
    assert list(map(str, versions_of(reopen(tmp_path, version="5.1.4")))) == ["5.1.4"]
    store = open_store(tmp_path / "store")
    assert versions_of(store) == store.dialect_evidence.versions
    assert len(versions_of(store)) > 1


def test_the_verdicts_of_a_damaged_store(restart_dir: Directory) -> None:
    store = open_store(restart_dir("4.9.8-multiseg--flip-older-file"))
    found = predict_starts(store, start_classes(map(parse_version, ("4.9.8", "5.3.3"))))
    old, new = found
    assert (old.version, old.cut_count, old.harmless) == ("4.9.8", 327, False)
    assert (old.deleted_file_count, old.reached_count) == (6, 973)
    assert (new.cut_count, new.lost_count, new.lost_key_count, new.harmless) == (0, 0, 0, True)
    assert new.reached_count == 1300
    (quick,) = predict_starts(store, [(parse_version("5.3.3"),)], losses=False)
    assert (quick.cut_count, quick.reached_count, quick.lost_count) == (0, None, None)


def test_what_is_not_covered_says_why(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-dledger"))
    other = Settings(None, {"enableDLegerCommitLog": "true", "dLegerSelfId": "n1"})
    found = predict_starts(store, start_classes(map(parse_version, ("4.4.0", "5.3.3"))), conf=other)
    assert [(item.covered, item.loads, item.harmless) for item in found] == [
        (True, True, False),
        (False, False, False),
    ]
    assert "broker.conf names the node n1, but the store has dledger-n0" in found[1].reason


def test_a_refusal_has_its_reason(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(3)])
    (store.root / "commitlog/stray").write_bytes(b"12345")
    (found,) = predict_starts(reopen(tmp_path), [(parse_version("5.3.3"),)])
    assert not found.loads and not found.harmless
    assert found.file == "commitlog/stray"
    assert found.reason.startswith("5 length not matched")
    assert found.obstacle == f"{found.file}: {found.reason}"


@pytest.mark.parametrize("name", COMPARED)
def test_more_of_anything_is_worse(name: str) -> None:
    def with_count(count: Any) -> StartVerdict:
        changed: dict[str, Any] = {name: count}
        return replace(FINE, **changed)

    bad = with_count(True if name == "queues_destroyed" else 2)
    assert not bad.harmless
    if name == "queues_destroyed":
        assert worse(FINE, bad) == ("deletes all consume queues",)
        assert worse(bad, bad) == ()
    else:
        first = with_count(1)
        (reason,) = worse(first, bad)
        assert "2" in reason and "(1 before)" in reason
        assert worse(bad, first) == worse(bad, bad) == ()
    assert worse(bad, FINE) == ()


FEWER = "leaves consumers 11 messages fewer than before"
TWICE = "uses 17 queue offsets twice (0 before)"


@pytest.mark.parametrize(
    ("before", "after", "given_up", "reasons"),
    [
        # a start that cut 325 messages uses 17 queue offsets twice instead
        ({"cut_count": 325, "reached_count": 100}, {"reached_count": 425, "reissued_count": 17}, 0, ()),
        ({"reached_count": 100}, {"reached_count": 110, "reissued_count": 17}, 0, (TWICE,)),
        ({"reached_count": 100}, {"reached_count": 117, "reissued_count": 17}, 0, (TWICE,)),
        ({"reached_count": None}, {"reached_count": None, "reissued_count": 17}, 0, (TWICE,)),
        # more messages, and keys that queries no longer find
        ({"reached_count": 100}, {"reached_count": 101, "lost_key_count": 60}, 0, ()),
        # what the actions give up explains what is missing, and is no gain
        ({"reached_count": 100}, {"reached_count": 90}, 10, ()),
        ({"reached_count": 100}, {"reached_count": 90, "reissued_count": 17}, 99, (TWICE,)),
        (
            {"reached_count": 100},
            {"reached_count": 89},
            10,
            ("leaves consumers 11 messages fewer than before",),
        ),
        # as many messages, and half of them never delivered
        (
            {"reached_count": 100},
            {"reached_count": 103, "timer_lost_count": 4},
            0,
            ("never delivers 4 timer messages (0 before)",),
        ),
    ],
)
def test_messages_are_weighed_as_a_whole(
    before: dict[str, Any], after: dict[str, Any], given_up: int, reasons: tuple[str, ...]
) -> None:
    assert worse(replace(FINE, **before), replace(FINE, **after), given_up) == reasons


def test_a_new_refusal_is_worse_and_an_old_one_is_not() -> None:
    refused = replace(FINE, loads=False, file="a", reason="3 length not matched")
    assert worse(FINE, refused) == ("does not start (a: 3 length not matched)",)
    assert worse(refused, refused) == ()
    assert worse(refused, replace(FINE, cut_count=9)) == ()
    unknown = replace(FINE, covered=False, loads=False)
    assert worse(unknown, refused) == worse(FINE, unknown) == ()


def test_fewer_messages_in_reach_are_worse_but_for_those_given_up() -> None:
    fewer = replace(FINE, reached_count=90)
    (reason,) = worse(FINE, fewer, 9)
    assert reason == "leaves consumers 10 messages fewer than before"
    assert worse(FINE, fewer, 10) == worse(fewer, FINE) == ()


def test_messages_of_deleted_topics_are_no_loss() -> None:
    """A start without queues would have brought them back; a repair leaves them removed."""
    assert worse(FINE, replace(FINE, reached_count=60, deleted_count=40)) == ()
    (clause,) = worse(FINE, replace(FINE, reached_count=59, deleted_count=40))
    assert "1 message fewer" in clause
    assert worse(replace(FINE, deleted_count=40), replace(FINE, reached_count=60, deleted_count=40)) != ()
    again = replace(FINE, reissued_count=1)
    assert message_change(again, replace(FINE, reached_count=60, deleted_count=40)) == 1


def test_dialects_of_a_class_have_the_same_traits() -> None:
    names = [item.name for item in fields(StartTraits)]
    for group in CLASSES:
        assert len({tuple(getattr(dialect_of(item), name) for name in names) for item in group}) == 1
    assert sum(map(len, CLASSES)) == len(ALL_VERSIONS)


def test_topics_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions are asked for, and however often each start asks."""
    store = make(tmp_path, [message(number) for number in range(20)])
    path = Path(store.root) / "config" / "topics.json"
    path.write_text(
        '{"topicConfigTable":{"Order":{"topicName":"Order","readQueueNums":1,"writeQueueNums":1}}}'
    )
    decoded = Mock(wraps=decode_config)
    monkeypatch.setattr("rocketfsck.formats.config.decode_config", decoded)
    assert len(predict_starts(reopen(tmp_path), CLASSES)) > 5
    assert [call.args for call in decoded.call_args_list] == [(path.read_bytes(),)]
    path.write_text(
        '{"topicConfigTable":{"Order":{"topicName":"Order","readQueueNums":2,"writeQueueNums":2}}}'
    )
    topics = configs.loaded_topics(reopen(tmp_path))
    assert topics is not None and topics["Order"].read_queue_nums == 2
