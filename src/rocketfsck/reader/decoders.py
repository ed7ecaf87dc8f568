"""Decoders of message bodies: built in, of other packages, or programs.

    name    := "json" | an entry point of the group `rocketfsck.decoders`
    program := words for a process of its own

An entry point is a function of a body (bytes, unpacked) and of what is known of the message (topic, tags and
so on, see `FACTS`); its result is a text, or None for a body that is not its own. What it raises is a note
next to the body.

Bodies as they were before they were compressed: zlib, LZ4 frames, zstd frames (reference 2.3).

zlib is always at hand; lz4 and zstandard where they are installed. Bounded: no more comes out than was asked
for, whatever a hostile body expands to. A body that cannot be unpacked is given with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from shutil import which
from typing import Any

from rocketfsck.errors import UsageError, install_hint
from rocketfsck.formats.magic import COMPRESSED, compression_type
from rocketfsck.store.reading import Closing

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


# A decoder of bodies that is a program of its own: it may hang, flood or die, and nothing else does.
#
#     request  := one line of JSON, with "size" and what is known of the message, then `size` bytes: the body
#     answer   := the number of bytes in decimal digits, a line feed, then that many bytes of UTF-8
#               | "-", a line feed                                              not a body of this decoder's
#
# One process answers one request after the other. The process is started from a list of words, never by a
# shell, in a session of its own, which is killed as a whole; its standard error is discarded.

ANSWER_SECONDS = 5.0
"""A body that takes longer is shown as it is."""
ANSWER_SIZE = 1 << 20
"""Bytes of an answer; a longer one is a failure."""
FAILURES = 3
"""Failures in a row after which the program is not started again."""
_HEAD_SIZE = 20
_CHUNK_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder made of a body: a text, or None and why (`note`)."""

    text: str | None
    note: str | None = None


_NOT_KNOWN = Decoded(None, "not decoded: the decoder does not know this body")


class _FailedError(Exception):
    """The program did not answer as it should; the text says how."""


class ProgramDecoder(Closing):
    """A program that decodes bodies. A context manager: leaving it ends the program."""

    def __init__(
        self, words: Sequence[str], *, seconds: float = ANSWER_SECONDS, size: int = ANSWER_SIZE
    ) -> None:
        """Start the program; raises UsageError if it cannot be started."""
        self._words = list(words)
        self._seconds = seconds
        self._size = size
        self._failures = 0
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except OSError as error:
            raise UsageError(f"the decoder {self._words[0]} cannot be run: {error.strerror}") from error

    def decode(self, body: bytes, facts: Mapping[str, str | int | None]) -> Decoded:
        """What the program says of a body; `facts` are what it gets to know about the message."""
        if self._failures >= FAILURES:
            return Decoded(None, f"the decoder failed {FAILURES} times in a row and is not asked again")
        head = json.dumps({"size": len(body), **facts}).encode("ascii")
        try:
            if self._process is None:
                self._start()
            answer = self._ask(head + b"\n" + body)
        except (_FailedError, OSError) as error:
            self._failures += 1
            self.close()
            return Decoded(None, f"the decoder failed: {error}")
        self._failures = 0
        return _NOT_KNOWN if answer is None else Decoded(answer.decode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """End the program; closing twice does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):  # it and whatever it has started
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def _ask(self, request: bytes) -> bytes | None:
        """Write the request and read the answer, both at once, until the time is over."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        deadline = time.monotonic() + self._seconds
        left, got = memoryview(request), bytearray()
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdin, selectors.EVENT_WRITE)
            waiting.register(process.stdout, selectors.EVENT_READ)
            while True:
                ready = waiting.select(max(deadline - time.monotonic(), 0))
                if not ready or time.monotonic() >= deadline:
                    raise _FailedError(f"no answer in {self._seconds:g} s")
                for key, _ in ready:
                    if key.fileobj is process.stdin:
                        left = left[_write(key.fd, left) :]
                        if not left:
                            waiting.unregister(process.stdin)
                        continue
                    data = os.read(key.fd, _CHUNK_SIZE)
                    if not data:
                        raise _FailedError("the program ended")
                    got += data
                    size = self._answer_size(got)
                    if size == -1 or (size is not None and len(got) >= size):
                        if left:
                            raise _FailedError("the answer came before the whole body was sent")
                        return None if size == -1 else bytes(got[got.index(b"\n") + 1 :])

    def _answer_size(self, got: bytearray) -> int | None:
        """The length of the whole answer, -1 for "-", None as long as that is not known."""
        end = got.find(b"\n", 0, _HEAD_SIZE)
        if end < 0:
            if len(got) >= _HEAD_SIZE:
                raise _FailedError("the answer has no length")
            return None
        head = bytes(got[:end])
        if head == b"-":
            if len(got) > end + 1:
                raise _FailedError("the answer has more than was asked for")
            return -1
        if not head.isdigit():
            raise _FailedError("the answer has no length")
        if int(head) > self._size:
            raise _FailedError(f"the answer is longer than {self._size:,} bytes")
        if len(got) > end + 1 + int(head):
            raise _FailedError("the answer has more than was asked for")
        return end + 1 + int(head)


def _write(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data[:_CHUNK_SIZE])
    except BlockingIOError:
        return 0
    except BrokenPipeError as error:
        raise _FailedError("the program ended") from error


GROUP = "rocketfsck.decoders"
FACTS = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "tags", "unique_key")
"""What a decoder gets to know about a message."""

Facts = Mapping[str, str | int | None]
Function = Callable[[bytes, Facts], str | None]


class FunctionDecoder(Closing):
    """A decoder in this process. The code is trusted: nothing ends a decoder that hangs."""

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function

    def decode(self, body: bytes, facts: Facts) -> Decoded:
        """What the function says of a body."""
        failed = f"the decoder {self._name} failed"
        try:
            text: Any = self._function(body, facts)
        except Exception as error:  # noqa: BLE001  somebody else's code: its failure is a note, not an end
            return Decoded(None, f"{failed}: {type(error).__name__}: {error}")
        if text is None:
            return _NOT_KNOWN
        if not isinstance(text, str):
            return Decoded(None, f"{failed}: it gave {type(text).__name__}, no text")
        if len(text) > ANSWER_SIZE:
            return Decoded(None, f"{failed}: its text has more than {ANSWER_SIZE:,} characters")
        return Decoded(text)

    def close(self) -> None:
        """Nothing is open."""


def decode_json(body: bytes, _facts: Facts) -> str | None:
    """JSON in one line with sorted keys; None for a body that is not JSON."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False, sort_keys=True)
    except (ValueError, RecursionError):
        return None


BUILT_IN: Mapping[str, Function] = {"json": decode_json}


def decoder_names() -> tuple[str, ...]:
    """The names that can be given, those of other packages included."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def open_decoder(what: str) -> FunctionDecoder | ProgramDecoder:
    """The decoder of this name, or a program. Raises UsageError if there is none, or it cannot be loaded."""
    if what in BUILT_IN:
        return FunctionDecoder(what, BUILT_IN[what])
    for point in entry_points(group=GROUP, name=what):
        try:
            return FunctionDecoder(what, point.load())
        except Exception as error:
            said = f"the decoder {what} cannot be loaded: {type(error).__name__}: {error}"
            raise UsageError(said) from error
    try:
        words = shlex.split(what)
    except ValueError as error:
        raise UsageError(f"{what!r} is not a command: {error}") from error
    if not words or which(words[0]) is None:
        raise UsageError(f"{what!r} is neither a program nor a decoder: {', '.join(decoder_names())}")
    return ProgramDecoder(words)
