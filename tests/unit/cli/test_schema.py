"""`schema`: what commands print, write and keep is as the schema of its document says."""

# ruff: noqa: ARG001 - all cases take the same

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from rocketfsck.cli.schema.table import DOCUMENTS, document_schema
from rocketfsck.common.documents import json_text, to_document

from tests.conftest import DATA, Directory
from tests.pagesamples import checked_page, sample_fleet
from tests.unit.cli.conftest import Cli, Ended

Case = Callable[[Cli, Directory, Path], Iterator[Any]]
CASES: dict[str, Case] = {}
STORE, OTHER = "5.3.3-basic", "4.9.8-basic"
SMALL = (
    "--synth",
    "mixed",
    "--messages",
    20,
    "--commitlog-file-size",
    "64KiB",
    "--slots",
    50,
    "--entries",
    300,
)


def case(name: str) -> Callable[[Case], Case]:
    """The function below yields documents of that name."""

    def register(function: Case) -> Case:
        CASES[name] = function
        return function

    return register


@cache
def validator(name: str) -> Draft202012Validator:
    schema = document_schema(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def wrong(name: str, document: Any) -> str | None:
    """What is wrong with a document, if anything is."""
    error = best_match(validator(name).iter_errors(document))
    return None if error is None else f"{error.json_path}: {error.message[:500]}"


def answered(cli: Cli, *arguments: object) -> Ended:
    ended = cli(*arguments)
    assert ended.out, f"nothing was printed: exit status {ended.code}, {ended.err}"
    return ended


def said(cli: Cli, *arguments: object) -> Any:
    return json.loads(answered(cli, *arguments, "--format", "json").out)


def lines(cli: Cli, *arguments: object) -> list[Any]:
    return answered(cli, *arguments, "--format", "jsonl").rows()


def damaged(cli: Cli, store: Path, target: Path, *faults: str) -> Any:
    """The document of a damage that was done."""
    return said(cli, "damage", store, "--into", target, *(f"--fault={name}" for name in faults))


def odd_store(store: Path, tmp_path: Path) -> Path:
    """A copy with names that are no UTF-8."""
    root = Path(shutil.copytree(store, tmp_path / "odd\udcff"))
    shutil.copytree(next((root / "consumequeue").iterdir()), root / "consumequeue" / "topic\udcff")
    (root / "stray\udcfe").write_text("x")
    return root


@case("check")
def check(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "bad", "torn-tail", "body-flip")
    for root in (store_dir(STORE), odd_store(store_dir(STORE), tmp_path), tmp_path / "bad"):
        yield said(cli, "check", root)
        yield lines(cli, "check", root, "--level", "quick")[0]
    yield said(cli, "check", tmp_path / "bad", "--as-broker", "5.3.3")
    yield said(cli, "check", tmp_path / "bad", "--stop-after", 1, "-tt")


@case("check-stores")
def check_stores(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "bad", "torn-tail", "body-flip")
    stores = (store_dir(STORE), odd_store(store_dir(STORE), tmp_path), tmp_path / "bad", tmp_path / "missing")
    yield said(cli, "check", *stores)
    yield said(cli, "check", *stores, "--tables", tmp_path / "tables")


@case("fix")
def fix(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "bad", "torn-tail")
    for option in ("--dry-run", "--preen", "--yes", "--yes"):
        yield said(cli, "fix", option, tmp_path / "bad")


@case("check-finding")
def findings(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, "4.9.8-killed"):
        yield from lines(cli, "check", store_dir(name))[1:]
    yield from lines(cli, "check", odd_store(store_dir(STORE), tmp_path))[1:]


@case("baseline")
def baseline(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli("check", store_dir(STORE), "--write-baseline", tmp_path / "known.json")
    yield json.loads((tmp_path / "known.json").read_text())


@case("check-since")
def since(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli("check", store_dir(STORE), "--since", tmp_path / "since")
    yield json.loads((tmp_path / "since").read_text())


@case("check-state")
def state(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli("check", store_dir(STORE), "--resume", tmp_path / "state", "--level", "quick")
    yield json.loads((tmp_path / "state").read_text())


def repaired(cli: Cli, store_dir: Directory, tmp_path: Path, *more: str) -> Iterator[tuple[str, Any]]:
    """What a repair from the plan to undo prints and keeps."""
    root = tmp_path / "bad"
    damaged(cli, store_dir(STORE), root, "torn-tail")
    yield "plan", said(cli, "plan", root, "-o", tmp_path / "plan.json")
    yield "apply", said(cli, "apply", tmp_path / "plan.json", *more)
    [area] = tmp_path.glob("bad.before-*")
    for name in ("journal", "ledger", "manifests", "plan", "result"):
        document = json.loads((area / f"{name}.json").read_text())
        yield {"result": "apply"}.get(name, name), document
    log = (area / "actions.jsonl").read_text().splitlines()
    yield from (("repair-log", json.loads(line)) for line in log)
    yield "undo", said(cli, "undo", root)


def of_repair(name: str) -> Case:
    def documents(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
        more = ("--in-place",) if name == "journal" else ()
        return (document for kind, document in repaired(cli, store_dir, tmp_path, *more) if kind == name)

    return documents


for kept in ("plan", "apply", "journal", "ledger", "manifests", "repair-log", "undo"):
    CASES[kept] = of_repair(kept)


@case("config")
def config(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "config")
    path = tmp_path / "config.toml"
    path.write_text('color = "never"\n[check]\njobs = 2\nignore = ["CP"]\n[rules.CL004]\npreen = false\n')
    yield said(cli, "config", "--config", path)


@case("learn")
def learn(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "learn", tmp_path / "exercises")
    yield said(cli, "learn", tmp_path / "exercises", "--verify")


@case("damage")
def damage(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield damaged(cli, store_dir(STORE), tmp_path / "a", "torn-tail", "ghost-queue")
    yield json.loads((tmp_path / "a.damage.json").read_text())


@case("damage-faults")
def faults(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "damage", "--list")


@case("info-store")
def info_store(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, OTHER, "5.0.0-innerbatch", "4.9.8-cqext", "4.9.8-delay"):
        yield said(cli, "info", store_dir(name))
    yield said(cli, "info", store_dir(STORE), "--stats")
    root = odd_store(store_dir(STORE), tmp_path)
    next((root / "index").iterdir()).write_bytes(b"x")
    yield from lines(cli, "info", root)


@case("info-file")
def info_file(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for path in sorted(path for path in store_dir(STORE).rglob("*") if path.is_file()):
        yield said(cli, "info", path)


@case("dump")
def dump(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, "5.0.0-innerbatch", "4.9.8-cqext"):
        yield said(cli, "dump", store_dir(name), "--limit", "300")
        for path in sorted(path for path in store_dir(name).rglob("*") if path.is_file()):
            yield said(cli, "dump", path, "--limit", "5")
    for body in ("text", "hex", "base64"):
        yield said(cli, "dump", store_dir(STORE) / "commitlog", "--limit", "20", "--body", body)


@case("explain")
def explain(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "explain")


@case("count")
def report(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "count", store_dir(STORE), store_dir(OTHER), "--keys", "3")


@cache
def message_of(store: Path) -> dict[str, Any]:
    """A message of a store that has a unique key and keys."""
    from rocketfsck.cli.app import run

    out = store.parent / "messages.json"
    assert run(["query", "scan", str(store), "queue_id >= 0", "--format", "json", "-o", str(out)]) in (0, 8)
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"]
    return next(row for row in rows if row.get("keys") and row.get("unique_key"))


def of_query(name: str, *fields: str, more: tuple[str, ...] = ()) -> Case:
    def documents(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
        message = message_of(store_dir(STORE))
        asked = [value[0] if isinstance(value, list) else value for value in map(message.get, fields)]
        for options in ((), *((option,) for option in more), ("--as-broker", "5.3.3")):
            yield said(cli, "query", name, store_dir(STORE), *asked, *options)

    return documents


CASES["query-id"] = of_query("id", "offset_message_id", more=("--trace", "--body=hex"))
CASES["query-offset"] = of_query(
    "offset", "topic", "queue_id", "queue_offset", more=("--trace", "--body=base64")
)
CASES["query-key"] = of_query("key", "topic", "keys", more=("--trace", "--via=both"))
CASES["query-time"] = of_query("time", "topic", "queue_id", "store_timestamp")


@case("query-life")
def life(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    message = message_of(store_dir(STORE))
    yield said(cli, "query", "life", store_dir(STORE), message["unique_key"])


@case("query-offsets")
def offsets(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, OTHER, "4.9.8-delay"):
        yield said(cli, "query", "offsets", store_dir(name))


@case("query-as-of")
def as_of(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for time in ("2000-01-01", "2100-01-01"):
        yield said(cli, "query", "as-of", store_dir(STORE), time)


@case("query-retention")
def retention(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, "4.9.8-expired"):
        yield said(cli, "query", "retention", store_dir(name))


def _progress(cli: Cli, store: Path, kind: str) -> Iterator[Any]:
    for line in cli("check", store, "--progress", "json").err.splitlines():
        document = json.loads(line)
        if document["type"] == kind:
            yield document


@case("progress")
def progress(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield from _progress(cli, store_dir(STORE), "progress")


@case("progress-end")
def progress_end(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield from _progress(cli, store_dir(STORE), "end")


@case("query-timers")
def timers(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    with tarfile.open(DATA / "real" / "5.5.0-timer.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    yield said(cli, "query", "timers", tmp_path / "5.5.0-timer" / "store")
    yield said(cli, "query", "timers", store_dir(STORE))


@case("find")
def find(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for text in ("K627", "0", "Seg0", "nothing"):
        yield said(cli, "find", store_dir("4.9.8-multiseg"), text)


@case("query-scan")
def scan(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "query", "scan", store_dir(STORE), "queue_id >= 0", "--body", "text")
    yield said(cli, "query", "scan", store_dir(STORE), 'content contains "x"')


@case("certificate")
def certificate(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, "4.9.8-killed"):
        yield said(cli, "certify", store_dir(name))


@case("certificate-verified")
def certificate_verified(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(said(cli, "certify", store_dir(STORE))))
    for name in (STORE, "4.9.8-killed"):
        yield said(cli, "certify", store_dir(name), "--against", path)


@case("simulate")
def simulate(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for name in (STORE, "4.9.8-killed"):
        yield said(cli, "simulate", store_dir(name), "--as-broker", "5.3.3")
    (tmp_path / "broker.conf").write_text("enableDLegerCommitLog=true\n")
    uncovered = ("--broker-conf", tmp_path / "broker.conf")
    yield said(cli, "simulate", store_dir(STORE), "--as-broker", "5.3.3", *uncovered)


@case("compare")
def compare(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "b", "body-flip", "torn-tail")
    yield said(cli, "compare", store_dir(STORE), tmp_path / "b")
    yield said(cli, "compare", store_dir(STORE), store_dir(OTHER))


@case("rebuild")
def rebuild(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "rebuild", "all", store_dir(STORE), "--into", tmp_path / "built")


@case("rebuild-stores")
def rebuild_stores(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    stores = (store_dir(STORE), tmp_path / "missing")
    for _ in range(2):  # the second takes over
        yield said(cli, "rebuild", "all", *stores, "--into", tmp_path / "built")


@case("rebuild-record")
def rebuild_record(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli("rebuild", "all", store_dir(STORE), tmp_path / "missing", "--into", tmp_path / "built")
    (record,) = (tmp_path / "built" / ".rebuilt").glob("*.json")
    yield json.loads(record.read_text())


@case("salvage")
def salvage(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "b", "body-flip", "torn-tail")
    yield said(cli, "salvage", tmp_path / "b", "--dry-run")
    yield said(cli, "salvage", tmp_path / "b", "--into", tmp_path / "new")
    yield said(cli, "compare", store_dir(STORE), tmp_path / "b", "--heal", "--into", tmp_path / "healed")


@case("extract")
def extract(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "extract", store_dir(STORE), "--topic", "GammaBulk0", "--into", tmp_path / "part")
    late = ("--begin", "2000-01-01", "--into", tmp_path / "late")
    yield said(cli, "extract", store_dir("4.9.8-lmq"), *late)


@case("convert")
def convert(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield said(cli, "convert", "controller", store_dir(STORE), "--into", tmp_path / "epochs")
    size = ("--commitlog-file-size", "1MiB", "--into", tmp_path / "geometry")
    yield said(cli, "convert", "geometry", store_dir(STORE), *size)


@case("salvage-ledger")
def salvage_ledger(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    damaged(cli, store_dir(STORE), tmp_path / "b", "body-flip", "torn-tail")
    both = (tmp_path / "b" / "commitlog", store_dir(STORE) / "commitlog", store_dir(STORE) / "checkpoint")
    cli("salvage", *both, "--into", tmp_path / "new")
    yield from map(json.loads, (tmp_path / "new.ledger.jsonl").read_text().splitlines())


@case("write-manifest")
def manifest(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for level in ("brief", "full"):
        target = tmp_path / level
        cli("write", *SMALL, "--into", target, "--manifest", level)
        yield json.loads((tmp_path / f"{level}.manifest.json").read_text())


@case("write-message")
def messages(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli(
        "write",
        "--synth",
        "mixed",
        "--messages",
        "20",
        *SMALL,
        "--into",
        tmp_path / "s",
        "--manifest",
        "full",
    )
    yield from map(json.loads, (tmp_path / "s.messages.jsonl").read_text().splitlines())


@case("export")
def export(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield json.loads(cli("export", store_dir(STORE), "--into", tmp_path / "out", "--format", "json").out)


@case("export-manifest")
def export_manifest(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    cli("export", store_dir(STORE), "--into", tmp_path / "out")
    yield json.loads((tmp_path / "out" / "_manifest.json").read_text())


@case("bugreport")
def bugreport(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for number, root in enumerate((store_dir("4.9.8-killed"), odd_store(store_dir(STORE), tmp_path))):
        yield said(cli, "bugreport", root, "-o", tmp_path / f"{number}.tar.gz")


@case("page")
def page(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for root in (store_dir("4.9.8-killed"), odd_store(store_dir(STORE), tmp_path)):
        yield json.loads(json_text(to_document(checked_page(root))))


@case("page-fleet")
def page_fleet(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    yield json.loads(json_text(sample_fleet()))


@case("timeline")
def timeline(cli: Cli, store_dir: Directory, tmp_path: Path) -> Iterator[Any]:
    for root in (store_dir("4.9.8-killed"), odd_store(store_dir(STORE), tmp_path)):
        yield said(cli, "timeline", root)


def test_every_document_has_a_case() -> None:
    assert set(CASES) == set(DOCUMENTS)


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_is_as_the_schema_says(
    name: str, cli: Cli, store_dir: Directory, tmp_path: Path
) -> None:
    documents = list(CASES[name](cli, store_dir, tmp_path))
    assert documents
    for document in documents:
        assert wrong(name, document) is None
    assert wrong(name, {**documents[0], "another": 1}) is not None
    assert wrong(name, {}) is not None
    assert wrong(name, []) is not None


@pytest.mark.parametrize("name", ["check", "dump", "explain", "info-store", "plan", "query-id", "count"])
def test_integers_may_be_strings(name: str, cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    """In all documents, and their schema says so; nothing else changes."""
    texts = ("--json-integers", "strings")

    def in_texts(*arguments: object) -> Ended:
        return cli(*arguments, *(texts if "--format" in arguments else ()))

    schema = json.loads(cli("schema", name, *texts).out)
    Draft202012Validator.check_schema(schema)
    documents = list(CASES[name](in_texts, store_dir, tmp_path))
    assert documents
    if name == "plan":
        documents, kept = documents[:1], documents[1:]
        assert [wrong(name, document) for document in kept] == [None], "a kept plan has numbers"
    for document in documents:
        error = best_match(Draft202012Validator(schema).iter_errors(document))
        assert error is None, f"{error.json_path}: {error.message[:500]}"
        assert [value for value in _leaves(document) if type(value) is int] == []
    assert any(value.isdigit() for value in _leaves(documents) if isinstance(value, str))
    assert wrong(name, documents[0]) is not None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def test_schemas_are_printed_and_listed(cli: Cli, tmp_path: Path) -> None:
    assert json.loads(cli("schema", "plan").out) == document_schema("plan")
    assert [line.split()[0] for line in cli("schema").out.splitlines()] == list(DOCUMENTS)
    cli("schema", "journal", "-o", tmp_path / "journal.json")
    assert json.loads((tmp_path / "journal.json").read_text())["$schema"].endswith("2020-12/schema")
    ended = cli("schema", "nothing\x1b")
    assert (ended.code, "no document is called" in ended.err, "\x1b" in ended.err) == (16, True, False)
