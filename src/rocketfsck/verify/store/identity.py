"""Checks of who a broker in controller mode takes itself for: `brokerIdentity` and its forerunner.

    brokerIdentity       cluster#brokerName#brokerId                       read first
    brokerIdentity-temp  cluster#brokerName#brokerId#registerCheckCode     read where the first gives nothing

Written once when the broker registers. Reference 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.markers import decode_broker_identity
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.report import NotChecked

MAX_SIZE = 1 << 16
NAMES = {"cluster": "brokerClusterName", "broker_name": "brokerName"}
"""What must be the same in broker.conf, by the field here."""


def check_identity(store: Store) -> Iterator[Finding | NotChecked]:
    """The identity files; nobody reads a `.bak`, nor a `-temp` next to a sound identity."""
    files = [
        file for other in store.others if other.kind is OtherKind.BROKER_IDENTITY for file in other.files
    ]
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".bak"):
            continue
        try:
            data = read_whole(file.path, MAX_SIZE)
            identity = decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except FormatError as error:
            where = Where(file=file.relative, start=error.offset, end=file.size)
            yield Finding(RuleName.IDENTITY_DAMAGED, where, {"reason": str(error)})
        except StoreError as error:
            yield NotChecked(file.relative, str(error), operational=True)
        else:
            found = {setting: str(getattr(identity, name)) for name, setting in NAMES.items()}
            yield from _differing(store, file, found)
            return


def _differing(store: Store, file: StoreFile, found: dict[str, str]) -> Iterator[Finding]:
    where = Where(file=file.relative, start=0, end=file.size)
    for name, value in found.items():
        told = (store.settings.get(name) or "").strip()
        if told and told != value:
            yield Finding(RuleName.IDENTITY_DIFFERS, where, {"name": name, "value": value}, {"value": told})
