"""`--mask`: nothing that was said in a store is in the output; the same name has the same mask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.commands.masks import KNOWN_LIMIT, ODD_LIMIT, Masks
from rocketfsck.store.opening import open_store
from rocketfsck.writer.mask.names import KEPT_PREFIXES, SYSTEM_NAMES, Pseudonyms
from rocketfsck.writer.mask.record import masked_properties

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

KEPT = {"127.0.0.1", "0.0.0.0", "DefaultRegion"}
LONG_BODY = 24
COMMANDS = (
    ("dump", "--format", "json", "--body", "text"),
    ("dump", "-v", "--body", "hex"),
    ("dump", "--kind", "all", "--format", "jsonl"),
    ("dump", "--kind", "all", "-v"),
    ("check", "--format", "json"),
    ("check", "--format", "sarif"),
    ("check", "-v", "--all"),
    ("info", "--format", "json", "--stats"),
    ("info", "-v", "--stats"),
    ("query", "offsets", "--format", "json"),
    ("query", "offsets"),
    ("query", "timers", "--format", "csv"),
    ("query", "scan", "queue_id >= 0", "--format", "jsonl", "--body", "base64"),
    ("query", "scan", "queue_id >= 0", "-v", "--body", "text"),
)


def _secrets(root: Path) -> set[str]:
    """Words of six characters and more that only the store's users have said, and bodies."""
    said: set[str] = set()
    bodies: set[str] = set()
    store = open_store(root)
    for message in iter_messages(store):
        said |= {message.topic, *message.keys, *(message.properties or {}).values()}
        said |= {host.rpartition(":")[0].strip("[]") for host in (message.born_host, message.store_host)}
        if message.body and message.body.isascii() and len(message.body) >= LONG_BODY:
            bodies.add(message.body.decode("ascii"))
    said |= {queue.topic for queue in store.queues}
    words = set()
    for text in said - SYSTEM_NAMES:
        for prefix in KEPT_PREFIXES:
            text = text.removeprefix(prefix)
        words |= {word for word in text.split() if len(word) >= 6 and not word.isdecimal()}
    ids = {word for word in words if word.startswith(("7F000001", "00000000"))}  # of 127.0.0.1
    return words - SYSTEM_NAMES - ids - KEPT | bodies


def _asked(cli: Cli, root: Path, command: tuple[str, ...], *more: str) -> str:
    name, *rest = command
    place = rest[:1] if name == "query" else []
    ended = cli(name, *place, root, *rest[len(place) :], *more)
    assert ended.code in (0, 4), ended.err
    return ended.out.replace(str(root), "STORE")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_said_in_the_store_is_shown(cli: Cli, store_dir: Directory, command: tuple[str, ...]) -> None:
    root = store_dir("5.3.3-basic")
    secrets = _secrets(root)
    assert len(secrets) > 100
    text = _asked(cli, root, command, "--mask")
    assert text
    assert sorted(secret for secret in secrets if secret in text) == []
    if command[0] != "check" and command[1] != "timers":
        assert "m-" in text
        plain = _asked(cli, root, command)
        assert any(secret in plain for secret in secrets)


def test_other_stores_and_their_damage(cli: Cli, restart_dir: Directory, real_dir: Directory) -> None:
    for root in (restart_dir("5.1.3-basic--flip-last-file"), real_dir("5.5.0-rocksdb-all")):
        secrets = _secrets(root)
        for command in (("check", "--format", "json"), ("dump", "--kind", "all", "--format", "jsonl")):
            text = _asked(cli, root, command, "--mask")
            assert sorted(secret for secret in secrets if secret in text) == []


