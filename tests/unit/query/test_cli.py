"""The query commands: what they print, in which form, and how they end."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.query import find_by_key
from rocketfsck.query.ids import offset_id_of
from rocketfsck.store import Store
from rocketfsck.writer import Kind

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli
from tests.unit.cli.conftest import cli as cli
from tests.unit.query.maker import GEOMETRY, NOW, make, message, patch

UNIQUE = "0A0F00072F1F18B4AAC247B79CA503F4"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    offsets = {"consumerOffset.json": {"offsetTable": {"Order@one": {0: 3}, "Order@far": {0: 99}}}}
    return make(
        tmp_path,
        [
            *(message(number) for number in range(30)),
            message(30, properties={"UNIQ_KEY": UNIQUE}),
            message(31, "Odd", kind=Kind.PREPARED),
        ],
        config=offsets,
    )


def msg_id(store: Store, key: str) -> str:
    (found,) = find_by_key(store, "Order", key).found
    return offset_id_of(found.message, found.offset)


def test_key(cli: Cli, store: Store) -> None:
    ended = cli("query", "key", store.root, "Order", "k7")
    assert (ended.code, ended.err) == (0, "")
    head, line = ended.out.splitlines()
    assert head.split()[:2] == ["offset", "size"]
    assert line.split()[-4:] == ["T1", "k7", "all", "U0007"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["key", "Order", "zzz"], 4, "no message of topic Order has the key zzz"),
        (["key", "order", "k7"], 4, "the store has no topic order; similar: Order"),
        (["unique-key", "Order", "k7"], 4, "has the unique key k7"),
        (["offset", "Order", "0", "99"], 4, "has offsets 0 to 31, half-open"),
        (["offset", "Order", "7", "0"], 4, "queue 7 of topic Order has no message"),
        (["offset", "order", "0", "0"], 4, "the store has no topic order"),
        (["time", "order", "0", "5"], 4, "the store has no topic order"),
        (["time", "Order", "7", "5"], 4, "no consume queue 7"),
        (["id", "0" * 32], 4, "neither as an offset id nor as a unique id"),
        (["life", "nothing"], 4, "no message has the unique key nothing"),
        (["scan", "topic == 'zzz'"], 4, "nothing matches"),
        (["offsets", "--topic", "zzz"], 4, "no such queue or group"),
        (["key", "Order", "zzz", "--as-broker", "4.4.0"], 4, "a 4.4.0 broker finds nothing"),
        (["offset", "Order", "0", "99", "--as-broker", "4.4.0"], 4, "OFFSET_OVERFLOW_BADLY"),
        (["id", f"{1:032}", "--as-broker", "4.4.0"], 4, "finds no message at physical offset 1"),
    ],
)
def test_what_is_not_there(cli: Cli, store: Store, arguments: list[str], code: int, words: str) -> None:
    name, *rest = arguments
    ended = cli("query", name, store.root, *rest)
    assert (ended.code, ended.err) == (code, "")
    assert words in ended.out
    as_json = cli("query", name, store.root, *rest, "--format", "json")
    assert as_json.code == code
    assert json.loads(as_json.out)["schema_version"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["id", "xyz"], "is not a message id"),
        (["id", "xyz", "--as-broker", "4.4.0"], "is not a message id"),
        (["life", ""], "at least one character"),
        (["scan", "topic =="], "character 9"),
        (["key", "Order", "k7", "--as-broker", "3.1"], "not a broker version"),
        (["time", "Order", "0", "5", "--as-broker", "4.4.0", "--boundary", "upper"], "no upper boundary"),
        (["time", "Order", "0", "soon"], "neither milliseconds nor a date"),
        (["offset", "Order", "x", "0"], "not a valid integer"),
    ],
)
def test_usage_errors(cli: Cli, store: Store, arguments: list[str], words: str) -> None:
    name, *rest = arguments
    ended = cli("query", name, store.root, *rest)
    assert (ended.code, ended.out) == (16, "")
    assert words in ended.err


def test_what_is_no_store(cli: Cli, tmp_path: Path) -> None:
    ended = cli("query", "key", tmp_path / "nothing", "T", "k")
    assert ended.code == 8
    assert "nothing" in ended.err


def test_a_part_of_a_store(cli: Cli, store: Store) -> None:
    ended = cli("query", "key", store.root / "commitlog", "Order", "k7")
    assert ended.code == 16
    assert f"did you mean `rocketfsck query key {store.root}`?" in ended.err


def test_ids(cli: Cli, store: Store) -> None:
    ended = cli("query", "id", store.root, msg_id(store, "k7"), "--trace", "-v")
    assert ended.code == 0
    assert "read as an offset id" in ended.out
    assert "as an offset id: commitlog/" in ended.out
    assert "queues                       Order/0/7:agrees" in ended.out
    assert "read as a unique id" in cli("query", "id", store.root, UNIQUE).out
    assert cli("query", "id", store.root, UNIQUE, "--as", "offset").code == 4


def test_an_id_of_both_kinds(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    text = msg_id(make(tmp_path / "a", [message(0)]), "k0")
    store = make(tmp_path / "b", [message(0), message(1, properties={"UNIQ_KEY": text})])
    ended = cli("query", "id", store.root, text, "--format", "jsonl")
    assert ended.code == 64
    head, *messages = ended.rows()
    assert (head["kind"], head["outcome"], len(messages)) == ("rocketfsck.query.id", "ambiguous", 2)


def test_offset_and_bodies(cli: Cli, store: Store) -> None:
    assert "    body: body 3" in cli("query", "offset", store.root, "Order", 0, 3, "--body", "text").out
    (_, row) = cli(
        "query", "offset", store.root, "Order", 0, 3, "--body", "base64", "--format", "jsonl"
    ).rows()
    assert row["body_b64"] == "Ym9keSAz"
    (_, row) = cli("query", "offset", store.root, "Order", 0, 3, "--body", "hex", "--format", "jsonl").rows()
    assert row["body_hex"] == b"body 3".hex()
    assert row["queues"] == [{"topic": "Order", "queue_id": 0, "queue_offset": 3, "state": "agrees"}]


def test_json_says_all(cli: Cli, store: Store) -> None:
    ended = cli("query", "key", store.root, "Order", "k7", "--trace", "--format", "json")
    found = json.loads(ended.out)
    assert (found["kind"], found["outcome"], found["why"]) == ("rocketfsck.query.key", "found", None)
    (row,) = found["rows"]
    assert (row["kind"], row["keys"], row["via"], row["live"]) == ("message", ["k7", "all"], ["index"], True)
    steps = found["trace"]["index"]
    assert steps[0]["file"].startswith("index/")
    assert [entry["verdict"] for step in steps for entry in step["entries"]].count("match") == 1
    assert "trace" not in json.loads(cli("query", "key", store.root, "Order", "k7", "--format", "json").out)


def test_what_the_index_hides(cli: Cli, store: Store) -> None:
    trace = find_by_key(store, "Order", "k7").trace
    assert trace is not None
    steps = [(step.file, entry) for step in trace.index_steps for entry in step.entries]
    ((file, number),) = [(file, entry.entry) for file, entry in steps if entry.verdict == "match"]
    patch(store.root / file, entry_pos(number, GEOMETRY.slot_count) + 4, struct.pack(">q", 1 << 40))
    ended = cli("query", "key", store.root, "Order", "k7", "--via", "both", "--trace")
    assert ended.code == 4
    assert "the index does not lead to 1 message, found in the log at" in ended.out
    assert "points at 1099511627776: the entry points outside the log" in ended.out
    assert "asked for" in ended.out


def test_hidden_by_the_queue(cli: Cli, store: Store) -> None:
    patch(store.queues[0].files[0].path, 60, bytes(20))
    ended = cli("query", "offset", store.root, "Order", 0, 3, "--via", "both")
    assert ended.code == 4
    assert "odd: queue 0 of Order has no unit for it" in ended.out
    assert cli("query", "offset", store.root, "Order", 0, 3).code == 0


def test_a_prepared_message(cli: Cli, store: Store) -> None:
    ended = cli("query", "key", store.root, "Odd", "k31")
    assert "prepared or rolled back: in no queue" in ended.out


def test_window_and_newest(cli: Cli, store: Store) -> None:
    ended = cli("query", "key", store.root, "Order", "all", "--begin", NOW + 5000, "--end", NOW + 9000)
    assert len(ended.out.splitlines()) == 5
    ended = cli("query", "key", store.root, "Order", "all", "--limit", 2, "--format", "jsonl")
    assert [row["queue_offset"] for row in ended.rows()[1:]] == [28, 29]


def test_as_a_broker(cli: Cli, store: Store) -> None:
    for version in ("4.4.0", "5.3.3"):
        ended = cli("query", "unique-key", store.root, "Order", "U0007", "--as-broker", version, "--trace")
        assert ended.code == 0
        assert ": slot " in ended.out
    ended = cli("query", "offset", store.root, "Order", 0, 3, "--limit", 4, "--as-broker", "4.4.0", "--trace")
    assert "FOUND: minOffset 0, maxOffset 31, nextBeginOffset 7" in ended.out
    assert cli("query", "id", store.root, msg_id(store, "k7"), "--as-broker", "4.4.0").code == 0
    asked = ["query", "time", store.root, "Order", 0, NOW + 3400, "--as-broker"]
    assert [cli(*asked, version).out for version in ("4.4.0", "5.3.3")] == ["3\n", "4\n"]
    assert cli(*asked, "5.3.3", "--boundary", "upper").out == "3\n"
    head = json.loads(cli(*asked, "5.3.3", "--format", "json").out)
    assert (head["offset"], head["broker"], head["rows"]) == (4, "5.3.3", [])


def test_files_left_out_are_told(cli: Cli, store: Store) -> None:
    ended = cli(
        "query", "key", store.root, "Order", "all", "--as-broker", "4.4.0", "--end", NOW + 3000, "--trace"
    )
    assert "left out, the file's times are outside the time window" in ended.out


def test_long_chains_are_cut_in_the_trace(cli: Cli, tmp_path: Path) -> None:
    geometry = type(GEOMETRY)(
        commitlog_file_size=65536, consumequeue_file_size=2000, slot_count=1, entry_count=400
    )
    store = make(tmp_path, [message(number) for number in range(40)], geometry=geometry)
    arguments = ["query", "key", store.root, "Order", "k7", "--trace"]
    assert "    and 70 further entries" in cli(*arguments).out
    assert "further entries" not in cli(*arguments, "-v").out


def test_time(cli: Cli, store: Store) -> None:
    ended = cli("query", "time", store.root, "Order", 0, NOW + 3400)
    assert ended.out.splitlines() == [
        "lower 4  stored 2023-11-14T22:13:24.000Z",
        "upper 3  stored 2023-11-14T22:13:23.000Z",
        "the queue has 0 to 31, half-open",
    ]
    assert "upper none" in cli("query", "time", store.root, "Order", 0, 5).out
    patch(store.queues[0].files[0].path, 100, struct.pack(">q", 1 << 40))
    assert "1 unit looked at led to no record" in cli("query", "time", store.root, "Order", 0, NOW + 5000).out


def test_scan_formats(cli: Cli, store: Store, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.parquet")
    expression = "tags == 'T1' and topic == 'Order'"
    assert len(cli("query", "scan", store.root, expression).out.splitlines()) == 11
    head, *rows = cli("query", "scan", store.root, expression, "--format", "jsonl").rows()
    assert (head["kind"], head["expression"], len(rows)) == ("rocketfsck.query.scan", expression, 10)
    table = tmp_path / "found.parquet"
    ended = cli(
        "query", "scan", store.root, expression, "--format", "parquet", "-o", table, "--body", "base64"
    )
    assert ended.code == 0
    assert pa.read_table(table)["body"].to_pylist()[0] == b"body 1"
    lines = cli("query", "scan", store.root, expression, "--format", "csv", "--limit", 2).out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("kind,file,")
    inside = store.root / "found.json"
    assert cli("query", "scan", store.root, expression, "--format", "json", "-o", inside).code == 16
    offsets = ["--physical-offset", "1:400"]
    assert len(cli("query", "scan", store.root, "topic", *offsets).out.splitlines()) == 3


def test_life(cli: Cli, store_dir: Directory) -> None:
    store = store_dir("4.9.8-delay")
    ended = cli("query", "life", store, "0A2900072F3918B4AAC264DF3FAB0405")
    assert ended.code == 0
    assert "2 records of the message with the unique key" in ended.out
    assert "delayed with level 2 for topic Dly queue 1" in ended.out
    assert "    key d29: index/" in ended.out
    _, *rows = cli("query", "life", store, "0A2900072F3918B4AAC264DF3FAB0405", "--format", "jsonl").rows()
    assert [row["kind"] for row in rows[:3]] == ["record", "record", "event"]
    assert rows[0]["index"][0]["file"].startswith("index/")
    assert rows[2]["event"] == "born"


def test_offsets(cli: Cli, store: Store) -> None:
    lines = cli("query", "offsets", store.root).out.splitlines()
    assert lines[0] == "queues"
    assert lines[lines.index("groups") + 2].split() == ["far", "Order", "0", "99", "31", "0", "ahead"]
    only = cli("query", "offsets", store.root, "--group", "one").out.splitlines()
    assert only[0] == "groups"
    _, *rows = cli("query", "offsets", store.root, "--format", "jsonl").rows()
    assert [(row["kind"], row.get("lag")) for row in rows] == [("queue", None), ("group", 0), ("group", 28)]


def test_a_broken_config_leaves_the_queues(cli: Cli, store: Store) -> None:
    (store.root / "config" / "consumerOffset.json").write_text('{"offsetTable": 3}')
    ended = cli("query", "offsets", store.root)
    assert ended.code == 8
    lines = ended.out.splitlines()
    assert lines[0].startswith("no groups: a file in config/ cannot be used:")
    assert lines[1] == "queues"
    assert "groups" not in lines


def test_stale_units_show(cli: Cli, store_dir: Directory) -> None:
    assert "2 stale units after the end" in cli("query", "offsets", store_dir("4.9.8-ghosttail")).out


def test_an_incomplete_answer_says_so(cli: Cli, tmp_path: Path) -> None:
    geometry = type(GEOMETRY)(
        commitlog_file_size=1 << 20, consumequeue_file_size=2000, slot_count=8, entry_count=400
    )
    store = make(
        tmp_path, [message(number, body=bytes([1]) * 40_000) for number in range(12)], geometry=geometry
    )
    (found,) = find_by_key(store, "Order", "k3").found
    unique = found.message.unique_key
    for command in (["key", "Order", "k3"], ["unique-key", "Order", unique], ["life", unique]):
        arguments = ["query", command[0], store.root, *command[1:]]
        ended = cli(*arguments, "--via", "index")
        assert ended.code == 8
        assert "the answer is incomplete" in ended.out
        said = json.loads(cli(*arguments, "--via", "index", "--format", "json").out)
        assert (said["outcome"], said["complete"]) == ("found", False)
        for via in ("auto", "both"):
            ended = cli(*arguments, "--via", via)
            assert ended.code == 0
            assert "incomplete" not in ended.out
    answered = cli("query", "key", store.root, "Order", "k3", "--as-broker", "5.3.3", "-v")
    assert answered.code == 0  # a broker does not look
    assert "incomplete" not in answered.out
    assert "not looked at" in answered.out


def test_hostile_names_stay_on_their_line(cli: Cli, tmp_path: Path) -> None:
    evil = {"KEYS": "a\x1b[31m", "UNIQ_KEY": "U\n1"}
    store = make(tmp_path, [message(0, "T\x1b[2J", properties=evil)])
    for arguments in (
        ["key", store.root, "T\x1b[2J", "a\x1b[31m", "--trace"],
        ["scan", store.root, "topic"],
        ["offsets", store.root],
        ["life", store.root, "U\n1"],
        ["key", store.root, "T\x1b", "x"],
    ):
        ended = cli("query", *arguments)
        assert "\x1b" not in ended.out
        assert "\x1b" not in ended.err


def test_help(cli: Cli) -> None:
    for name in ("", "id", "offset", "key", "unique-key", "time", "scan", "life", "offsets"):
        ended = cli("query", *([name] if name else []), "--help")
        assert ended.code == 0
        assert "Exit status, the sum of:" in ended.out
