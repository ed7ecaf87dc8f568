"""Masked copies: the same lengths, places and checksums, and nothing that was said in the store."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.formats.javatext import java_hash
from rocketfsck.formats.properties import property_crc, property_crc_trailer
from rocketfsck.store.opening import open_store
from rocketfsck.writer.mask.names import Pseudonyms
from rocketfsck.writer.mask.record import (
    json_words,
    mask_hosts,
    mask_json,
    mask_rest,
    masked_body,
    masked_properties,
    moved_crc,
)
from rocketfsck.writer.mask.tree import mask_store, masked_path

from tests.conftest import Directory

NAMES = Pseudonyms(b"0123456789abcdef")
ZLIB = 0x1


@given(st.text(max_size=40))
def test_a_pseudonym_has_the_length_of_its_name(text: str) -> None:
    found = NAMES.name(text)
    assert len(found.encode("utf-8", "surrogatepass")) == len(text.encode("utf-8", "surrogatepass"))
    assert NAMES.name(text) == found


@pytest.mark.parametrize(
    "text", ["OrderTopic", "TagABC", "order:12345", "主题-Gamma", "한국어テスト", "0A0F00072F1F18B4AAC247B7"]
)
def test_names_change(text: str) -> None:
    found = NAMES.name(text)
    assert found != text
    assert java_hash(found) != java_hash(text)
    assert Pseudonyms(b"another secret 1").name(text) not in (found, text)


@pytest.mark.parametrize("form", ["{}", "{}{}", "a-{}", "{}:{}"])
def test_short_names_have_pseudonyms_of_their_own(form: str) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    texts = {form.format(one, two) for one in letters for two in letters}
    assert len({NAMES.name(text) for text in texts}) == len(texts)


def test_every_key_has_a_pseudonym() -> None:
    keys = [f"0A0E00072F1E18B4AAC248E6{number * 7919:08X}" for number in range(300)]
    assert [key for key in keys if NAMES.name(key) == key] == []


def test_names_of_rocketmq_stay() -> None:
    for name in (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "rmq_sys_wheel_timer",
        "rocketfsck_fence",
    ):
        assert NAMES.name(name) == name
    assert NAMES.name("%RETRY%group-one") == "%RETRY%" + NAMES.name("group-one")
    assert NAMES.raw(b"\xff\xfe ab1") != b"\xff\xfe ab1"
    assert {NAMES.raw(bytes([one])) for one in b"ABCDEFGH"} != {bytes([one]) for one in b"ABCDEFGH"}


def test_json_is_masked_whole_or_broken() -> None:
    topic, group = NAMES.name("OrderTopic"), NAMES.name("group-one")
    text = '{"offsetTable":{"OrderTopic@group-one":{0:12,1:3}},"dataVersion":{"counter":7}}'
    masked = text.replace("OrderTopic", topic).replace("group-one", group)
    assert mask_json(text, NAMES) == masked
    broken = mask_json('{"topicConfigTable":{"OrderTopic":{"perm":6}, "secretword', NAMES)
    assert "OrderTopic" not in broken
    assert "secretword" not in broken
    assert broken.startswith('{"topicConfigTable":{"')
    assert mask_json("{true, null, 12}", NAMES) == "{true, null, 12}"


def test_what_is_a_name_in_json_and_what_is_not() -> None:
    text = '{"topicConfigTable":{"order":{"order":false,"topicName":"order"}},"12":{"perm":6},"0":7,"x":"-1"}'
    order, number, letter = NAMES.name("order"), NAMES.name("12"), NAMES.name("x")
    assert mask_json(text, NAMES) == (
        f'{{"topicConfigTable":{{"{order}":{{"order":false,"topicName":"{order}"}}}},'
        f'"{number}":{{"perm":6}},"0":7,"{letter}":"-1"}}'
    )
    filters = '{"bloomFilterData":{"bitNum":6400,"bitPos":[12,3456,789]}}'
    masked = mask_json(filters, NAMES)
    assert masked.startswith('{"bloomFilterData":{"bitNum":6400,"bitPos":[1')
    assert masked != filters
    assert len(masked) == len(filters)


def test_escapes_of_json_stay_escapes() -> None:
    text = r'{"topic":"Bestell\u00e9\nzwei \"drei\" \ud83d\ude00 \u007fa","perm":6}'
    masked = mask_json(text, NAMES)
    assert len(masked) == len(text)
    words = json.loads(text)["topic"].split()
    shown = json.loads(masked)["topic"].split()
    assert shown[0] == NAMES.name(words[0]) != words[0]
    assert shown[2] == f'"{NAMES.name("drei")}"'
    assert shown[3] == "\U0001f600"
    assert json_words(text) >= {"Bestell\xe9", "zwei", "drei"}
    assert not any(set(word) & set('\\"') for word in json_words(text))


@given(st.text(max_size=30))
def test_masked_json_is_json(text: str) -> None:
    for is_ascii in (True, False):
        masked = json.loads(mask_json(json.dumps([text], ensure_ascii=is_ascii), NAMES))
        assert len(masked[0]) == len(text)


def test_bodies() -> None:
    assert masked_body(b"private", b"T", 0, NAMES) == b"xxxxxxx"
    assert masked_body(b"12,34,", b"RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, NAMES) == b"12,34,"
    popped = masked_body(b'{"topic":"OrderTopic","q":1}', b"rmq_sys_REVIVE_LOG_b", 0, NAMES)
    assert NAMES.name("OrderTopic").encode() in popped
    assert masked_body(b"\xff\xff", b"rmq_sys_REVIVE_LOG_b", 0, NAMES) != b"\xff\xff"


@pytest.mark.parametrize("size", [*range(12, 40), 70_000, 140_000])
def test_compressed_bodies_can_be_decompressed(size: int) -> None:
    made = masked_body(b"\x78" + bytes(size - 1), b"T", ZLIB, NAMES)
    assert len(made) == size
    assert zlib.decompress(made).strip(b"x") == b""
    lz4 = pytest.importorskip("lz4.frame")
    zstandard = pytest.importorskip("zstandard")
    if size >= 16:
        made = masked_body(b"\x04\x22\x4d\x18" + bytes(size - 4), b"T", ZLIB, NAMES)
        assert len(made) == size
        assert lz4.decompress(made).strip(b"x") == b""
        made = masked_body(b"\x28\xb5\x2f\xfd" + bytes(size - 4), b"T", ZLIB, NAMES)
        assert len(made) == size
        assert zstandard.ZstdDecompressor().decompressobj().decompress(made).strip(b"x") == b""


def test_compressed_bodies_that_are_too_short_become_noise() -> None:
    for head in (b"\x78", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"\x01"):
        body = head + b"abc"
        made = masked_body(body, b"T", ZLIB, NAMES)
        assert (len(made), made == body) == (len(body), False)


def test_inner_batches() -> None:
    inner = b"".join(
        (22 + len(body) + 7).to_bytes(4, "big")
        + bytes(4)
        + (zlib.crc32(body) & 0x7FFFFFFF).to_bytes(4, "big")
        + bytes(4)
        + len(body).to_bytes(4, "big")
        + body
        + (7).to_bytes(2, "big")
        + b"TAGS\x01ab"
        for body in (b"one", b"three")
    )
    made = masked_body(inner, b"T", 0, NAMES)
    assert len(made) == len(inner)
    assert b"three" not in made
    assert made[8:12] == (zlib.crc32(b"xxx") & 0x7FFFFFFF).to_bytes(4, "big")
    assert b"TAGS\x01" + NAMES.raw(b"ab") in made


@given(st.binary(min_size=1, max_size=50), st.integers(1, 0x7FFFFFFF))
def test_a_checksum_is_as_wrong_as_it_was(old: bytes, wrong: int) -> None:
    new = bytes(len(old))
    right = zlib.crc32(old) & 0x7FFFFFFF
    moved = int.from_bytes(moved_crc((right ^ wrong).to_bytes(4, "big"), old, new), "big")
    if right ^ wrong:
        assert moved == (zlib.crc32(new) & 0x7FFFFFFF) ^ wrong
    assert moved_crc(bytes(4), b"\x01", b"\x02") == bytes(4)


def test_properties() -> None:
    data = b"KEYS\x01order-1 order-2\x02DELAY\x013\x02mine\x01value9\x02no pair"
    made = masked_properties(data, NAMES)
    assert len(made) == len(data)
    one, two = NAMES.raw(b"order-1"), NAMES.raw(b"order-2")
    assert made.startswith(b"KEYS\x01" + one + b" " + two + b"\x02DELAY\x013\x02")
    assert b"mine" not in made
    assert b"value" not in made
    assert b"no pair" not in made


def test_hosts() -> None:
    record = bytearray(100)
    record[48:52] = b"\x0a\x09\x08\x07"
    record[64:68] = b"\x7f\x00\x00\x01"
    mask_hosts(record, 0, NAMES)
    assert record[48:49] == b"\x0a"
    assert record[48:52] != b"\x0a\x09\x08\x07"
    assert record[64:68] == b"\x7f\x00\x00\x01"
    wide = bytearray(b"\x20\x01" * 60)
    mask_hosts(wide, 0x30, NAMES)
    assert wide[48:50] == wide[76:78] == b"\xfd\x00"
    mask_hosts(bytearray(20), 0, NAMES)  # too short for any


def test_the_rest_is_noise_but_for_frames() -> None:
    frame = bytearray(88)
    frame[0:8] = b"\x00\x00\x00\x96\xda\xa3\x20\xa7"
    frame[84:88] = (6).to_bytes(4, "big")
    data = bytes(frame) + b"secret" + b"\x05Topic" + b"\x00\x04more" + b"words of a user" + bytes(20)
    made = mask_rest(b"head" + data, NAMES)
    assert len(made) == len(data) + 4
    assert made[4:92] == bytes(frame)
    for private in (b"secret", b"Topic", b"words", b"user"):
        assert private not in made
    assert made[98:99] == b"\x05"
    assert made.endswith(bytes(20))
    assert mask_rest(b"abc", NAMES) == b"abc", "the first bytes are a frame"


def test_paths() -> None:
    topic = NAMES.name("OrderTopic")
    assert masked_path("consumequeue/OrderTopic/0/00", NAMES) == f"consumequeue/{topic}/0/00"
    assert masked_path("compaction/compactionCq/OrderTopic/0", NAMES) == f"compaction/compactionCq/{topic}/0"
    assert masked_path("/else/where/commitlog/000", NAMES) == "commitlog/000"
    assert masked_path("config/topics.json", NAMES) == "config/topics.json"
    stray = "config/mine.tmp"
    assert masked_path(stray, NAMES, frozenset({stray})).endswith(".tmp")
    assert "mine" not in masked_path(stray, NAMES, frozenset({stray}))


@pytest.mark.parametrize("name", ["5.3.3-propcrc", "5.0.0-innerbatch", "4.9.8-ipv6"])
def test_records_stay_sound(store_dir: Directory, tmp_path: Path, name: str) -> None:
    """Of every form: the same records, with checksums that fit, and other words."""
    from rocketfsck.api import read_columns

    store = open_store(store_dir(name))
    mask_store(store, tmp_path / "copy", NAMES)
    copy = open_store(tmp_path / "copy")
    columns = ("offset", "size", "queue_offset", "store_timestamp", "faults")
    assert list(read_columns(copy, columns, read_bodies=True)) == list(
        read_columns(store, columns, read_bodies=True)
    )
    old = (store.commitlog.files[0].path).read_bytes()
    new = (copy.commitlog.files[0].path).read_bytes()
    assert (len(old), old == new) == (len(new), False)
    if name == "5.3.3-propcrc":
        size = int.from_bytes(new[:4], "big")
        assert new[:size].endswith(property_crc_trailer(property_crc(new[:size])))


def test_what_is_left_out_is_said(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("4.9.8-cqext"), tmp_path / "store"))
    (root / "rocksdbstore").mkdir()
    (root / "rocksdbstore" / "CURRENT").write_text("MANIFEST-1\n")
    (root / "linked").symlink_to(root / "checkpoint")
    store = open_store(root)
    done = mask_store(store, tmp_path / "copy", NAMES)
    reasons = dict(done.left_out)
    assert reasons["rocksdb"] == "files of this kind are not masked"
    assert "only regular files are copied" in reasons.values()
    assert not (tmp_path / "copy" / "rocksdbstore").exists()
    ext = next(file for queue in store.ext_queues for file in queue.files)
    made, was = (tmp_path / "copy" / masked_path(ext.relative, NAMES)).read_bytes(), ext.path.read_bytes()
    assert (len(made), made[:2], made == was) == (len(was), was[:2], False)


def test_files_that_are_too_long_are_left_out(store_dir: Directory, tmp_path: Path) -> None:
    """An archive has no holes, and a broker no such files."""
    root = Path(shutil.copytree(store_dir("4.9.8-cqext"), tmp_path / "store"))
    (root / "abort.bak").touch()
    (root / "stray").touch()
    store = open_store(root)
    long = [
        store.commitlog.files[-1].relative,
        store.queues[0].files[-1].relative,
        store.ext_queues[0].files[-1].relative,
        store.indexes[0].relative,
        store.configs[0].relative,
        "checkpoint",
        "lock",
        "abort.bak",
        "stray",
    ]
    for name in long:
        os.truncate(root / name, 1 << 40)
    store = open_store(root)
    strays = frozenset(stray.relative for stray in store.strays)
    done = mask_store(store, tmp_path / "copy", NAMES)
    reasons = dict(done.left_out)
    for name in long:
        masked = masked_path(name, NAMES, strays)
        assert reasons[masked].startswith("the file is longer than "), name
        assert not (tmp_path / "copy" / masked).exists()
    assert (tmp_path / "copy" / masked_path(store.queues[1].files[-1].relative, NAMES)).exists()


def test_holes_stay_holes_and_what_follows_them_is_masked(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("4.9.8-basic"), tmp_path / "store"))
    queue = next(queue for queue in open_store(root).queues if queue.files)
    (root / "lock").write_bytes(b"lock")
    names = [queue.files[-1].relative, "lock"]
    for name in names:
        with (root / name).open("r+b") as file:
            data = file.read(20)
            file.seek((32 << 20) - (32 << 20) % 20)
            file.write(data)
    store = open_store(root)
    mask_store(store, tmp_path / "copy", NAMES)
    for name in names:
        made = (tmp_path / "copy" / masked_path(name, NAMES)).stat()
        assert (made.st_size, made.st_blocks < 16_384) == ((root / name).stat().st_size, True)
    assert (tmp_path / "copy" / "lock").read_bytes().endswith(b"lock")
