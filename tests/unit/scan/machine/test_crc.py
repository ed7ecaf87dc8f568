"""The CRC-32 that kernels are given is zlib's, whichever library it is of."""

from __future__ import annotations

import ctypes
import sys
import threading
import zlib
from collections.abc import Iterator

import pytest

from rocketfsck.scan.machine import jit


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    jit.chosen.cache_clear()
    yield
    jit.chosen.cache_clear()


@pytest.mark.parametrize("name", jit.LIBRARIES)
def test_functions_are_right(name: str) -> None:
    address = jit.find_crc(name)
    if not address:
        pytest.skip(f"{name} is not installed")
    assert jit.is_right(address)


def test_another_function_is_wrong() -> None:
    def adler(start: int, data: int, size: int) -> int:  # noqa: ARG001
        return zlib.adler32(ctypes.string_at(data, size))

    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
    function = kind(adler)
    assert not jit.is_right(ctypes.cast(function, ctypes.c_void_p).value or 0)


def test_the_quickest_is_chosen_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"isal": 0, "zlib": 0}
    monkeypatch.setattr(jit, "find_crc", addresses.__getitem__)
    monkeypatch.setattr(jit, "is_right", lambda address: address != 3)
    for found, asked, chosen in (
        ((1, 2), None, 1),
        ((1, 2), "zlib", 2),
        ((1, 2), "own", 1),
        ((0, 2), "isal", 2),
        ((3, 2), None, 2),
        ((3, 3), None, None),
        ((0, 0), None, None),
    ):
        addresses["isal"], addresses["zlib"] = found
        if asked is None:
            monkeypatch.delenv("ROCKETFSCK_CRC", raising=False)
        else:
            monkeypatch.setenv("ROCKETFSCK_CRC", asked)
        jit.chosen.cache_clear()
        assert jit.chosen() == chosen


def test_without_any_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETFSCK_KERNELS", raising=False)
    monkeypatch.setattr(sys, "byteorder", "little")
    monkeypatch.setattr(jit, "IN_USE", threading.Event())
    assert jit.compiled_wanted(1 << 40)
    jit.IN_USE.clear()
    monkeypatch.setattr(jit, "find_crc", lambda _: 0)
    jit.chosen.cache_clear()
    assert not jit.compiled_wanted(1 << 40)


@pytest.mark.parametrize("name", jit.LIBRARIES)
def test_kernels_check_bodies_with_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    import numpy as np

    from rocketfsck.scan.columns import Fault, new_batch
    from rocketfsck.scan.compiled.records import scan_records
    from rocketfsck.scan.options import ScanOptions
    from rocketfsck.scan.queues import QueueTable

    from tests.unit.scan.logmaker import BASE, log

    if not jit.find_crc(name):
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("ROCKETFSCK_CRC", name)
    data = np.frombuffer(log(b"", b"x", b"body" * 300), np.uint8).copy()
    for flip, faults in ((0, [0, 0, 0]), (1, [0, 0, int(Fault.BODY_CRC)])):
        data[-400] ^= flip
        batch = new_batch()
        scan_records(data, 0, len(data), 0, BASE, len(data) + 8, ScanOptions(), batch, QueueTable())
        assert batch["faults"].tolist() == faults
