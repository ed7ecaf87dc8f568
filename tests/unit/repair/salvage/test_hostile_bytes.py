"""Whatever bytes are carved: no error but ours, every byte accounted for, nothing taken that is not sound."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketfsck.formats.record import body_crc, decode_record
from rocketfsck.repair.salvage.choose import Fate
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.salvage.salvage import find_records

from tests.conftest import Directory

FILE_SIZE = 65536

Edit = tuple[str, int, bytes]


@cache
def _log(path: Path) -> bytes:
    return path.read_bytes()


@st.composite
def edits(draw: st.DrawFn) -> list[Edit]:
    """Bytes written over, put in between or taken out, at positions in thousandths of the file."""
    kind = st.sampled_from(["over", "in", "out", "repeat"])
    return draw(st.lists(st.tuples(kind, st.integers(0, 999), st.binary(max_size=300)), max_size=8))


def edited(data: bytes, changes: list[Edit]) -> bytes:
    for kind, place, given_bytes in changes:
        at = len(data) * place // 1000
        if kind == "over":
            data = data[:at] + given_bytes + data[at + len(given_bytes) :]
        elif kind == "in":
            data = data[:at] + given_bytes + data[at:]
        elif kind == "out":
            data = data[:at] + data[at + 10 * len(given_bytes) :]
        else:
            data = data[:at] + data[max(at - 3000, 0) :]
    return data


@pytest.mark.parametrize("name", ["5.3.3-basic", "5.3.3-propcrc", "4.9.8-ipv6"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=edits(), named=st.booleans(), layout=st.sampled_from(["auto", "pack"]))
def test_damaged_logs(
    name: str, store_dir: Directory, tmp_path: Path, changes: list[Edit], named: bool, layout: str
) -> None:
    data = edited(_log(min((store_dir(name) / "commitlog").iterdir())), changes)
    source = tmp_path / (f"{0:020d}" if named else "image")
    source.write_bytes(data)
    options = SalvageOptions(
        file_size=FILE_SIZE, layout="pack" if layout == "pack" else "auto", version="5.3.3"
    )
    salvage = find_records([source], options)
    found, placement = salvage.story.found, salvage.story.placement
    taken = np.flatnonzero(salvage.story.fates == Fate.TAKEN)
    assert sorted(taken.tolist()) == sorted(placement.rows.tolist())
    for row in taken.tolist():
        record = decode_record(data, int(found["pos"][row]))
        assert record.total_size == found["total_size"][row]
        assert not record.body or record.body_crc == body_crc(record.body)
    ranges = [
        *zip(
            placement.offsets.tolist(),
            (placement.offsets + found["total_size"][placement.rows]).tolist(),
            strict=True,
        ),
        *placement.fences,
        *placement.blanks,
    ]
    reached = placement.start_offset
    for low, high in sorted(ranges):
        assert low == reached
        reached = high
    assert sum(salvage.counts.values()) == len(found)


@given(st.binary(max_size=2000))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    source = tmp_path_factory.mktemp("bytes") / "file"
    source.write_bytes(data)
    salvage = find_records([source], SalvageOptions(file_size=FILE_SIZE))
    assert salvage.counts == {}
    assert salvage.nothing_byte_count == len(data)
