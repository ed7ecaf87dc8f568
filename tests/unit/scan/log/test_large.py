"""A record that is read alone has the faults that a scan of its file finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.query.view import LogView
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store

from tests.unit.cli.browse.stores import record_bytes


@pytest.mark.parametrize("size", [1, 4, 20, 200, 5000])
def test_the_body_of_any_record_is_compared(size: int, tmp_path: Path) -> None:
    """The shortest are wholly in the bytes that are read for the head."""
    data = bytearray(record_bytes(0, 0, body=b"x" * size))
    data[88] ^= 1  # the first byte of the body
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(data.ljust(1 << 14, b"\0"))
    with LogView(open_store(tmp_path)) as log:
        message, alone = log.message_at(0), log.record_at(0)
    assert isinstance(message, Message)
    assert isinstance(alone, Message)
    assert message.faults == Fault.BODY_CRC
    assert not alone.faults  # of which no body is read
