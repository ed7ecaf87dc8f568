"""What two replicas' own files say, as lines for people: nodes of DLedger's, epochs of controller mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.cli.show.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.query.nodes import NodeSide
    from rocketfsck.repair.compare.nodes import Replication


def replication_lines(found: Replication) -> Iterator[str]:
    """DLedger's nodes, where their entries part, who may lead; the epochs of controller mode."""
    for name, node in zip(("A", "B"), found.nodes, strict=True):
        if node is not None:
            yield f"{name} is DLedger's node {visible(node.directory)}: {_node(node)}"
    if found.parting is not None:
        terms = [_term(term) for term in found.parting.terms]
        what = "headers" if found.parting.in_header else "bodies"
        yield (
            f"DLedger's entries differ from {found.parting.physical_offset} on, entry "
            f"{found.parting.index}: {terms[0]} in A, {terms[1]} in B; their {what} differ"
        )
    if found.ahead is not None:
        yield f"{found.ahead} has the later last entry: {found.ahead} may lead, and the other follows"
    if found.epochs is not None:
        epochs = found.epochs
        yield f"Epochs: the last epoch is {epochs.last_epochs[0]} in A and {epochs.last_epochs[1]} in B"
        if epochs.common_epoch is None:
            yield "  no epoch begins at the same offset in both: a slave would copy everything again"
        else:
            yield (
                f"  epoch {epochs.common_epoch} is the last that both have: a slave continues from "
                f"{epochs.consistent_offset}"
            )


def _node(node: NodeSide) -> str:
    if node.last_index is None:
        return "no sound entry"
    agreed = "unknown" if node.committed_index is None else str(node.committed_index)
    return (
        f"entries {node.first_index} to {node.last_index}, the last of term {node.last_term}, which end at "
        f"{node.end_offset}; agreed on up to {agreed}, votes in term {node.current_term}"
    )


def _term(term: int | None) -> str:
    return "no sound entry" if term is None else f"term {term}"
