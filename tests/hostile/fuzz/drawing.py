"""Draws changes for a sound store: of a field, of bytes, of files and directories, of its JSON documents."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rocketfsck.errors import FormatError
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.record import body_crc
from rocketfsck.formats.smallfiles import offset_to_filename

from tests.hostile.fuzz.mutations import HOLE_SIZE, Mutation
from tests.hostile.fuzz.people import draw_deed
from tests.hostile.fuzz.spots import MAX_READ, Spot, find_spots, find_structures
from tests.hostile.fuzz.subjects import Subject

HOSTILE_TEXT = (
    b"../../etc/passwd", b"\x1b[31mred\x1b[0m", b"%n%n%s", b"\x00" * 16, b"\xed\xa0\x80\xff",
    b"\x02\x01\x01\x02",
    b"/", b"..", b"-", b"\xff" * 8, b"9" * 20, b"\x01" * 6,
)  # fmt: skip
MAGICS = ("daa320a7", "daa320ab", "cbd43194", "ffffffff", "00000008cbd43194", "0000005bdaa320a7")
PAGES = (20, 46, 64, 512, 4096)
STRAY_NAMES = (
    "x.tmp", "-5", "99999999999999999999", "00000000000000000007", " ", "09223372036854775807", ".hidden",
    "00000000000000002048.bak", "\x1b[31mred", "\udcff\udcfe", "new\nline", "20231114221320000", "000",
    "a" * 200,
)  # fmt: skip
LINKS = ("@", "@/..", "@/commitlog", "/dev/zero", "/dev/full", "/nonexistent", ".", "..")
HOSTILE_VALUES: tuple[Any, ...] = (
    0, -1, 1, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 64, -1.5, float("inf"),
    float("nan"), "",
    "x" * 300, "\ud800", "../../x", "\x1b[31m", "9223372036854775808", None, True, [], {}, [[]], {"": None},
    [{}],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ground:
    """A subject and what can be changed in it. `edges` are the positions in each file at which something
    begins."""

    subject: Subject
    spots: dict[str, dict[str, list[Spot]]]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    sizes: dict[str, int]
    edges: dict[str, tuple[int, ...]]
    documents: tuple[str, ...]
    contents: dict[str, bytes]

    def value(self, spot: Spot) -> bytes:
        """The bytes of a field in the sound store."""
        return self.contents[spot.file][spot.pos : spot.pos + spot.size]


def survey(subject: Subject) -> Ground:
    """Look at a subject once; what is drawn later reads nothing."""
    root = subject.path
    spots: dict[str, dict[str, list[Spot]]] = {}
    for spot in find_spots(root):
        spots.setdefault(spot.layout, {}).setdefault(spot.field, []).append(spot)
    paths = sorted(root.rglob("*"))
    files = tuple(path.relative_to(root).as_posix() for path in paths if path.is_file())
    edges: dict[str, set[int]] = {name: {0} for name in files}
    for structure in find_structures(root):
        edges[structure.file] |= {structure.start, structure.end}
    sizes = {name: (root / name).stat().st_size for name in files}
    contents = {}
    for name in files:
        with (root / name).open("rb") as file:
            contents[name] = file.read(MAX_READ)
        edges[name] |= set(range(0, min(sizes[name], 1 << 16), 4096)) | {sizes[name]}
    return Ground(
        subject,
        spots,
        files,
        tuple(path.relative_to(root).as_posix() for path in paths if path.is_dir()),
        sizes,
        {name: tuple(sorted(places)) for name, places in edges.items()},
        tuple(name for name in files if name.startswith("config/") and _is_document(contents[name])),
        contents,
    )


def _is_document(content: bytes) -> bool:
    try:
        return isinstance(decode_config(content), dict)
    except FormatError:
        return False


def draw_mutations(rng: random.Random, ground: Ground) -> list[Mutation]:
    """One change, two that belong together (a body and its checksum), or what people do to a whole store."""
    ways = (_field, _bytes, _structure, draw_deed, _document)
    return rng.choices(ways, (50, 13, 24, 8, 5 if ground.documents else 0))[0](rng, ground)


def _field(rng: random.Random, ground: Ground) -> list[Mutation]:
    layout = rng.choice(sorted(ground.spots))
    name = rng.choice(sorted(ground.spots[layout]))
    spot = rng.choice(ground.spots[layout][name])
    if spot.number:
        data = _number(rng, ground, spot)
        return [Mutation("set", spot.file, {"pos": spot.pos, "data": data.hex()}, spot.label)]
    data = _text(rng, ground, spot)
    found = [Mutation("set", spot.file, {"pos": spot.pos, "data": data.hex()}, spot.label)]
    if name == "body" and rng.random() < 0.6:
        sealed = struct.pack(">i", body_crc(data))
        label = f"{spot.label} sealed"
        found[0] = Mutation("set", spot.file, {"pos": spot.pos, "data": data.hex()}, label)
        found.append(Mutation("set", spot.file, {"pos": spot.start + 8, "data": sealed.hex()}, label))
    return found


def _number(rng: random.Random, ground: Ground, spot: Spot) -> bytes:
    bits = 8 * spot.size
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    old = _integer(ground, spot)
    neighbour = _integer(ground, rng.choice(ground.spots[spot.layout][spot.field]))
    layout = ground.spots[spot.layout]
    other = rng.choice(layout[rng.choice(sorted(layout))])
    stranger = _integer(ground, other) if other.number else 91
    value = rng.choice((
        0, -1, least, most, old + 1, old - 1, neighbour, stranger, old ^ 1 << rng.randrange(bits),
        rng.randrange(least, most + 1), 0x7FFFFFF0, -old, ground.sizes[spot.file], 1 << rng.randrange(bits),
    ))  # fmt: skip
    return int((value - least) % (1 << bits) + least).to_bytes(spot.size, "big", signed=True)


def _integer(ground: Ground, spot: Spot) -> int:
    return int.from_bytes(ground.value(spot), "big", signed=True)


def _text(rng: random.Random, ground: Ground, spot: Spot) -> bytes:
    old = bytearray(ground.value(spot))
    way = rng.randrange(8)
    if way == 0:
        return bytes(len(old))
    if way == 1:
        return rng.randbytes(len(old))
    if way == 2:
        other = ground.value(rng.choice(ground.spots[spot.layout][spot.field]))
        return (other + bytes(old[len(other) :]))[: len(old)]
    if way == 3 and spot.field == "properties":
        return _longer_numbers(rng, old)
    if way in (3, 4):
        piece = rng.choice(HOSTILE_TEXT)[: len(old)]
        pos = rng.randrange(len(old) - len(piece) + 1)
        old[pos : pos + len(piece)] = piece
    elif way == 5:
        old[rng.randrange(len(old))] = rng.choice((0, 1, 2, 0x2F, 0x2D, 0x39, 0x7F, 0x80, 0xFF))
    else:
        old[rng.randrange(len(old))] ^= 1 << rng.randrange(8)
    return bytes(old)


def _longer_numbers(rng: random.Random, text: bytearray) -> bytes:
    """Properties whose numbers are as large, or as negative, as their digits allow."""
    pieces = bytes(text).split(b"\x02")
    for number, piece in enumerate(pieces):
        name, mark, value = piece.partition(b"\x01")
        if mark and any(0x30 <= byte <= 0x39 for byte in value) and rng.random() < 0.7:
            new = rng.choice((b"9" * len(value), b"-" + b"9" * (len(value) - 1), b"0" * len(value)))
            pieces[number] = name + mark + new[: len(value)]
    return b"\x02".join(pieces)


def _edge(rng: random.Random, ground: Ground, file: str) -> int:
    return rng.choice(ground.edges[file])


def _file(rng: random.Random, ground: Ground) -> str:
    """A file: by directory first, since queue files are many."""
    tops = sorted({name.partition("/")[0] for name in ground.files})
    top = rng.choice(tops)
    return rng.choice([name for name in ground.files if name.partition("/")[0] == top])


def _bytes(rng: random.Random, ground: Ground) -> list[Mutation]:
    file = _file(rng, ground)
    content, kind = ground.contents[file], rng.randrange(9)
    if not content:
        return [Mutation("write", file, {"data": rng.randbytes(rng.randrange(1, 60)).hex()})]
    used = len(content.rstrip(b"\0")) or len(content)
    size = min(rng.choice(PAGES), used)
    one, other = (rng.randrange(max(used - size, 0) + 1) for _ in range(2))
    if kind == 0:
        flipped = bytes([content[one] ^ 1 << rng.randrange(8)])
        return [Mutation("set", file, {"pos": one, "data": flipped.hex()})]
    if kind == 1:
        return [Mutation("set", file, {"pos": one, "data": rng.choice(MAGICS)})]
    if kind == 2:
        return [Mutation("set", file, {"pos": one, "data": rng.choice(HOSTILE_TEXT).hex()})]
    if kind == 3:
        start = one // size * size
        return [Mutation("set", file, {"pos": start, "data": bytes(min(size, len(content) - start)).hex()})]
    if kind == 4:
        return [Mutation("noise", file, {"start": one, "end": one + size, "seed": rng.randrange(1 << 16)})]
    if kind == 5:
        return [Mutation("copy-bytes", file, {"source": one, "target": other, "size": size})]
    if kind == 6:
        spots = sorted(ground.edges[file])
        first, second = rng.choice(spots), rng.choice(spots)
        return [Mutation("swap-bytes", file, {"first": first, "second": second, "size": size})]
    if kind == 7:
        return [
            Mutation(
                "shift", file, {"pos": _edge(rng, ground, file), "size": rng.choice((-30, -20, -1, 1, 20))}
            )
        ]
    return [Mutation("noise", file, {"start": 0, "end": len(content), "seed": rng.randrange(1 << 16)})]


def _structure(rng: random.Random, ground: Ground) -> list[Mutation]:
    return [rng.choice(_STRUCTURES)(rng, ground)]


def _cut(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground)
    size = max(_edge(rng, ground, file) + rng.choice((-1, 0, 0, 0, 1)), 0)
    return Mutation("truncate", file, {"size": size})


def _empty(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("truncate", _file(rng, ground), {"size": 0})


def _longer(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground)
    size = ground.sizes[file]
    if rng.random() < 0.4:
        return Mutation("extend", file, {"size": rng.choice((1, 19, 20, 46, 512)), "seed": rng.randrange(99)})
    return Mutation("truncate", file, {"size": rng.choice((size + 1, size + 20, 2 * size, 1 << 20, 1 << 30))})


def _hole(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("truncate", _file(rng, ground), {"size": HOLE_SIZE})


def _gone(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("remove", _file(rng, ground))


def _folder_gone(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("remove", rng.choice(ground.folders))


def _new_name(rng: random.Random, ground: Ground, file: str) -> str:
    folder, _, base = file.rpartition("/")
    if base.isdigit() and rng.random() < 0.6:
        start = int(base)
        step = ground.sizes.get(file, 2048)
        near = start + rng.choice((-2, -1, 1, 2, 5)) * step
        base = (
            offset_to_filename(max(near, 0))
            if len(base) == 20
            else str(start + rng.choice((-1, 1, 86_400_000)))
        )
    else:
        base = rng.choice(STRAY_NAMES)
    return f"{folder}/{base}" if folder else base


def _renamed(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground)
    return Mutation("rename", file, {"name": _new_name(rng, ground, file)})


def _folder_renamed(rng: random.Random, ground: Ground) -> Mutation:
    folder = rng.choice(ground.folders)
    above, _, base = folder.rpartition("/")
    name = rng.choice((*STRAY_NAMES, "7", "2147483648", "-1", "TopicA", "%LMQ%x", "a%b", base + ".x"))
    return Mutation("rename", folder, {"name": f"{above}/{name}" if above else name})


def _doubled(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground) if rng.random() < 0.7 else rng.choice(ground.folders)
    return Mutation("double", file, {"name": _new_name(rng, ground, file)})


def _swapped(rng: random.Random, ground: Ground) -> Mutation:
    if rng.random() < 0.8:
        file = _file(rng, ground)
        top = file.partition("/")[0]
        near = [name for name in ground.files if name.partition("/")[0] == top and name != file]
        other = rng.choice(near) if near and rng.random() < 0.7 else rng.choice(ground.files)
        return Mutation("swap", file, {"other": other})
    return Mutation("swap", rng.choice(ground.folders), {"other": rng.choice(ground.folders)})


def _linked(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground) if rng.random() < 0.7 else rng.choice(ground.folders)
    way = rng.randrange(4)
    if way == 0:
        return Mutation("link", file, {"target": "@@", "keep": True})
    if way == 1:
        return Mutation("link", file, {"target": f"@/{file}"})
    if way == 2:
        folder = file.rpartition("/")[0]
        beside = [name for name in ground.files if name.rpartition("/")[0] == folder and name != file]
        target = f"@/{rng.choice(beside)}" if beside else "@"
        return Mutation("link", file, {"target": target})
    return Mutation("link", file, {"target": rng.choice(LINKS)})


def _new_link(rng: random.Random, ground: Ground) -> Mutation:
    file = _new_name(rng, ground, _file(rng, ground))
    target = rng.choice((*LINKS, f"@/{_file(rng, ground)}"))
    return Mutation("link", file, {"target": target})


def _hard_linked(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("hard-link", _file(rng, ground), {"other": _file(rng, ground)})


def _fifo(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground)
    return Mutation("fifo", file if rng.random() < 0.5 else _new_name(rng, ground, file))


def _directory(rng: random.Random, ground: Ground) -> Mutation:
    file = _file(rng, ground)
    name = file if rng.random() < 0.5 else _new_name(rng, ground, file)
    return Mutation("to-directory", name, {"inside": rng.choice(("", "x", offset_to_filename(0)))})


def _folder_file(rng: random.Random, ground: Ground) -> Mutation:
    return Mutation("to-file", rng.choice(ground.folders), {"data": rng.choice(("", "00" * 20, "ff" * 4096))})


def _times(rng: random.Random, ground: Ground) -> Mutation:
    when = rng.choice((0, -1, 10**9, 1 << 62, 253_402_300_800 * 10**9))
    return Mutation("times", _file(rng, ground), {"mtime_ns": when})


def _abort(rng: random.Random, _ground: Ground) -> Mutation:
    data = rng.choice((b"", b"1234", b"\xff\xfe", b"-1\n", b"9" * 400))
    return Mutation("write", "abort", {"data": data.hex()})


def _stray(rng: random.Random, ground: Ground) -> Mutation:
    name = _new_name(rng, ground, _file(rng, ground))
    return Mutation("create", name, {"size": rng.choice((0, 1, 40, 2048)), "seed": rng.randrange(99)})


_STRUCTURES: Sequence[Callable[[random.Random, Ground], Mutation]] = (
    _cut, _cut, _cut, _cut, _empty, _longer, _longer, _hole, _gone, _gone, _folder_gone, _renamed, _renamed,
    _folder_renamed, _doubled, _doubled, _swapped, _swapped, _linked, _linked, _new_link, _hard_linked, _fifo,
    _directory, _folder_file, _times, _abort, _stray,
)  # fmt: skip


def _document(rng: random.Random, ground: Ground) -> list[Mutation]:
    file = rng.choice(ground.documents)
    content = ground.contents[file]
    if rng.random() < 0.25:
        return [Mutation("write", file, {"data": _broken_json(rng, content).hex()})]
    place, value, drop = draw_value(rng, decode_config(content))
    return [Mutation("json", file, {"place": place, "value": value, "drop": drop}, "json")]


def _broken_json(rng: random.Random, content: bytes) -> bytes:
    return rng.choice((
        b"", content[: rng.randrange(len(content))], b"[" * 20_000, b'{"a":' * 3_000, b"\xff\xfe" + content,
        content + content, b"{}", b"null", b"7" * 5_000, content.replace(b":", b"=", 1),
        content.replace(b'"', b"'"),
        content.replace(b"{", b'{"a":1,"a":2,', 1),
    ))  # fmt: skip


def draw_value(rng: random.Random, document: Any) -> tuple[list[Any], Any, bool]:
    """A place in a JSON document, the value that is to be there, and whether it is to go."""
    places = list(_places(document, []))
    place = rng.choice(places)
    old = document
    for step in place:
        old = old[step]
    values: list[Any] = list(HOSTILE_VALUES)
    if isinstance(old, int):
        values += [old + 1, old - 1, -old, old * 2] * 2
    if isinstance(old, str) and old:
        values += [old[:-1], old + "x", old.upper(), f"../{old}", f"/{old}", old + "\0"] * 2
    if isinstance(old, list):
        values += [old * 2, old[1:], old[::-1]] * 2
    if isinstance(old, dict):
        values.append(old | {"unknown": 1})
    return place, rng.choice(values), bool(place) and rng.random() < 0.15


DEEPEST = 40


def _places(document: Any, above: list[Any]) -> Iterator[list[Any]]:
    yield above
    steps: list[Any] = []
    if len(above) >= DEEPEST:  # a change before this one may have made it so
        return
    if isinstance(document, dict):
        steps = list(document)
    elif isinstance(document, list):
        steps = list(range(min(len(document), 8)))
    for step in steps:
        yield from _places(document[step], [*above, step])
