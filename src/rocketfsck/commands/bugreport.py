"""Writes an archive for whoever is to find a bug, without the store's data.

What `bugreport` puts into its archive, as data, and the text that explains it.
"""

from __future__ import annotations

import io
import platform
import sys
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Annotated, Literal

from rocketfsck._version import __version__
from rocketfsck.commands.shared import StoreOptions, refuse_inside
from rocketfsck.common.documents import json_text, to_document
from rocketfsck.common.options import WRITE_FILE, Argument, Option, PathKind
from rocketfsck.common.outputs import is_special, scratch_parent, written
from rocketfsck.common.wording import byte_size, visible
from rocketfsck.errors import RocketfsckError, UsageError
from rocketfsck.verify.finding import Finding, Severity, SeverityName
from rocketfsck.verify.options import CheckOptions, LevelAsked
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.mask.names import SECOND, Pseudonyms, Times, secret_shift
from rocketfsck.writer.mask.tree import Masked, copied_size, mask_store, masked_path, stray_names

if TYPE_CHECKING:
    from rocketfsck.store import Store

PACKAGES = (
    "click", "construct", "isal", "llvmlite", "lz4", "msgspec", "numba", "numpy", "pyarrow",
    "rocksdict", "zstandard",
)  # fmt: skip
Place = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class BugFinding:
    """A finding without its text and facts, which may hold names. `file` and `topic` are pseudonyms.

    `kept` says whether the masked copy has the same finding; None where there is no copy. `slot` is None, and
    so are a slot's `start` and `end`: they follow from the hash of a key, and are others in the copy.
    """

    rule: str
    slug: str
    severity: SeverityName
    file: str
    start: int | None
    end: int | None
    physical_offset: int | None
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    slot: int | None
    entry: int | None
    count: int
    kept: bool | None


@dataclass(frozen=True, slots=True)
class LeftOutFile:
    """A part of the store that is not in the copy, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class BugReport:
    """The document `about.json` of an archive.

    `command` is the command line with STORE for the store. `findings` are those of the store (or those that
    `--finding` named), `new_count` counts findings that only the copy has. `dropped_file_count` files of the
    copy went because the findings do not need them. Without a copy `why_no_copy` says
    why there is none.
    """

    schema_version: int
    kind: Literal["rocketfsck.bugreport"]
    version: str
    python: str
    platform: str
    packages: Mapping[str, str]
    command: tuple[str, ...]
    level: str
    dialect: str
    versions: tuple[str, ...]
    dialect_given: bool
    geometry: Mapping[str, int]
    geometry_sources: Mapping[str, str]
    byte_count: int
    start_offset: int | None
    end_offset: int | None
    counts: Mapping[str, int]
    findings: tuple[BugFinding, ...]
    kept_count: int
    new_count: int
    copied_file_count: int
    dropped_file_count: int
    left_out: tuple[LeftOutFile, ...]
    why_no_copy: str


def package_versions() -> dict[str, str]:
    """The versions of what rocketfsck uses and is installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def place_of(finding: Finding, names: Pseudonyms | None, strays: frozenset[str]) -> Place:
    """What makes two findings the same one: rule, place and count; with `names` as it is in the copy."""
    where = finding.where
    file, topic = where.file, where.topic
    if names is not None:
        file = masked_path(file, names, strays)
        topic = None if topic is None else names.name(topic)
    ends = (where.start, where.end) if is_place_kept(finding) else (None, None)
    numbers = (*ends, where.physical_offset, where.queue_id, where.queue_offset)
    return (finding.rule, file, topic, *numbers, where.entry, finding.count)


def is_place_kept(finding: Finding) -> bool:
    """Whether a finding is at the same bytes in the copy: slots of an index file follow from key hashes."""
    return finding.where.slot is None or finding.where.entry is not None


def bug_findings(
    findings: Iterable[Finding], names: Pseudonyms, strays: frozenset[str], copied: frozenset[Place] | None
) -> tuple[BugFinding, ...]:
    """Findings of the store as the archive has them; `copied` are the places of those of the copy."""
    found = []
    for finding in findings:
        place = place_of(finding, names, strays)
        where, rule = finding.where, RULES[finding.rule]
        found.append(
            BugFinding(
                rule=finding.rule,
                slug=rule.slug,
                severity=rule.severity.word,
                file=str(place[1]),
                start=where.start if is_place_kept(finding) else None,
                end=where.end if is_place_kept(finding) else None,
                physical_offset=where.physical_offset,
                topic=None if where.topic is None else str(place[2]),
                queue_id=where.queue_id,
                queue_offset=where.queue_offset,
                slot=None,
                entry=where.entry,
                count=finding.count,
                kept=None if copied is None else place in copied,
            )
        )
    return tuple(found)


