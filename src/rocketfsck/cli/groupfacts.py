"""What `info` tells of a broker's place in its group: who it takes itself for, what its node knows."""

from __future__ import annotations

from typing import Any

from rocketfsck.errors import StoreError
from rocketfsck.formats.markers import decode_broker_identity
from rocketfsck.store import Store
from rocketfsck.store.model import OtherKind
from rocketfsck.store.reading import read_whole

_IDENTITY_SIZE = 1 << 16


def identity_facts(store: Store) -> dict[str, Any] | None:
    """The identity of a broker in controller mode, from the file that it would take; None: there is none."""
    files = [
        file
        for other in store.others
        if other.kind is OtherKind.BROKER_IDENTITY
        for file in other.files
        if not file.name.endswith(".bak")
    ]
    failed: dict[str, Any] | None = None
    for file in sorted(files, key=lambda file: file.name):
        try:
            data = read_whole(file.path, _IDENTITY_SIZE)
            identity = decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except StoreError as error:
            failed = failed or {"file": file.relative, "error": str(error)}
            continue
        return {
            "file": file.relative,
            "cluster": identity.cluster,
            "broker_name": identity.broker_name,
            "broker_id": identity.broker_id,
        }
    return failed


def node_facts(store: Store) -> dict[str, Any] | None:
    """The state of the DLedger node whose log the store has; None where the log is plain.

    The group's name is in no file of a store: it is the one in broker.conf, if that is given.
    """
    from rocketfsck.query.nodes import node_state  # loads NumPy

    try:
        state = node_state(store)
    except StoreError as error:
        return {"error": str(error)}
    if state is None:
        return None
    return {
        "node": state.directory.partition("-")[2],
        "group": (store.settings.get("dLegerGroup") or "").strip() or None,
        "current_term": state.current_term,
        "voted_for": state.voted_for,
        "committed_index": state.committed_index,
    }
