"""The small files at a store's root: `abort`, `lock`, `brokerIdentity`. Reference 1.1, 5.3, 5.4.

`abort` stands while a broker runs and is left by an unclean stop; only its existence counts. It is empty up
to 4.9.8 and holds the broker's PID in ASCII digits from 5.0.0 on. `lock` holds the four bytes `lock`; what
counts is the POSIX lock on its first byte. `brokerIdentity` is one line `cluster#brokerName#brokerId`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import parse_int64

ABORT_NAME = "abort"
LOCK_NAME = "lock"
LOCK_CONTENT = b"lock"
BROKER_IDENTITY_SEPARATOR = "#"
_MAX_PID_DIGITS = 20


def decode_abort(data: bytes) -> int | None:
    """The PID that an abort file states, None for an empty one; FormatError for anything else."""
    if not data:
        return None
    if len(data) > _MAX_PID_DIGITS or not data.isdigit():
        raise FormatError("abort: neither empty nor a PID", offset=0)
    return int(data)


def encode_abort(pid: int | None) -> bytes:
    """The content of an abort file: empty, or a PID."""
    return b"" if pid is None else str(pid).encode()


def is_lock_content(data: bytes) -> bool:
    """Whether a lock file holds what a broker writes (nothing, before its first write)."""
    return data in (b"", LOCK_CONTENT)


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Who a controller-mode broker is (5.1.1+)."""

    cluster: str
    broker_name: str
    broker_id: int


def decode_broker_identity(data: bytes) -> BrokerIdentity:
    """The identity in a `brokerIdentity` file; FormatError if it is not `cluster#brokerName#brokerId`."""
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise FormatError("brokerIdentity: not UTF-8", offset=error.start) from None
    parts = text.split(BROKER_IDENTITY_SEPARATOR)
    broker_id = parse_int64(parts[-1])
    if len(parts) != 3 or broker_id is None:
        raise FormatError("brokerIdentity: not cluster#brokerName#brokerId", offset=0)
    return BrokerIdentity(parts[0], parts[1], broker_id)


def encode_broker_identity(identity: BrokerIdentity) -> bytes:
    """The content of a `brokerIdentity` file."""
    parts = (identity.cluster, identity.broker_name, str(identity.broker_id))
    return BROKER_IDENTITY_SEPARATOR.join(parts).encode()
