"""What compressed bodies hold: all codecs of producers, bombs, torn ones, codecs that are not installed."""

from __future__ import annotations

import zlib

import lz4.frame
import pytest
import zstandard

from rocketfsck.reader import decoders
from rocketfsck.reader.decoders import unpack

TEXT = b"the words of a message, and again: the words of a message " * 20
PACKED = {
    0x1: zlib.compress(TEXT),
    0x101: lz4.frame.compress(TEXT),
    0x201: zstandard.ZstdCompressor().compress(TEXT),
    0x301: zlib.compress(TEXT),
}


@pytest.mark.parametrize("sys_flag", PACKED)
def test_every_codec(sys_flag: int) -> None:
    body = PACKED[sys_flag]
    assert unpack(body, sys_flag, 1 << 20).data == TEXT
    assert unpack(body, sys_flag, 1 << 20).unknown is None
    assert unpack(body, sys_flag, 100).data == TEXT[:100]
    assert unpack(body, sys_flag, 100).is_cut
    assert not unpack(body, sys_flag, len(TEXT)).is_cut, "exactly as much as was asked for"
    assert unpack(body, sys_flag, len(TEXT) - 1).is_cut
    assert unpack(body, 0, 1 << 20).data == body
    for torn in (body[:-1], body[: len(body) // 2], body[:5]):
        found = unpack(torn, sys_flag, 1 << 20)
        assert found.data == torn
        assert found.unknown is not None
        assert "ends too early" in found.unknown or "flags say so" in found.unknown
    assert "flags say so" in str(unpack(b"plain words", sys_flag, 100).unknown)


def test_a_bomb_stays_small() -> None:
    bomb = bytes(64 << 20)
    for sys_flag, packed in (
        (0x1, zlib.compress(bomb)),
        (0x101, lz4.frame.compress(bomb)),
        (0x201, zstandard.ZstdCompressor().compress(bomb)),
    ):
        assert len(unpack(packed, sys_flag, 4096).data) == 4096


def test_what_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpack(b"x", 0x401, 10).unknown == "an undefined compression type"
    monkeypatch.setattr(decoders, "find_spec", lambda name: None if name == "lz4" else name)
    missing = "the module lz4 is not installed: run pip install lz4 zstandard"
    assert unpack(PACKED[0x101], 0x101, 10).unknown == missing
    assert unpack(PACKED[0x1], 0x1, 1 << 20).data == TEXT
