"""A host in a record or a message id: `address[4 | 16] port[4]`. Reference 2.4.

The address is in network order; the port is a signed 32-bit number, of which 0 .. 65535 make sense.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rocketfsck.errors import FormatError
from rocketfsck.formats.magic import IPV4_HOST_SIZE, IPV6_HOST_SIZE

_PORT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Host:
    """An address of 4 or 16 bytes and a port (a signed 32-bit number on disk)."""

    address: bytes
    port: int

    @property
    def text(self) -> str:
        """`10.1.2.3:10911` or `[2001:db8::1]:10911`."""
        if len(self.address) == 4:
            return ".".join(map(str, self.address)) + f":{self.port}"
        from ipaddress import IPv6Address

        return f"[{IPv6Address(self.address)}]:{self.port}"


def decode_host(data: bytes) -> Host:
    """A host of 8 or 20 bytes; FormatError for any other number."""
    if len(data) not in (IPV4_HOST_SIZE, IPV6_HOST_SIZE):
        raise FormatError(
            f"host: {len(data)} bytes are neither an IPv4 nor an IPv6 address with a port", offset=0
        )
    return Host(bytes(data[:-4]), _PORT.unpack(data[-4:])[0])


def encode_host(host: Host) -> bytes:
    """The address and the port as i32; FormatError if either does not fit."""
    if len(host.address) not in (4, 16) or not -(1 << 31) <= host.port < 1 << 31:
        raise FormatError(f"host: {host!r} does not fit", offset=0)
    return host.address + _PORT.pack(host.port)
