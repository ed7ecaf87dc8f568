"""Alters copies of broker-written stores byte by byte; tells what a full check finds in their data files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.formats.record import Record, decode_record
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Level, Severity
from rocketfsck.verify.rules.catalog import RULES, describe

NOW = 1_800_000_000_000
FAMILIES = ("CL", "CQ", "IX", "XR")

FIELDS = {
    "totalSize": (0, "i"),
    "magicCode": (4, "i"),
    "bodyCRC": (8, "i"),
    "queueId": (12, "i"),
    "queueOffset": (20, "q"),
    "physicalOffset": (28, "q"),
    "sysFlag": (36, "i"),
    "bornTimestamp": (40, "q"),
    "bornPort": (52, "i"),
    "storeTimestamp": (56, "q"),
    "storePort": (68, "i"),
    "reconsumeTimes": (72, "i"),
    "preparedTransactionOffset": (76, "q"),
    "bodyLength": (84, "i"),
}
"""Places of the fields of a record with IPv4 hosts."""


@dataclass(frozen=True)
class Result:
    """What a check found in the log, the queues and the index."""

    report: Report

    @property
    def findings(self) -> list[Finding]:
        return [finding for finding in self.report.findings if finding.rule[:2] in FAMILIES]

    @property
    def rules(self) -> set[str]:
        """The rules above info that were broken."""
        return {f.rule for f in self.findings if RULES[f.rule].severity > Severity.INFO}

    @property
    def all_rules(self) -> set[str]:
        return {finding.rule for finding in self.findings}

    def of(self, rule: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.rule == rule]

    def one(self, rule: str) -> Finding:
        """The only finding of a rule; its line must name no value that the finding lacks."""
        (finding,) = self.of(rule)
        assert "?" not in describe(finding), describe(finding)
        return finding


class Damage:
    """A store that may be altered. Files are named relative to its root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def files(self, folder: str) -> list[str]:
        """The files below a folder, in order."""
        paths = sorted(path for path in (self.root / folder).rglob("*") if path.is_file())
        return [str(path.relative_to(self.root)) for path in paths]

    def read(self, file: str, pos: int = 0, size: int = -1) -> bytes:
        data = (self.root / file).read_bytes()
        return data[pos:] if size < 0 else data[pos : pos + size]

    def write(self, file: str, pos: int, data: bytes) -> None:
        with (self.root / file).open("r+b") as stream:
            stream.seek(pos)
            stream.write(data)

    def truncate(self, file: str, size: int) -> None:
        with (self.root / file).open("r+b") as stream:
            stream.truncate(size)

    def records(self, file: str) -> list[tuple[int, Record]]:
        """Position and value of every record of a commit log file."""
        found: list[tuple[int, Record]] = []
        data = self.read(file)
        with FileReader(self.root / file) as reader:
            for item in scan_log_file(reader, int(Path(file).name), ScanOptions(), QueueTable()):
                if isinstance(item, RecordBatch):
                    found += [(pos, decode_record(data, pos)) for pos in item["pos"].tolist()]
        return found

    def set(self, file: str, pos: int, field: str, value: int) -> None:
        """Set a header field of the record at `pos`."""
        offset, kind = FIELDS[field]
        self.write(file, pos + offset, struct.pack(">" + kind, value))

    def check(self, level: Level = "full", **options: object) -> Result:
        store = open_store(self.root, **options)  # type: ignore[arg-type]
        return Result(check_store(store, CheckOptions(level=level, now_timestamp=NOW)))

    def unit(self, file: str, number: int, offset: int, size: int, tags_code: int) -> None:
        """Overwrite a 20-byte unit of a consume queue file."""
        self.write(file, 20 * number, struct.pack(">qiq", offset, size, tags_code))

    def units(self, file: str) -> list[tuple[int, int, int]]:
        return [(o, s, t) for o, s, t in struct.iter_unpack(">qiq", self.read(file))]
