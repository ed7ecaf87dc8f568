"""Certifies a store: what was read, what was proven, what cannot be known. Compares a store with that.

A certificate has the SHA-256 of every file and one of itself. A second certificate of the same store has the
same `sha256`: the time is not part of what is hashed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck._version import __version__
from rocketfsck.commands.shared import StoreOptions
from rocketfsck.common.documents import from_document, json_text, printable, to_document
from rocketfsck.common.options import READ_FILE, Argument, Option, PathKind
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report

SCHEMA_VERSION = 1
UNKNOWABLE = (
    "messages that never reached this store, or that a broker deleted when their time was up",
    "whether somebody replaced records by others with matching checksums: a CRC is not a signature",
    "damage to properties of records without a property CRC, where the properties still can be read",
    "what a broker, a consumer or another replica holds in memory or elsewhere",
    "whether the disk gives the same bytes tomorrow",
)
"""What no check of a store's bytes can say."""


@dataclass(frozen=True, slots=True)
class CertifyCommand:
    """Which store is certified, or compared with a certificate."""

    store_path: Annotated[Path, Argument(metavar="STORE", kind=PathKind(local="what is certified"))]
    against: Annotated[
        Path | None,
        Option("Say whether STORE is still the store of this certificate (JSON).", kind=READ_FILE),
    ] = None
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True)
class CertifiedFile:
    """A file below the root, or by its absolute name outside of it: its size in bytes, SHA-256 in hex. Of a
    link that leads to no file, those of where it leads."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Left:
    """What was not checked, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is certified. `proven` are the ids of the rules that ran on a part that the store has and found
    nothing, `not_applicable` those of rules about parts that it has not, `found` counts findings by rule,
    `unasked` are rules that did not run. `state` is that of the verdict. `sha256` is over all but itself and
    `created_timestamp` (ms), as JSON with sorted names and without spaces.
    """

    tool_version: str
    store: str
    versions: tuple[str, ...]
    state: str
    may_start: bool | None
    exit_code: int
    coverage: str
    file_count: int
    byte_count: int
    files: tuple[CertifiedFile, ...]
    proven: tuple[str, ...]
    not_applicable: tuple[str, ...]
    found: Mapping[str, int]
    unasked: tuple[str, ...]
    not_checked: tuple[Left, ...]
    unknowable: tuple[str, ...]
    created_timestamp: int
    sha256: str = ""
    kind: Literal["rocketfsck.certificate"] = "rocketfsck.certificate"
    schema_version: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCertificate:
    """Whether a store is `same` as when it was certified, and names of files that are not."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["rocketfsck.certificate.verified"] = "rocketfsck.certificate.verified"
    same: bool
    certificate_sha256: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CertifyAnswer:
    """A certificate; where one was verified, how the store differs from it: names of files, sorted."""

    certificate: Certificate
    verified: bool = False
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the store has the very files of the certificate."""
        return not (self.changed or self.added or self.removed)

    @property
    def document(self) -> Certificate | VerifiedCertificate:
        """What JSON says."""
        if not self.verified:
            return self.certificate
        return VerifiedCertificate(
            same=self.same,
            certificate_sha256=self.certificate.sha256,
            changed=self.changed,
            added=self.added,
            removed=self.removed,
        )

    @property
    def exit_code(self) -> int:
        if self.verified:
            return EXIT_CLEAN if self.same else EXIT_PROBLEMS
        return self.certificate.exit_code


def certify(options: CertifyCommand) -> CertifyAnswer:
    """Certify a store, or compare it with a certificate. Raises UsageError for what is not a certificate,
    StoreError for what is not a store, cannot be read or changes meanwhile."""
    store = options.stated.open("certify", options.store_path)
    if options.against is None:
        return CertifyAnswer(_certificate(store))
    certificate = read_certificate(options.against)
    then = {file.path: file for file in certificate.files}
    now = {file.path: file for file in _files(store, _listed(store))}
    return CertifyAnswer(
        certificate,
        verified=True,
        changed=tuple(sorted(name for name in then.keys() & now.keys() if then[name] != now[name])),
        added=tuple(sorted(now.keys() - then.keys())),
        removed=tuple(sorted(then.keys() - now.keys())),
    )


def read_certificate(path: Path) -> Certificate:
    """The certificate in a file. Raises UsageError for another document, and for one that was changed."""
    from rocketfsck.store.reading import read_document

    document = read_document(path, "certificate")
    if not isinstance(document, dict) or document.get("kind") != "rocketfsck.certificate":
        raise UsageError(
            f"{printable(str(path))} is not a certificate: `rocketfsck certify --format json` writes one"
        )
    certificate = from_document(Certificate, document, "certificate")
    if certificate.sha256 != _sha256_of(certificate):
        raise UsageError(f"{printable(str(path))} was changed after it was written: its hash does not match")
    return certificate


def _sha256_of(certificate: Certificate) -> str:
    document = to_document(certificate)
    del document["sha256"], document["created_timestamp"]
    text = json_text(dict(sorted(document.items())), compact=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _certificate(store: Store) -> Certificate:
    from rocketfsck.repair.state import check_status
    from rocketfsck.repair.verdict import judge_store
    from rocketfsck.store.rocks.lifting import kept_databases
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    created = int(time.time() * 1000)
    before = _listed(store)
    files = _files(store, before)
    asked = CheckOptions(level="full")
    with kept_databases():
        report = check_store(store, asked)
        verdict = judge_store(store, report)
    after = _listed(store)
    if after != before:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        text = f"the store changed while it was read ({printable(changed[0])} first)"
        raise StoreError(text, path=str(store.root))
    ran = asked.wanted_rules() - {*report.unasked_rules}
    proven, not_applicable = _found_nothing(store, report, ran)
    made = Certificate(
        tool_version=__version__,
        store=str(store.root),
        versions=report.store.versions,
        state=verdict.state,
        may_start=verdict.may_start,
        exit_code=check_status(report, verdict.state, narrowed=False),
        coverage=report.coverage.statement,
        file_count=len(files),
        byte_count=sum(file.size for file in files),
        files=files,
        proven=proven,
        not_applicable=not_applicable,
        found={rule: count for rule, count in sorted(report.counts.items()) if count},
        unasked=tuple(sorted(report.unasked_rules)),
        not_checked=tuple(Left(item.what, item.reason) for item in report.not_checked),
        unknowable=UNKNOWABLE,
        created_timestamp=created,
    )
    return replace(made, sha256=_sha256_of(made))


def _found_nothing(
    store: Store, report: Report, ran: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that ran and found nothing: those that the store has something for, and those that had
    nothing to look at. Nothing is proven where a part was left out or could not be read."""
    from rocketfsck.verify.parts import part_of, parts_of

    there = parts_of(store, report)
    silent = sorted(rule for rule in ran if not report.counts.get(rule))
    is_whole = report.coverage.complete and not any(item.operational for item in report.not_checked)
    proven = tuple(rule for rule in silent if is_whole and part_of(rule) in there)
    return proven, tuple(rule for rule in silent if part_of(rule) not in there)


def _outside(store: Store) -> dict[str, str]:
    """The directories of the commit log outside of the root, by their own names."""
    return {
        str(place): str(place)
        for place in store.commitlog.directories
        if not place.is_relative_to(store.root)
    }


def _listed(store: Store) -> dict[str, str]:
    """What is in the store, with sizes and times."""
    from rocketfsck.repair.area.manifests import list_files

    return list_files(str(store.root), _outside(store))


def _files(store: Store, listed: Mapping[str, str]) -> tuple[CertifiedFile, ...]:
    """Every file that was listed, with its hash."""
    from rocketfsck.writer.manifest import sum_files

    links = {name: text for name, text in listed.items() if text.startswith("->")}
    sizes = [(name, int(text.split()[0])) for name, text in listed.items() if name not in links]
    found = [
        CertifiedFile(one.path, one.size, str(one.sha256))
        for one in sum_files(store.root, sizes, {}, with_sha256=True)
    ]
    for name, text in links.items():
        target = text.encode("utf-8", "surrogateescape")
        found.append(CertifiedFile(name, len(target), hashlib.sha256(target).hexdigest()))
    return tuple(sorted(found, key=lambda file: file.path))
