"""CRC-32 (zlib's; reference 2.6) for kernels: a C function of an installed library, called by its address.

isal's is quicker than zlib's; both take `(start, pointer, size)` and give the same numbers. `chosen` tests a
function before it gives it out. Compiled code that is cached holds no symbol that could be missing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import zlib
from functools import cache
from typing import Any

LIBRARIES = {"isal": ("isal.isal_zlib", "crc32_gzip_refl"), "zlib": ("zlib", "crc32_z")}
"""Who has such a function: the module that comes with the library, and the symbol; the quickest first."""

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
_TESTED_SIZES = (0, 1, 3, 15, 16, 17, 63, 64, 65, 128, 191, 256, 1027, 2200)
_loaded: list[Any] = []


def find_crc(name: str) -> int:
    """The address of the library's function, 0 where there is none."""
    module, symbol = LIBRARIES[name]
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        return 0
    origins = [spec.origin if spec is not None and spec.has_location else None]
    if name == "zlib":
        origins += [None, "libz.so.1"]
    for origin in origins:
        try:
            function = getattr(ctypes.CDLL(origin), symbol)
        except (OSError, AttributeError):
            continue
        _loaded.append(function)  # the library stays loaded as long as its address is in use
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def is_right(address: int) -> bool:
    """Whether the function at an address gives what zlib gives, for sizes and places of every kind."""
    function = _SIGNATURE(address)
    text = bytes((7 * n + (n >> 3)) & 0xFF for n in range(2304))
    start = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
    return all(
        function(0, start + at, size) == zlib.crc32(text[at : at + size])
        for at in (0, 1, 63, 64)
        for size in _TESTED_SIZES
    )


@cache
def chosen() -> int | None:
    """The address that kernels are given; ROCKETFSCK_CRC (`isal`, `zlib`) asks for one by name.

    None where no function works: then no kernel that needs a CRC may run.
    """
    asked = os.environ.get("ROCKETFSCK_CRC") or "auto"
    for name in ([asked] if asked in LIBRARIES else []) + list(LIBRARIES):
        address = find_crc(name)
        if address and is_right(address):
            return address
    return None
