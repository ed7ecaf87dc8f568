"""Writes an archive for whoever is to find a bug, without the store's data."""

from __future__ import annotations

import io
import tarfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import StoreOptions, refuse_inside
from rocketfsck.common.documents import json_text, to_document
from rocketfsck.common.options import WRITE_FILE, Argument, Option, PathKind
from rocketfsck.common.outputs import is_special, written
from rocketfsck.common.wording import byte_size, visible
from rocketfsck.errors import RocketfsckError, UsageError
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions, LevelAsked
from rocketfsck.verify.rules.catalog import RULES

if TYPE_CHECKING:
    from rocketfsck.commands.bugreports import BugReport, Place
    from rocketfsck.store import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.report import Report
    from rocketfsck.writer.mask.names import Pseudonyms

MAX_SIZE = 256 << 20
SHRINK_SECONDS = 60.0
_COPY = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class BugReportCommand:
    """Of which store an archive is made, what is in it, and where it goes."""

    path: Annotated[
        Path,
        Argument(
            metavar="STORE", kind=PathKind(local="the masked copy is made next to the archive, from files")
        ),
    ]
    output: Annotated[
        Path,
        Option(
            "The archive (.tar.gz), which appears when it is whole; -: standard output.",
            names=("-o", "--output"),
            kind=WRITE_FILE,
        ),
    ]
    fingerprints: Annotated[
        tuple[str, ...],
        Option(
            "The finding that the report is about; may be given several times. Default: all.",
            names=("--finding",),
            metavar="FINGERPRINT",
        ),
    ] = ()
    max_copy: Annotated[
        int | None, Option("Leave the copy of a larger store out; default 256MiB on disk.", kind="size")
    ] = None
    shrink: Annotated[
        bool,
        Option(
            "Drop files of the copy that the findings do not need; takes at most --max-duration, else 60s."
        ),
    ] = False
    max_duration: Annotated[float | None, Option("Start no new work after this time.", kind="duration")] = (
        None
    )
    shift_times: Annotated[
        bool,
        Option(
            "Move all times of the copy into the past, by one secret number of seconds; no finding changes."
        ),
    ] = False
    coarse_times: Annotated[
        float | None,
        Option(
            "Round the times of the copy down to multiples of this, whole seconds; findings may change.",
            kind="duration",
        ),
    ] = None
    level: LevelAsked = "full"
    stated: StoreOptions = field(default_factory=StoreOptions)

    def words(self) -> tuple[str, ...]:
        """The command line, with STORE for the store."""
        said = tuple(word for name in self.fingerprints for word in ("--finding", name))
        if self.shift_times:
            said += ("--shift-times",)
        if self.coarse_times is not None:
            said += ("--coarse-times", f"{self.coarse_times:.0f}s")
        return ("rocketfsck", "bugreport", "--level", self.level, *said, "STORE")


def bugreport(options: BugReportCommand, stream: IO[bytes] | None = None) -> BugReport:
    """Write the archive, into `stream` in place of the file where one is given.

    Raises UsageError for options that contradict, and findings that the check has not; StoreError.
    """
    from rocketfsck.verify.run import check_store

    coarse = options.coarse_times
    if options.max_duration is not None and not options.shrink:
        raise UsageError("--max-duration goes with --shrink")
    if coarse is not None and not (coarse >= 1 and coarse.is_integer()):
        raise UsageError("--coarse-times is a whole number of seconds, 1 or more")
    stores = [options.path, *options.stated.commitlog_paths]
    refuse_inside(options.output, stores)
    store = options.stated.open("bugreport", options.path)
    refuse_inside(options.output, [*stores, *store.commitlog.directories])
    report = check_store(store, CheckOptions(level=options.level))
    findings = _asked(report, options.fingerprints)
    to_file = written(options.output, binary=True) if stream is None else nullcontext(stream)
    with to_file as target:
        return _write(target, options, store, report, findings)


def _pseudonyms(shift_times: bool, coarse_times: float | None) -> Pseudonyms:
    """What names and times become in this archive; `coarse_times` is in seconds."""
    from rocketfsck.writer.mask.names import SECOND, Pseudonyms, Times, secret_shift

    names = Pseudonyms()
    shift = secret_shift(names.secret) if shift_times else 0
    names.times = Times(shift, 1 if coarse_times is None else round(coarse_times) * SECOND)
    return names


def _workplace(output: Path) -> str | None:
    """Where the copy is made: next to the archive, which is on the user's disk if it is a file."""
    from rocketfsck.store.scratch import scratch_parent

    return scratch_parent() if is_special(output) else str(output.absolute().parent)


