"""The repair `flip-bit`: turn the one bit back that explains why a body does not have its CRC.

Offered, with the odds that it is wrong, and never part of a preen: who knows that the disk lost more than a
bit should lose the record instead. Reference 2.6; fault catalogue, C4.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from rocketfsck.errors import StoreError
from rocketfsck.formats.places import BODY_CRC_AT
from rocketfsck.formats.properties import CRC32, PROPERTY_CRC_SIZE, property_crc_trailer
from rocketfsck.repair.plan.arguments import FlippedByte
from rocketfsck.repair.plan.model import Action, Notice
from rocketfsck.repair.plan.scene import ActScene, PlanScene
from rocketfsck.repair.plan.table import Repair
from rocketfsck.repair.repairs.misnamed import is_misnamed
from rocketfsck.repair.repairs.onebit import CRC_MASK, FlippedBit, find_flipped_bit_in_file
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.log.large import LargeRecord, read_large_record
from rocketfsck.scan.stops import Stop
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding

NAME = "flip-bit"
RULE = RuleName.RECORD_BODY_CRC

_INT = struct.Struct(">i")
_CHUNK_SIZE = 1 << 20


def plan_flips(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """An action for every record of a CL004 finding, if one bit explains each of them; else none for it."""
    if is_misnamed(scene):
        return
    for finding in findings:
        place = finding.where
        if finding.rule != RULE or place.start is None or place.end is None:
            continue
        try:
            with FileReader(scene.path_of(place.file)) as reader:
                actions = _actions(scene, reader, finding, place.start, place.end)
        except StoreError:
            continue  # what cannot be read any more is not answered
        yield from actions


def _actions(scene: PlanScene, reader: FileReader, finding: Finding, start: int, end: int) -> list[Action]:
    file, pos = finding.where.file, start
    actions: list[Action] = []
    while pos < end:
        record = read_large_record(reader, pos, reader.size)
        if isinstance(record, Stop):
            return []
        found = explain_record(reader, record)
        if found is None:
            return []
        byte_pos, bit = found
        before = reader.read(byte_pos, 1)[0]
        what = "body" if bit.in_body else "bodyCRC"
        actions.append(
            Action(
                name=NAME,
                target=file,
                note=f"flip bit {bit.mask.bit_length() - 1} of byte {byte_pos} back, in the {what} of the "
                f"record at byte {pos}; the odds that other damage looks the same: {odds_text(bit.odds)}",
                arguments=FlippedByte(pos, byte_pos, before, before ^ bit.mask, odds_text(bit.odds)),
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


def odds_text(odds: float) -> str:
    """`1 in 2,622`."""
    return f"1 in {max(round(1 / odds), 1):,}"


def explain_record(reader: FileReader, record: LargeRecord) -> tuple[int, FlippedBit] | None:
    """The file position of the byte with the wrong bit, and the bit; None where no single bit explains it.

    A record with a property CRC must have a right one once the bit is turned back. Raises StoreError.
    """
    (stored,) = _INT.unpack_from(record.compact, BODY_CRC_AT)
    # a record that fits in a header's room is given whole, with its body
    size = record.body_size or max(_INT.unpack_from(record.compact, record.body_at - 4)[0], 0)
    body_pos = record.pos + record.body_at
    bit = find_flipped_bit_in_file(reader, body_pos, body_pos + size, stored)
    if bit is None:
        return None
    byte_pos = (body_pos if bit.in_body else record.pos + BODY_CRC_AT) + bit.byte
    return (byte_pos, bit) if _property_crc_agrees(reader, record, byte_pos, bit.mask) else None


def _property_crc_agrees(reader: FileReader, record: LargeRecord, byte_pos: int, mask: int) -> bool:
    end = record.pos + record.total_size - PROPERTY_CRC_SIZE
    trailer = reader.read(end, PROPERTY_CRC_SIZE)
    if not trailer.startswith(CRC32.encode()):
        return True
    crc = 0
    for pos in range(record.pos, end, _CHUNK_SIZE):
        chunk = bytearray(reader.read(pos, min(_CHUNK_SIZE, end - pos)))
        if pos <= byte_pos < pos + len(chunk):
            chunk[byte_pos - pos] ^= mask
        crc = zlib.crc32(chunk, crc)
    return trailer == property_crc_trailer(crc & CRC_MASK)


def flip_back(scene: ActScene, action: Action, arguments: FlippedByte) -> None:
    """Write the byte with the bit turned back. Raises StoreError where another byte stands there."""
    pos, before, after = arguments.pos, arguments.before, arguments.after
    if scene.tree.read(action.target, pos, 1) != bytes([before]):
        raise StoreError(f"is no longer {before:#04x}", path=action.target, offset=pos)
    scene.tree.write(action.target, pos, bytes([after]))


ONE_BIT = Repair(
    name=NAME,
    order=40,
    summary="flip back the one bit that explains a wrong body CRC",
    plan=plan_flips,
    act=flip_back,
    arguments=FlippedByte,
)
