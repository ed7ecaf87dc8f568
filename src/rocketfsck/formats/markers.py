"""The small files at a store's root: `abort`, `lock`, `brokerIdentity`. Reference 1.1, 5.3, 5.4.

`abort` is there while a broker runs, and an unclean stop leaves it; only its existence counts. The file is
empty up to 4.9.8 and holds the broker's PID in ASCII digits from 5.0.0 on. `lock` holds the four bytes
`lock`; what counts is the POSIX lock on its first byte. `brokerIdentity` is one line
`cluster#brokerName#brokerId` without a line end; `brokerIdentity-temp`, there until the controller agrees,
has `#registerCheckCode` after that.
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
    """Who a controller-mode broker is (5.1.1+); `check_code` only where it has not got that id yet."""

    cluster: str
    broker_name: str
    broker_id: int
    check_code: str | None = None


def decode_broker_identity(data: bytes, *, is_temp: bool = False) -> BrokerIdentity:
    """The identity in a `brokerIdentity` file, with `is_temp` in a `brokerIdentity-temp`.

    FormatError for what a broker does not take, or does not write: parts beyond those, a line end.
    """
    name = "brokerIdentity-temp" if is_temp else "brokerIdentity"
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: not UTF-8", offset=error.start) from None
    parts = text.split(BROKER_IDENTITY_SEPARATOR)
    form = ("cluster", "brokerName", "brokerId", "registerCheckCode")[: 3 + is_temp]
    broker_id = parse_int64(parts[2]) if len(parts) == len(form) else None
    if broker_id is None or not all(parts):
        raise FormatError(f"{name}: not {BROKER_IDENTITY_SEPARATOR.join(form)}", offset=0)
    return BrokerIdentity(parts[0], parts[1], broker_id, parts[3] if is_temp else None)


def encode_broker_identity(identity: BrokerIdentity) -> bytes:
    """The content of a `brokerIdentity` file, of a `brokerIdentity-temp` where it has a check code."""
    parts = [identity.cluster, identity.broker_name, str(identity.broker_id)]
    if identity.check_code is not None:
        parts.append(identity.check_code)
    return BROKER_IDENTITY_SEPARATOR.join(parts).encode()
