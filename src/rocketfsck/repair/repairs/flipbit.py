"""The repair `flip-bit`: turn the one bit back that explains why a body does not have its CRC.

    a few records of a file        an action for every record
    more, or more than listed      one action for all records of the file, found by a scan of it

Offered, with the odds that it is wrong, and never part of a preen: who knows that the disk lost more than a
bit should lose the record instead. Reference 2.6; fault catalogue, C4.

One flipped bit, found from the CRC that it broke. Reference 2.6.

CRC-32 is linear over GF(2): computed xor stored (the syndrome) depends on the error alone, not on the body.
A single wrong bit with d bits after it gives x**(d + 32) mod P, so d is a discrete logarithm, found by baby
and giant steps in about the square root of the body's bits; nothing is tried on the body. The stored CRC
lacks its top bit, so there are two syndromes to solve for. A syndrome of one bit is a flip of the CRC field
itself.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.columns import BODY_CRC_AT
from rocketfsck.formats.properties import CRC32, PROPERTY_CRC_SIZE, property_crc_trailer
from rocketfsck.repair.plan.arguments import FlippedBits
from rocketfsck.repair.plan.model import Action, Notice
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair
from rocketfsck.repair.repairs.answers import by_file, log_file
from rocketfsck.repair.repairs.misnamed import is_misnamed
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.log.large import LargeRecord, read_large_record
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import Stop, log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.tasks.task import is_aggregate

POLYNOMIAL = 0xEDB88320
"""P without x**32, bit-reflected as zlib has it: bit 31 is x**0, bit 0 is x**31."""

ORDER = (1 << 32) - 1
"""P is primitive: the powers of x repeat after so many."""

CRC_MASK = 0x7FFFFFFF
CHUNK_SIZE = 1 << 20

_TOP = 1 << 31
_ONE = 1 << 31  # x**0


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """The one bit that explains a CRC error.

    `in_body`: it is a bit of the body, else of the four bytes of the bodyCRC field. `byte` counts from the
    first byte of the body or the field, `mask` has the bit set that must be flipped back. `odds` is how
    likely it is that damage of another kind looks like this (0 to 1): the share of the 2**31 syndromes that
    some single bit of this body or field explains.
    """

    in_body: bool
    byte: int
    mask: int
    odds: float


def find_flipped_bit(body: bytes | memoryview, stored_crc: int) -> FlippedBit | None:
    """The only single bit whose flip makes `body` and `stored_crc` (a signed or unsigned i32) agree.

    None if they agree already, if the body is empty (readers do not check it), and if no single bit or more
    than one explains the difference.
    """
    return explain_crc(zlib.crc32(body), len(body), stored_crc)


def find_flipped_bit_in_file(reader: FileReader, start: int, end: int, stored_crc: int) -> FlippedBit | None:
    """`find_flipped_bit` of the file's bytes `start:end`, read in chunks. Raises StoreError."""
    crc = 0
    for pos in range(start, end, CHUNK_SIZE):
        crc = zlib.crc32(reader.read(pos, min(CHUNK_SIZE, end - pos)), crc)
    return explain_crc(crc, end - start, stored_crc)