def _above_info(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The errors and warnings; all findings where there are none."""
    return tuple(item for item in findings if RULES[item.rule].severity > Severity.INFO) or findings


def _asked(report: Report, fingerprints: tuple[str, ...]) -> tuple[Finding, ...]:
    known = {finding.fingerprint: finding for finding in report.findings}
    for name in fingerprints:
        if name not in known:
            raise UsageError(f"the check has no finding with the fingerprint {visible(name)!r}")
    return tuple(known[name] for name in fingerprints) if fingerprints else report.findings


def _write(
    stream: IO[bytes],
    options: BugReportCommand,
    store: Store,
    report: Report,
    findings: tuple[Finding, ...],
) -> BugReport:
    """Write the archive; the copy is made next to it, and gone afterwards."""
    from rocketfsck.commands.bugreports import README, bug_findings, bug_report, place_of
    from rocketfsck.verify.run import check_store
    from rocketfsck.writer.mask.tree import Masked, copied_size, mask_store, stray_names

    names = _pseudonyms(options.shift_times, options.coarse_times)
    strays, size = stray_names(store), copied_size(store)
    asked = _same_options(report, names)
    masked, copy_report, dropped_count = Masked(), None, 0
    places: frozenset[Place] = frozenset()
    with (
        tarfile.open(fileobj=stream, mode="w:gz") as archive,
        TemporaryDirectory(prefix=".rocketfsck-", dir=_workplace(options.output)) as directory,
    ):
        copy = Path(directory) / _COPY
        is_large = size > (options.max_copy or MAX_SIZE)
        why = f"the store has {byte_size(size)} on disk, more than --max-copy" if is_large else ""
        if not why:
            masked = mask_store(store, copy, names)
            copy_report = check_store(_reopened(store, copy), asked)
            places = _places(copy_report)
        if copy_report is not None and options.shrink:
            needed = findings if options.fingerprints else _above_info(findings)
            wanted = frozenset(place_of(finding, names, strays) for finding in needed) & places
            seconds = options.max_duration or SHRINK_SECONDS
            dropped_count = _shrink(store, asked, copy, wanted, seconds)
            copy_report = check_store(_reopened(store, copy), asked)
            places = _places(copy_report)
        original = frozenset(place_of(finding, names, strays) for finding in report.findings)
        about = bug_report(
            report,
            bug_findings(findings, names, strays, None if copy_report is None else places),
            command=options.words(),
            new_count=len(places - original),
            copied_file_count=masked.copied_count - dropped_count,
            dropped_file_count=dropped_count,
            left_out=masked.left_out,
            why_no_copy=why,
        )
        _add(archive, "README.txt", README)
        _add(archive, "about.json", json_text(to_document(about), indent=2) + "\n")
        if copy_report is not None:
            _add(archive, "report.json", _shareable(copy_report, copy, store, names) + "\n")
            archive.add(copy, f"bugreport/{_COPY}", filter=_nobody)
    return about


def _places(report: Report) -> frozenset[Place]:
    from rocketfsck.commands.bugreports import place_of

    return frozenset(place_of(finding, None, frozenset()) for finding in report.findings)


def _shrink(store: Store, options: CheckOptions, copy: Path, wanted: frozenset[Place], seconds: float) -> int:
    """Drop files of the copy that the wanted findings do not need; how many went."""
    from rocketfsck.verify.run import check_store
    from rocketfsck.writer.mask.shrink import shrink_copy

    def is_enough() -> bool:
        try:
            return wanted <= _places(check_store(_reopened(store, copy), options))
        except RocketfsckError:  # the rest cannot be opened
            return False

    return shrink_copy(copy.parent, copy.name, is_enough, seconds).dropped_count if wanted else 0


def _reopened(store: Store, copy: Path) -> Store:
    """The copy, read as the store was: what its masked settings no longer say is given."""
    from rocketfsck.store.opening import open_store

    stated = store.stated
    return open_store(
        copy, broker_conf=stated.broker_conf, version=stated.version, delay_levels=stated.delay_levels
    )


def _same_options(report: Report, names: Pseudonyms) -> CheckOptions:
    """How the copy is checked: as the store was, at the same moment by the copy's times."""
    return CheckOptions(level=report.level, now_timestamp=names.times.of(report.started_timestamp))


def _shareable(report: Report, copy: Path, store: Store, names: Pseudonyms) -> str:
    """The report on the copy, with no path of this machine in it.

    The moment of the check is left out where times are moved: who knows when the archive was made would have
    the shift from it.
    """
    text = json_text(report.to_json(), indent=2)
    if names.times.shift:
        text = text.replace(str(report.started_timestamp), "0")
    text = text.replace(json_text(str(copy))[1:-1], _COPY)
    conf = store.stated.broker_conf
    return text if conf is None else text.replace(json_text(str(conf))[1:-1], "broker.conf")


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without the names and numbers of this machine's users."""
    return member.replace(uid=0, gid=0, uname="", gname="", deep=False)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8")
    member = tarfile.TarInfo(f"bugreport/{name}")
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