def test_a_key_file_gives_the_same_masks(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root, key = store_dir("5.3.3-basic"), tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    command = ("dump", "--format", "jsonl", "--limit", "3")
    first, second = (_asked(cli, root, command, "--mask-key", str(key)) for _ in range(2))
    assert first == second
    assert _asked(cli, root, command, "--mask") != _asked(cli, root, command, "--mask")
    topics = [json.loads(line)["topic"] for line in first.splitlines()]
    offsets = _asked(cli, root, ("query", "offsets"), "--mask-key", str(key))
    assert all(topic in offsets for topic in topics)
    for size in (15, 4097):
        key.write_bytes(bytes(size))
        ended = cli("info", root, "--mask-key", key)
        assert (ended.code, "must have 16 to 4,096 bytes" in ended.err) == (16, True)


def test_what_cannot_be_masked_is_refused(cli: Cli, store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    assert cli("dump", root, "--hex", "--mask").code == 16
    assert cli("check", root, root, "--mask").code == 16


def test_life_and_keys(cli: Cli, store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    secrets = _secrets(root)
    for form in ("text", "json"):
        ended = cli("query", "key", root, "GammaOrder", "lead", "--trace", "--mask", "--format", form)
        assert (ended.code, "GammaOrder" in ended.out, "lead " in ended.out) == (0, False, False)
        found = cli("query", "key", root, "GammaOrder", "lead", "--format", "json").out
        unique_key = json.loads(found)["rows"][0]["unique_key"]
        life = cli("query", "life", root, unique_key, "--mask", "--format", form)
        assert life.code == 0
        assert sorted(secret for secret in secrets if secret in life.out.replace(str(root), "")) == []


def test_names_addresses_and_sentences() -> None:
    masks = Masks(b"0123456789abcdef")
    name = masks.name("Orders")
    assert name.startswith("m-") and len(name) == 12 and masks.name("Orders") == name
    assert masks.name("%RETRY%Orders") == f"%RETRY%{name}"
    assert masks.name("rmq_sys_REVIVE_LOG_Orders") == f"rmq_sys_REVIVE_LOG_{name}"
    assert (masks.name(""), masks.name("SCHEDULE_TOPIC_XXXX")) == ("", "SCHEDULE_TOPIC_XXXX")
    assert masks.text("queue 3 of Orders, %RETRY%Orders and Others") == (
        f"queue 3 of {name}, %RETRY%{name} and Others"
    )
    odd = masks.name("a key: 1")
    assert masks.text("with a key: 1 at 12:34:56 in 5.3.3") == f"with {odd} at 12:34:56 in 5.3.3"
    for said in ("8.8.4.4:10911", "[2001:db8::7]:10911", "2001:db8::7", "8.8.4.4"):
        found = masks.address(said)
        assert found != said and found.endswith(":10911") == said.endswith(":10911")
        assert masks.address(said) == found
    assert (masks.address("127.0.0.1:1"), masks.address("no address")) == ("127.0.0.1:1", "no address")


def test_values_of_fields() -> None:
    masks = Masks(b"0123456789abcdef")
    assert masks.of({"body": b"abc", "body_hex": "616263", "size": 3, "value": None, "type": b"K"}) == {
        "body": b"xxx", "body_hex": "787878", "size": 3, "value": None, "type": b"K",
    }  # fmt: skip
    properties = {"KEYS": "a b", "MSG_REGION": "DefaultRegion", "WAIT": "true", "colour": "red"}
    found = masks.of({"properties": properties})["properties"]
    assert found == {
        "KEYS": f"{masks.name('a')} {masks.name('b')}", "MSG_REGION": "DefaultRegion", "WAIT": "true",
        masks.name("colour"): masks.name("red"),
    }  # fmt: skip
    west = {"MSG_REGION": masks.name("west")}
    assert masks.of({"properties": {"MSG_REGION": "west"}})["properties"] == west
    content = {"topicConfigTable": {"Orders": {"perm": 6}}}
    hidden = {"topicConfigTable": {masks.name("Orders"): {"perm": 6}}}
    assert masks.of({"content": content})["content"] == hidden
    assert masks.of({"content": ["Orders@Orders", 1, "perm"]})["content"] == [
        f"{masks.name('Orders')}@{masks.name('Orders')}", 1, "perm",
    ]  # fmt: skip
    assert json.loads(masks.of({"content": json.dumps(content).encode()})["content"]) == hidden


def test_memory_is_bounded() -> None:
    masks = Masks(b"0123456789abcdef")
    for number in range(KNOWN_LIMIT + 2):
        masks.name(f"a {number}")
    assert len(masks._known) <= KNOWN_LIMIT
    assert len(masks._odd) == ODD_LIMIT


@pytest.mark.parametrize(
    "name",
    ["rmq_sys_REVIVE_LOG_FrankfurtCluster", "rmq_sys_SYNC_BROKER_MEMBER_payments", "RMQ_SYS_Ours12"],
)
def test_names_of_clusters_and_brokers_are_masked(name: str) -> None:
    """RocketMQ makes topics of the names of clusters and brokers: its prefix stays, the name does not."""
    masked = Pseudonyms().name(name)
    stem = next(prefix for prefix in KEPT_PREFIXES if name.startswith(prefix))
    assert masked.startswith(stem) and len(masked) == len(name)
    assert masked != name and name.removeprefix(stem) not in masked


def test_kept_properties_are_numbers_and_switches() -> None:
    """Brokers do not check what a client writes into a system property."""
    said = {"MSG_REGION": "frankfurt-2", "WAIT": "secret words", "DELAY": "phone 4930123", "TRACE_ON": "bank"}
    plain = {"MSG_REGION": "DefaultRegion", "WAIT": "false", "DELAY": "3", "INNER_MULTI_QUEUE_OFFSET": "1,22"}

    def text(values: dict[str, str]) -> bytes:
        return b"\x02".join(f"{name}\x01{value}".encode() for name, value in values.items())

    masked = masked_properties(text(said), Pseudonyms())
    assert len(masked) == len(text(said))
    assert not [value for value in said.values() if value.encode() in masked]
    assert [f"{name}\x01".encode() in masked for name in said] == [True] * 4
    assert masked_properties(text(plain), Pseudonyms()) == text(plain)
    assert dict(Masks()._property(name, value) for name, value in plain.items()) == plain
    assert not {*said.items()} & {Masks()._property(name, value) for name, value in said.items()}


def test_hashes_and_slots_become_other_numbers(cli: Cli, store_dir: Directory) -> None:
    def shown(*more: str) -> list[dict[str, int]]:
        ended = cli("dump", store_dir("5.3.3-basic"), "--kind", "index", "--format", "jsonl", *more)
        assert ended.code == 0
        return [row for row in map(json.loads, ended.out.splitlines()) if "key_hash" in row]

    plain, masked = shown(), shown("--mask")
    assert len(plain) == len(masked) > 10
    for before, after in zip(plain, masked, strict=True):
        assert before["key_hash"] != after["key_hash"]
        assert before["physical_offset"] == after["physical_offset"]
    assert len({row["key_hash"] for row in plain}) == len({row["key_hash"] for row in masked})


def test_times_and_addresses_in_tag_codes_stay() -> None:
    masks = Masks(b"0123456789abcdef")
    assert masks.of({"tagsCode": 1_700_000_000_000, "tags_code": -(1 << 63), "slot": 0}) == {
        "tagsCode": 1_700_000_000_000,
        "tags_code": -(1 << 63),
        "slot": 0,
    }
    assert masks.of({"tagsCode": 12345}) != {"tagsCode": 12345}
