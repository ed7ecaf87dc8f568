"""Bodies as they were before they were compressed: zlib, LZ4 frames, zstd frames (reference 2.3).

zlib is always at hand; lz4 and zstandard where they are installed. Bounded: no more comes out than was asked
for, whatever a hostile body expands to. A body that cannot be unpacked is given with the reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from rocketfsck.errors import install_hint
from rocketfsck.formats.magic import COMPRESSED, compression_type

ZSTD_PIECE_SIZE = 512  # a 4-byte block can stand for 128 KiB, and this decoder has no limit of its own
ZSTD_WINDOW_SIZE = 1 << 27
CUT_OFF = "{name} data that ends too early"


@dataclass(frozen=True, slots=True)
class Content:
    """What a body holds, and why that is not known (the data are then the stored bytes).

    `is_cut`: more comes out of the body than was asked for.
    """

    data: bytes
    unknown: str | None = None
    is_cut: bool = False


def unpack(body: bytes, sys_flag: int, limit: int) -> Content:
    """The first `limit` bytes at most of what a body was before it was compressed. Raises nothing."""
    if not body or not sys_flag & COMPRESSED:
        return Content(body)
    known = _CODECS.get(compression_type(sys_flag))
    if known is None:
        return Content(body, "an undefined compression type")
    name, module, decoder = known
    if find_spec(module) is None:
        return Content(body, f"the module {module} is not installed: run {install_hint('codecs')}")
    try:
        data, complete = decoder(body, limit + 1)
    except _UndecodableError:
        return Content(body, f"not {name} data, although the flags say so")
    if len(data) > limit:
        return Content(data[:limit], is_cut=True)
    return Content(data) if complete else Content(body, CUT_OFF.format(name=name))


class _UndecodableError(Exception):
    """What a codec makes of bytes that are not its own."""


def _zlib(body: bytes, limit: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    try:
        return stream.decompress(body, limit), stream.eof
    except zlib.error as error:
        raise _UndecodableError from error


def _lz4(body: bytes, limit: int) -> tuple[bytes, bool]:
    from lz4.frame import LZ4FrameDecompressor

    stream = LZ4FrameDecompressor()
    try:
        return bytes(stream.decompress(body, limit)), bool(stream.eof)
    except (RuntimeError, ValueError, EOFError) as error:
        raise _UndecodableError from error


def _zstd(body: bytes, limit: int) -> tuple[bytes, bool]:
    from zstandard import ZstdDecompressor, ZstdError

    stream = ZstdDecompressor(max_window_size=ZSTD_WINDOW_SIZE).decompressobj()
    found = bytearray()
    try:
        for start in range(0, len(body), ZSTD_PIECE_SIZE):
            if stream.eof or len(found) >= limit:
                break
            found += stream.decompress(body[start : start + ZSTD_PIECE_SIZE])
    except ZstdError as error:
        raise _UndecodableError from error
    return bytes(found[:limit]), bool(stream.eof)


_CODECS: dict[int, tuple[str, str, Callable[[bytes, int], tuple[bytes, bool]]]] = {
    0: ("zlib", "zlib", _zlib),
    1: ("LZ4", "lz4", _lz4),
    2: ("zstd", "zstandard", _zstd),
    3: ("zlib", "zlib", _zlib),
}