def explain_crc(crc: int, body_size: int, stored_crc: int) -> FlippedBit | None:
    """`find_flipped_bit` of a body of `body_size` bytes whose whole 32-bit CRC is `crc`."""
    difference = (crc & CRC_MASK) ^ (stored_crc & 0xFFFFFFFF)
    if body_size <= 0 or difference == 0:
        return None
    odds = min((8 * body_size + 32) / (1 << 31), 1.0)
    found = []
    if difference & (difference - 1) == 0:
        bit = difference.bit_length() - 1
        found.append(FlippedBit(False, 3 - bit // 8, 1 << bit % 8, odds))
    if not difference & _TOP:  # a broker writes no top bit: set, it is a flip, and the body is not to blame
        bit_count = 8 * body_size
        for syndrome in (difference, difference | _TOP):
            for distance in _distances(syndrome, bit_count):
                pos = bit_count - 1 - distance
                found.append(FlippedBit(True, pos // 8, 1 << pos % 8, odds))
    return found[0] if len(found) == 1 else None


def _distances(syndrome: int, bit_count: int) -> list[int]:
    """Every d in 0..bit_count-1 with x**(d + 32) = syndrome mod P."""
    # more baby steps than giant ones, and few different counts of them: the table is kept
    width = 1 << (bit_count.bit_length() + 1) // 2 + 2
    steps = _baby_steps(width)
    giant = _products(_power(ORDER - width))  # x**-width
    value = _looked_up(_products(_power(ORDER - 32)), syndrome)
    for start in range(0, min(bit_count, ORDER), width):
        step = steps.get(value)
        if step is not None:
            return list(range(start + step, bit_count, ORDER))
        value = _looked_up(giant, value)
    return []


@cache
def _baby_steps(width: int) -> dict[int, int]:
    """x**0 to x**(width - 1), each with its exponent. Bounded: a body has at most 2**34 bits."""
    steps = {}
    value = _ONE
    for exponent in range(width):
        steps[value] = exponent
        value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return steps


@cache
def _power(exponent: int) -> int:
    """x**exponent mod P."""
    result, base = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _multiply(result, base)
        base = _multiply(base, base)
        exponent >>= 1
    return result


def _multiply(left: int, right: int) -> int:
    """The product of two polynomials mod P."""
    product = 0
    while right:
        if right & _ONE:
            product ^= left
        left = left >> 1 ^ (POLYNOMIAL if left & 1 else 0)
        right = right << 1 & 0xFFFFFFFF
    return product


Products = tuple[tuple[int, ...], ...]
"""For each byte of a polynomial, by its value: what it adds to a product with a fixed one."""


@cache
def _products(factor: int) -> Products:
    """The products of one polynomial with all others, byte by byte. Factors are few: see `_distances`."""
    return tuple(tuple(_multiply(byte << shift, factor) for byte in range(256)) for shift in (0, 8, 16, 24))


def _looked_up(products: Products, value: int) -> int:
    low, second, third, high = products
    return low[value & 255] ^ second[value >> 8 & 255] ^ third[value >> 16 & 255] ^ high[value >> 24]


NAME = "flip-bit"
RULE = RuleName.RECORD_BODY_CRC

SINGLE_LIMIT = 1000
"""Records of a file that may have an action each: as many as somebody could look at."""
_INT = struct.Struct(">i")
_WINDOW_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class BodyPlace:
    """A record and its body, by positions in the file, and the CRC that the record says."""

    pos: int
    total_size: int
    body_pos: int
    body_size: int
    stored_crc: int


def plan_flips(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """An action for every record of a CL004 finding, if one bit explains each of them; else none for it.

    Where a report only counts some of a file's findings, or has more than `SINGLE_LIMIT`, one action for all
    records of the file of which one bit explains each.
    """
    if is_misnamed(scene):
        return
    for name, found in by_file(finding for finding in findings if finding.rule == RULE).items():
        try:
            with FileReader(scene.path_of(name)) as reader:
                file = log_file(scene.store, name)
                count = sum(finding.count for finding in found)
                if file is not None and (count > SINGLE_LIMIT or any(map(is_aggregate, found))):
                    actions = list(_of_whole_file(scene, reader, file, found))
                else:
                    actions = [action for finding in found for action in _actions(scene, reader, finding)]
        except StoreError:
            continue  # what cannot be read any more is not answered
        yield from actions


def _actions(scene: PlanScene, reader: FileReader, finding: Finding) -> list[Action]:
    """An action for each record of a finding."""
    file, pos, end = finding.where.file, finding.where.start, finding.where.end
    actions: list[Action] = []
    if pos is None or end is None:
        return actions
    while pos < end:
        try:
            record = read_large_record(reader, pos, reader.size)
        except StoreError:
            return []
        if isinstance(record, Stop):
            return []
        found = explain_record(reader, _body_of(record))
        if found is None:
            return []
        byte_pos, bit = found
        number = bit.mask.bit_length() - 1
        what = "body" if bit.in_body else "bodyCRC"
        actions.append(
            Action(
                name=NAME,
                target=file,
                note=f"flip bit {number} of byte {byte_pos} back, in the {what} of the "
                f"record at byte {pos}; the odds that other damage looks the same: {odds_text(bit.odds)}",
                arguments=FlippedBits((8 * byte_pos + number,)),
                why=(finding.fingerprint,),
                rules=(finding.rule,),
                preconditions=(scene.extent(file, pos, pos + record.total_size),),
                gains={"record": 1},
                write_byte_count=1,
                notices=(Notice("content-guessed", 1),),
            )
        )
        pos += record.total_size
    return actions


def _body_of(record: LargeRecord) -> BodyPlace:
    # a record that fits in a header's room is given whole, with its body
    size = record.body_size or max(_INT.unpack_from(record.compact, record.body_at - 4)[0], 0)
    (stored,) = _INT.unpack_from(record.compact, BODY_CRC_AT)
    return BodyPlace(record.pos, record.total_size, record.pos + record.body_at, size, stored)


def _of_whole_file(
    scene: PlanScene, reader: FileReader, file: MappedFile, findings: Sequence[Finding]
) -> Iterator[Action]:
    """One action for all records that one bit explains in a file whose findings are listed only in part."""
    starts: list[int] = []  # of records that have an explanation, and of those that have none
    ends: list[int] = []
    bits: list[int] = []
    left: list[int] = []
    odds = 0.0
    for place in _wrong_bodies(scene, reader, file):
        found = explain_record(reader, place)
        if found is None:
            left.append(place.pos)
            continue
        byte_pos, bit = found
        odds = max(odds, bit.odds)
        starts.append(place.pos)
        ends.append(place.pos + place.total_size)
        bits.append(8 * byte_pos + bit.mask.bit_length() - 1)
    if not bits:
        return
    why: list[str] = []
    partly: dict[str, int] = {}
    listed = [finding for finding in findings if not is_aggregate(finding)]
    named = 0
    for finding in listed:
        answered = _number_in(starts, finding)
        named += answered
        if answered and _number_in(left, finding):
            partly[finding.fingerprint] = answered
        elif answered:
            why.append(finding.fingerprint)
    for finding in findings:
        if is_aggregate(finding) and not left:
            why.append(finding.fingerprint)
        elif is_aggregate(finding) and len(starts) > named:
            partly[finding.fingerprint] = min(len(starts) - named, finding.count - 1)
    yield Action(
        name=NAME,
        target=file.relative,
        note=f"flip one bit back in each of {count_of(len(bits), 'record')}, the first at byte {starts[0]}; "
        f"the odds that other damage of a record looks the same: {odds_text(odds)}",
        arguments=FlippedBits(tuple(sorted(bits))),
        why=tuple(why),
        rules=(RULE,),
        preconditions=(scene.extent(file.relative, starts[0], ends[-1]),),
        gains={"record": len(bits)},
        write_byte_count=min(len(bits) * _WINDOW_SIZE, ends[-1] - starts[0]),
        notices=(Notice("content-guessed", len(bits)),),
        partly=partly,
    )


def _number_in(positions: Sequence[int], finding: Finding) -> int:
    """How many of these positions, which rise, are within the place of a finding."""
    start, end = finding.where.start or 0, finding.where.end or 0
    return bisect_left(positions, end) - bisect_left(positions, start)


def _wrong_bodies(scene: PlanScene, reader: FileReader, file: MappedFile) -> Iterator[BodyPlace]:
    """The live records of a file whose body does not have its CRC."""
    options = log_options(scene.store, file, read_bodies=True)
    names = ("pos", "total_size", "body_pos", "body_size", "body_crc")
    for batch in LiveScan().batches(reader, file.start_offset or 0, options, QueueTable()):
        rows = np.flatnonzero(batch["faults"] & int(Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE))
        columns = [batch[name][rows].tolist() for name in names]
        yield from map(BodyPlace, *columns)


def odds_text(odds: float) -> str:
    """`1 in 2,622`."""
    return f"1 in {max(round(1 / odds), 1):,}"


def explain_record(reader: FileReader, record: BodyPlace) -> tuple[int, FlippedBit] | None:
    """The file position of the byte with the wrong bit, and the bit; None where no single bit explains it.

    A record with a property CRC must have a right one once the bit is turned back. Raises StoreError.
    """
    body_pos, size = record.body_pos, max(record.body_size, 0)
    bit = find_flipped_bit_in_file(reader, body_pos, body_pos + size, record.stored_crc)
    if bit is None:
        return None
    byte_pos = (body_pos if bit.in_body else record.pos + BODY_CRC_AT) + bit.byte
    return (byte_pos, bit) if _property_crc_agrees(reader, record, byte_pos, bit.mask) else None


def _property_crc_agrees(reader: FileReader, record: BodyPlace, byte_pos: int, mask: int) -> bool:
    end = record.pos + record.total_size - PROPERTY_CRC_SIZE
    trailer = reader.read(end, PROPERTY_CRC_SIZE)
    if not trailer.startswith(CRC32.encode()):
        return True
    crc = 0
    for pos in range(record.pos, end, CHUNK_SIZE):
        chunk = bytearray(reader.read(pos, min(CHUNK_SIZE, end - pos)))
        if pos <= byte_pos < pos + len(chunk):
            chunk[byte_pos - pos] ^= mask
        crc = zlib.crc32(chunk, crc)
    return trailer == property_crc_trailer(crc & CRC_MASK)


def flip_back(scene: ActScene, action: Action, arguments: FlippedBits) -> None:
    """Turn the bits back. Raises StoreError where the file ends before one of them."""
    for bits in _windows(arguments.bits):
        first, last = bits[0] // 8, bits[-1] // 8
        data = bytearray(scene.tree.read(action.target, first, last - first + 1))
        if len(data) <= last - first:
            raise StoreError("ends before a bit that is to be turned back", path=action.target, offset=last)
        for bit in bits:
            data[bit // 8 - first] ^= 1 << bit % 8
        scene.tree.write(action.target, first, bytes(data))


def _windows(bits: Iterable[int]) -> Iterator[list[int]]:
    """Bits in order, those together that are near each other."""
    found: list[int] = []
    for bit in sorted(bits):
        if found and bit // 8 - found[0] // 8 >= _WINDOW_SIZE:
            yield found
            found = []
        found.append(bit)
    if found:
        yield found


ONE_BIT = Repair(
    name=NAME,
    order=40,
    summary="flip back the one bit that explains a wrong body CRC",
    plan=plan_flips,
    act=flip_back,
    arguments=FlippedBits,
)
