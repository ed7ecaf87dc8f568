"""From what `check` has written to the document of a page.

check --format json STORE               a report: the page of a store, with it or without it at hand
check --format json STORE STORE …       a table of verdicts: the page of a fleet
check --tables DIR STORE STORE …        the same, the newest run in DIR (Parquet or Delta), with its findings
check --report FILE.json                the data of a page
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.show.replication import group_lines
from rocketfsck.cli.show.text import sentence
from rocketfsck.common.documents import from_document
from rocketfsck.common.rows import named_row
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.fleet.model import STORES_KIND
from rocketfsck.repair.compare.groups import ReplicaGroup
from rocketfsck.store.places.urls import file_system, is_remote
from rocketfsck.store.reading import read_document
from rocketfsck.verify.report import Report

if TYPE_CHECKING:
    from rocketfsck.engine import Engine
    from rocketfsck.page.fleet import FleetPage, GroupSaid
    from rocketfsck.page.model import Page
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store.model import Store

PAGES = {"rocketfsck.page": "page.model.Page", "rocketfsck.page.fleet": "page.fleet.FleetPage"}


def read_said(path: Path) -> Any:
    """What there is at a path: JSON values, or the rows of a table of verdicts as `check` gives them in JSON.

    Raises UsageError for anything else, StoreError for what cannot be read.
    """
    if path.is_dir() or path.suffix == ".parquet":
        return _tables(path)
    return read_document(path, "report")


def page_of_report(document: Any, engine: Engine, store: Store | None) -> Page:
    """The page of the report that `check --format json` printed of one store.

    With the `store` of the report, the map and all else that the report has not is read. Raises UsageError
    for another document, and for another store.
    """
    from rocketfsck.cli.pages.making import page_of
    from rocketfsck.repair.verdict import plan_or_obstacle, predicted

    report = Report.from_json(document)
    verdict = verdict_in(document)
    if store is None:
        return page_of(report, verdict, engine)
    refuse_other_store(report, store, "check it again with --report")
    plan, _ = plan_or_obstacle(store, report)
    return page_of(
        report,
        verdict,
        engine,
        store=store,
        predictions=predicted(store, report, while_running=True),
        plan=plan,
    )


def page_of_rows(document: Mapping[str, Any]) -> FleetPage:
    """The page of a fleet, out of what `read_said` gives. Raises UsageError for another document."""
    from rocketfsck.page.fleet import fleet_page

    rows, findings = document.get("rows"), document.get("findings")
    try:
        groups = [from_document(ReplicaGroup, item, "group") for item in document.get("node_groups") or ()]
        return fleet_page(
            map(named_row, rows or ()),
            None if findings is None else map(named_row, findings),
            groups_said(groups),
            document.get("earlier") or (),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"not a table of verdicts: {type(error).__name__}: {error}") from error


def groups_said(groups: Sequence[ReplicaGroup]) -> list[GroupSaid]:
    """Groups of replicas with what `check` says of them, under the paths of the stores."""
    return [(group, list(group_lines(group, [str(one.path) for one in group.members]))) for group in groups]


def verdict_in(document: Mapping[str, Any]) -> Verdict | None:
    """The verdict in a report; reports that the Python interface wrote have none."""
    from rocketfsck.repair.verdict import Verdict

    said = document.get("verdict")
    return None if said is None else from_document(Verdict, said, "verdict", exact=False)


IDENTITY = {
    "file_count": "{} files",
    "byte_count": "{} bytes in files",
    "start_offset": "a commit log from {} on",
    "end_offset": "a commit log up to {}",
}
"""What a report says of its store that tells stores apart, and states of one store."""


def refuse_other_store(report: Report, store: Store, advice: str) -> None:
    """Raise UsageError with `advice` unless the store has the files that the report is about, as far as sizes
    tell. The directory may be another one: a report goes with a copy of its store, too."""
    from rocketfsck.verify.run import store_facts

    now, then = store_facts(store), report.store
    differing = [
        f"{text.format(_number(getattr(then, name)))} (here {_number(getattr(now, name))})"
        for name, text in IDENTITY.items()
        if getattr(now, name) != getattr(then, name)
    ]
    if not differing:
        return
    root = sentence(then.root)
    which = "this store in another state" if then.root == now.root else f"another store, {root}"
    raise UsageError(f"the report is about {which}, with {', '.join(differing)}: {advice}")


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _tables(path: Path) -> dict[str, Any]:
    """A table of verdicts, the findings of the same run next to it, and the states in earlier runs."""
    from rocketfsck.pipeline.fleet.tables import RunTables, earlier_states

    if path.is_dir():
        stores = path / "stores"
        if (stores / "_delta_log").is_dir():
            return _of_delta(path)
        names = [file.name for file in stores.iterdir()] if stores.is_dir() else []
        if "metadata" in names:
            raise UsageError(f"{path} has Iceberg tables; `page` reads Parquet and Delta tables of checks")
        runs = [stores / name for name in sorted(names) if name.endswith(".parquet")]
        if not runs:
            raise UsageError(f"{path} has no stores/*.parquet, which `rocketfsck check --tables` writes")
        path = runs[-1]
    listed = path.parent.parent / "findings" / path.name
    findings = _rows(listed) if listed.is_file() else None
    earlier = earlier_states(RunTables(path.parent.parent), path.stem) if path.parent.name == "stores" else []
    return {"kind": STORES_KIND, "rows": _rows(path), "findings": findings, "earlier": earlier}


def _of_delta(path: Path) -> dict[str, Any]:
    """The newest run in Delta tables of checks."""
    from rocketfsck.pipeline.export.tables import demand
    from rocketfsck.pipeline.fleet.tables import RunTables, earlier_states, newest_run

    demand("delta")
    tables = RunTables(path, "delta")
    rows, findings = newest_run(tables)
    earlier = earlier_states(tables, rows[0]["run_id"])
    return {"kind": STORES_KIND, "rows": rows, "findings": findings, "earlier": earlier}


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    system, place = file_system(str(path)) if is_remote(path) else (None, path)
    try:
        rows: list[dict[str, Any]] = pq.read_table(place, filesystem=system).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"cannot be read as Parquet: {error}", path=str(path)) from error
    return rows