def bug_report(
    report: Report,
    findings: tuple[BugFinding, ...],
    *,
    command: tuple[str, ...],
    new_count: int,
    copied_file_count: int,
    dropped_file_count: int,
    left_out: Iterable[tuple[str, str]],
    why_no_copy: str,
) -> BugReport:
    """The document of an archive, of a report on the store."""
    store = report.store
    return BugReport(
        schema_version=1,
        kind="rocketfsck.bugreport",
        version=__version__,
        python=sys.version.split()[0],
        platform=platform.platform(),
        packages=package_versions(),
        command=command,
        level=report.level,
        dialect=store.dialect,
        versions=store.versions,
        dialect_given=store.dialect_given,
        geometry=store.geometry,
        geometry_sources=store.geometry_sources,
        byte_count=store.byte_count,
        start_offset=store.start_offset,
        end_offset=store.end_offset,
        counts={str(name): count for name, count in report.counts.items()},
        findings=findings,
        kept_count=sum(finding.kept is True for finding in findings),
        new_count=new_count,
        copied_file_count=copied_file_count,
        dropped_file_count=dropped_file_count,
        left_out=tuple(LeftOutFile(what, reason) for what, reason in left_out),
        why_no_copy=why_no_copy,
    )


README = """\
A bug report of rocketfsck.

  about.json    version, platform, packages, how the store was read, its findings without their texts,
                and which of them the copy has, too
  report.json   the report of a check of the copy
  store/        the copy of the store, masked

In the copy, topics, groups, tags and keys are pseudonyms: as long as the name, the same for the same name,
others in each archive. Bodies and the values of other properties are fillers of the same length, and
addresses change. Bytes that belong to no record are noise, but for the frames of records in them. A checksum
that was right is right, and one that was wrong is wrong.

Java hashes of names are those of the pseudonyms: tag codes in consume queues, key hashes in index files,
topics in timer logs. The chains of index files follow from them, so that slots have other numbers. A hash
that did not fit its record goes through a permutation with the archive's secret key, and fits none
afterwards. The key is in no file: a list of names, telephone numbers or words gives nobody a name by its
hash.

What can still be read: sizes, also how many bytes and which punctuation a name has, offsets, queue numbers,
times, ports, flags, numbers and switches in system properties, how many messages there are, which names are
equal, and how often each occurs. Numbers in config files stay, also those of up to five digits that are
written as texts, and so do letters beyond the first 65,536 of Unicode, and the names and words of RocketMQ
itself. Who knows how often, how long or when something was sent may know a name by that. Bytes of damaged
consume queues, index files and timer logs stay as they are, but for hashes and times.

Sizes cannot be coarsened: the length of a record decides where the next one is, and the queues, the index and
every finding name these places.

Times are as in the store, unless the archive was made with one of these options (about.json, "command"):

  --shift-times     all times are 1 to 8 years earlier, by one secret number of whole seconds: those of
                    records, queues, index files and their names, checkpoint, timers, config files, and of
                    the files themselves. Fractions of a second and all distances stay, and with them the
                    findings. Who knows when one of the messages was sent, or when the broker wrote last,
                    has the shift from that; who knows the pauses between several has it, too. So report.json
                    does not say when the copy was checked (started_timestamp is 0).
  --coarse-times T  times are rounded down to multiples of T. Messages of one such period have one time;
                    their order stays. Times at which timers are due, and delays, are not rounded: who
                    knows the delay of a message with a timer has its time. Findings about how far apart
                    two times are may be others: where a start scans from (CP003, CP004, CP005), a
                    checkpoint ahead of the log (CP011), a copy that lost the times of its files (ST040),
                    time that goes back (CL023), messages born after they were stored (CL024), delayed
                    messages that are late (CF033, CF034), times in index files and in their names (IX004,
                    IX023, IX028, IX031).

What is not as in the store: two keys of one hash have two, and seldom keys that had two have one by chance
(IX025). Which entries of an index file share a slot is not kept, as a list of keys could be compared with
it. So in a damaged chain the number of entries that are cut off or go in a circle (IX013, IX008), and which
entry is the first of them, follow from the new chains: an entry with a damaged link cuts off the older
entries of its new slot. Damage that a chain has no room for is gone: a link that skips an entry is right in
a chain of one. Which slot is damaged says nothing. Bit maps of SQL filters are empty, and other bytes in
the files of extensions are noise. Databases, tiered storage, logs of DLedger groups and compacted logs are
left out.

Look through the archive before you send it.
"""


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
    names = Pseudonyms()
    shift = secret_shift(names.secret) if shift_times else 0
    names.times = Times(shift, 1 if coarse_times is None else round(coarse_times) * SECOND)
    return names


def _workplace(output: Path) -> str | None:
    """Where the copy is made: next to the archive, which is on the user's disk if it is a file."""
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
    stream: IO[bytes], options: BugReportCommand, store: Store, report: Report, findings: tuple[Finding, ...]
) -> BugReport:
    """Write the archive; the copy is made next to it, and gone afterwards."""
    from rocketfsck.verify.run import check_store

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
