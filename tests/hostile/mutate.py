"""Seeded damage for the tests: one number names one mutant of one real store, on any machine.

Every mutation is a function of a random generator and the bytes of a file; a few act on the directory.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

Mutation = Callable[[random.Random, bytearray], bytes | bytearray]

HOSTILE_INTS = (0, 1, -1, 7, 91, 0x7FFFFFFF, -0x80000000, 0x7FFFFFF0, 0xFFFF, -2, 1 << 20)
HOSTILE_LONGS = (0, 1, -1, 1 << 62, -(1 << 63), (1 << 63) - 1, 1 << 40, 4096)
MAGICS = (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\xcb\xd4\x31\x94", b"\xff\xff\xff\xff")
HOSTILE_TEXT = (
    b"../../etc/passwd",
    b"\x1b[31mred\x1b[0m",
    b"%n%n%s",
    b"\x00" * 16,
    b"\xed\xa0\x80\xff",
    b"\x02\x01\x01\x02",
)


def _place(rng: random.Random, data: bytearray, size: int) -> int:
    used = len(data.rstrip(b"\0")) or len(data)
    limit = used if rng.random() < 0.85 else len(data)
    return rng.randrange(max(limit - size, 0) + 1)


def _put(rng: random.Random, data: bytearray, value: bytes) -> bytearray:
    pos = _place(rng, data, len(value))
    data[pos : pos + len(value)] = value
    return data


def flip_bits(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if data:
            data[_place(rng, data, 1) % len(data)] ^= 1 << rng.randrange(8)
    return data


def random_bytes(rng: random.Random, data: bytearray) -> bytearray:
    return _put(rng, data, rng.randbytes(rng.choice((1, 4, 20, 46, 512))))


def hostile_int(rng: random.Random, data: bytearray) -> bytearray:
    return _put(rng, data, struct.pack(">i", rng.choice(HOSTILE_INTS)))


def hostile_long(rng: random.Random, data: bytearray) -> bytearray:
    return _put(rng, data, struct.pack(">q", rng.choice(HOSTILE_LONGS)))


def magic(rng: random.Random, data: bytearray) -> bytearray:
    return _put(rng, data, rng.choice(MAGICS))


def text(rng: random.Random, data: bytearray) -> bytearray:
    return _put(rng, data, rng.choice(HOSTILE_TEXT))


def zero_page(rng: random.Random, data: bytearray) -> bytearray:
    size = rng.choice((64, 512, 4096))
    pos = _place(rng, data, size) // size * size
    data[pos : pos + size] = bytes(len(data[pos : pos + size]))
    return data


def swap_pages(rng: random.Random, data: bytearray) -> bytearray:
    size = rng.choice((20, 64, 512))
    one, other = _place(rng, data, size), _place(rng, data, size)
    first, second = bytes(data[one : one + size]), bytes(data[other : other + size])
    data[one : one + size], data[other : other + size] = second, first
    return data


def repeat_piece(rng: random.Random, data: bytearray) -> bytearray:
    size = rng.randrange(1, 600)
    pos = _place(rng, data, size)
    return _put(rng, data, bytes(data[pos : pos + size]))


def shift(rng: random.Random, data: bytearray) -> bytearray:
    """Insert or drop a few bytes and keep the length."""
    pos, size, length = _place(rng, data, 1), rng.randrange(1, 30), len(data)
    if rng.random() < 0.5:
        data[pos:pos] = rng.randbytes(size)
    else:
        del data[pos : pos + size]
    return (data + bytes(size))[:length]


def truncate(rng: random.Random, data: bytearray) -> bytearray:
    return data[: _place(rng, data, 1)]


def extend(rng: random.Random, data: bytearray) -> bytearray:
    return data + rng.choice((bytes, rng.randbytes))(rng.randrange(1, 5000))


def empty(_rng: random.Random, _data: bytearray) -> bytes:
    return b""


def noise(rng: random.Random, data: bytearray) -> bytes:
    return rng.randbytes(len(data))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, flip_bits, flip_bits, random_bytes, hostile_int, hostile_int, hostile_long, magic, text,
    zero_page, swap_pages, repeat_piece, shift, truncate, extend, empty, noise,
)  # fmt: skip


def mutate_file(rng: random.Random, path: Path) -> str:
    """Alters one file in place; returns what was done."""
    mutation = rng.choice(MUTATIONS)
    path.write_bytes(mutation(rng, bytearray(path.read_bytes())))
    return f"{mutation.__name__} {path.name}"


def mutate_directory(rng: random.Random, store: Path) -> str:
    """Removes, renames, copies or adds something; returns what was done."""
    files = sorted(path for path in store.rglob("*") if path.is_file())
    folders = sorted(path for path in store.rglob("*") if path.is_dir() and not path.is_symlink())
    path, kind = rng.choice(files), rng.randrange(8)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        shutil.rmtree(rng.choice(folders))
    elif kind == 2:
        path.rename(
            path.with_name(rng.choice(("x.tmp", "-5", "99999999999999999999", "00000000000000000007", " ")))
        )
    elif kind == 3:
        shutil.copyfile(path, path.with_name(f"{rng.randrange(10**6) * 4096:020d}"))
    elif kind == 4:
        new = rng.choice(folders) / rng.choice(("new", ".hidden", "00000000000000001000"))
        if not new.is_file():
            new.mkdir(exist_ok=True)
    elif kind == 5:
        (store / "abort").write_bytes(rng.choice((b"", b"1234", b"\xff\xfe", rng.randbytes(100))))
    elif kind == 6:
        path.unlink()
        path.symlink_to(rng.choice((path, store, Path("/dev/zero"), Path("/nonexistent"))))
    else:
        other = rng.choice(files)
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
    return f"directory {kind} {path.name}"


def mutate_store(seed: int, store: Path) -> list[str]:
    """Does one to three kinds of damage to the store; the same for the same seed."""
    rng = random.Random(seed)
    done = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        files = sorted(path for path in store.rglob("*") if path.is_file() and not path.is_symlink())
        if not files:
            break
        if rng.random() < 0.2:
            done.append(mutate_directory(rng, store))
        else:
            # by directory first: consume queue files are many, and small
            folder = rng.choice(sorted({path.relative_to(store).parts[0] for path in files}))
            done.append(
                mutate_file(
                    rng, rng.choice([path for path in files if path.relative_to(store).parts[0] == folder])
                )
            )
    return done
