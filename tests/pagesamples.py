"""Documents of report pages for tests: of broker-written stores, and of a store as large as they come.

`make page-samples` writes those of the broker-written stores to tests/data/page; `large_page` makes any size.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rocketfsck.cli.pages.making import page_of
from rocketfsck.common.documents import to_document
from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.seam import Engine
from rocketfsck.page.after import Tried
from rocketfsck.page.collect import Material, collect
from rocketfsck.page.fleet import fleet_page
from rocketfsck.page.model import ByteWindow, FieldSaid, Page
from rocketfsck.page.survey import Bad, IndexSurvey, LogSurvey, Span, Strip, TimeBuckets
from rocketfsck.page.surveying import Survey
from rocketfsck.page.tables import DEFAULT, Limits
from rocketfsck.page.topictimes import TopicCounter
from rocketfsck.pipeline.fleet.model import ORDER, StoreRow
from rocketfsck.query.counts import StoreCounts, Tally
from rocketfsck.query.retention import FileRetention, Retention, RetentionRules, UnconsumedMessages
from rocketfsck.query.start.verdict import Prediction
from rocketfsck.query.timeline import TimelineEvent
from rocketfsck.repair.plan.model import Action, Extent, Loss, Plan, PlanTarget
from rocketfsck.repair.verdict import Verdict, judge_store, predicted
from rocketfsck.store import open_store
from rocketfsck.store.model import ConsumeQueue, IndexFile, MappedFile, MappedFileQueue, Store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.task import Fact, QueueFacts, RegionTotal

DATA = Path(__file__).parent / "data"
SAMPLES = DATA / "page"
NOW = 1_700_000_000_000
OFFSETS = '{"offsetTable":{"Seg0@readers":{0:120,1:249},"Seg1@readers":{0:7},"Seg2@slow":{0:0,1:3}}}'
GIB = 1 << 30


def checked_page(root: Path, engine: Engine | None = None) -> Page:
    """The page of a store, as `check --report` makes it."""
    from rocketfsck.repair.plan.planning import make_plan

    store = open_store(root)
    facts: list[Fact] = []
    report = check_store(store, CheckOptions(now_timestamp=NOW), seen=facts.extend)
    predictions = predicted(store, report)
    verdict = judge_store(store, report, predictions=predictions)
    plan = None if verdict.prospect is None else make_plan(store, report)
    return page_of(
        replace(report, seconds=0.0),
        verdict,
        engine or LocalEngine(1),
        store=store,
        facts=facts,
        predictions=predictions,
        plan=plan,
    )


def damaged_copy(root: Path, target: Path) -> Path:
    """A copy of a store with damage of several kinds, the same every time."""
    shutil.copytree(root, target)
    logs = sorted((target / "commitlog").iterdir())
    with logs[1].open("r+b") as file:  # a record in the middle loses its first bytes
        file.seek(40_000)
        file.write(b"\x5a" * 3000)
    with logs[2].open("r+b") as file:  # one bit of a body
        file.seek(20_000)
        byte = file.read(1)
        file.seek(20_000)
        file.write(bytes([byte[0] ^ 4]))
    queue = next(path for path in sorted((target / "consumequeue").rglob("*")) if path.is_file())
    with queue.open("r+b") as file:
        file.seek(200)
        file.write(bytes(20))
    shutil.rmtree(sorted((target / "consumequeue").iterdir())[-1] / "1")
    index = sorted((target / "index").iterdir())[0]
    with index.open("r+b") as file:  # an entry leads into nowhere
        file.seek(40 + 4 * 200 + 20 * 5 + 16)
        file.write(b"\x00\x00\x0f\xff")
    return target


def large_page(
    file_count: int = 1024,
    queue_count: int = 10_000,
    finding_count: int = 50_000,
    counted: int = 1_000_000,
    limits: Limits = DEFAULT,
) -> Page:
    """The page of a store of `file_count` GiB that never was, with so many queues and findings.

    A check lists `finding_count` findings and counts `counted`.
    """
    small = large_store(file_count, queue_count)
    report = _large_report(small, finding_count, counted)
    survey = _large_survey(small, limits)
    facts = [
        QueueFacts(queue.topic, queue.queue_id, "file", 0, 500_000 + row, 0, 1 << 40, 500_000 + row)
        for row, queue in enumerate(small.queues)
    ]
    verdict = judge_store(
        small, replace(report, findings=(), counts={}), predictions=[Prediction("5.3.3", ("5.3.3",), None)]
    )
    plan = _large_plan(report)

    def window(finding: Finding, file: int) -> ByteWindow:
        start = finding.where.start or 0
        fields = tuple(
            FieldSaid(f"field_{number}", start + 4 * number, start + 4 * number + 4, f"{number * 99_991}")
            for number in range(24)
        )
        return ByteWindow(file, start, start + 256, "5a" * 256, fields)

    material = Material(
        report,
        verdict,
        ("Damaged.", "  Store   /data/store"),
        lambda one: (one.version, "starts"),
        window,
        small,
        facts,
        (),
        plan,
        _large_trial(small, report, survey, facts, verdict),
    )
    return collect(material, survey, limits)


def _large_trial(
    store: Store, report: Report, survey: Survey, facts: list[QueueFacts], verdict: Verdict
) -> Tried:
    """A plan that changes every strip and every queue, adds a file to each queue, and makes other findings
    of half of them."""
    logs = [
        None if log is None else replace(log, spans=log.spans[::2], bad=log.bad[:20], bad_count=20)
        for log in survey.logs
    ]
    queues = []
    for queue in store.queues:
        more = _mapped(f"consumequeue/{queue.topic}/{queue.queue_id}", 12_000_000, 6_000_000)
        files = replace(queue.mapped_files, files=(*queue.files, more))
        queues.append(replace(queue, mapped_files=files))
    found = replace(
        survey,
        logs=tuple(logs),
        indexes=tuple(None if one is None else replace(one, longest_chain=61) for one in survey.indexes),
        positions=tuple((*place[:3], place[3] + 1) for place in survey.positions),
    )
    then = [replace(fact, max_offset=fact.max_offset + 1_234_567, min_offset=1) for fact in facts]
    starts = [Prediction(one.version, one.alike, None) for one in verdict.starts]
    findings = tuple(
        finding
        if number % 2
        else replace(finding, rule=RuleName.PRE_BLANK_MISPLACED, found={"unit_count": 2})
        for number, finding in enumerate(report.findings)
    )
    counts = {rule: count - 1 for rule, count in report.counts.items()}
    after = replace(report, findings=findings, counts={**counts, RuleName.PRE_BLANK_MISPLACED: 1_000_000})
    return Tried(replace(store, queues=tuple(queues)), after, found, then, starts, str)


def large_store(file_count: int, queue_count: int) -> Store:
    """A store of which no file exists."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "commitlog").mkdir()
        (Path(folder) / "config").mkdir()
        (Path(folder) / "abort").touch()
        store = open_store(Path(folder), version="5.3.3")
    logs = tuple(_mapped("commitlog", number * GIB, GIB) for number in range(file_count))
    queues = []
    for number in range(queue_count):
        topic, queue_id = f"trade-orders-{number // 8:05d}", number % 8
        directory = f"consumequeue/{topic}/{queue_id}"
        files = tuple(_mapped(directory, at * 6_000_000, 6_000_000) for at in range(2))
        queues.append(
            ConsumeQueue(
                topic, queue_id, "file", MappedFileQueue((f"/data/store/{directory}",), 6_000_000, files)
            )
        )
    indexes = tuple(
        IndexFile(f"/data/store/index/{name}", f"index/{name}", 420_000_040, 0, 420_000_040)
        for name in (f"{20231114000000000 + number}" for number in range(file_count // 4))
    )
    return replace(
        store,
        root=Path("/data/store"),
        commitlog=MappedFileQueue(("/data/store/commitlog",), GIB, logs),
        queues=tuple(queues),
        indexes=indexes,
        configs=(),
        strays=(),
    )


def _mapped(directory: str, start: int, size: int) -> MappedFile:
    name = f"{directory}/{start:020d}"
    return MappedFile(f"/data/store/{name}", name, size, 1_700_000_000_000_000_000, size, start)


def _large_report(store: Store, finding_count: int, counted: int) -> Report:
    with TemporaryDirectory() as folder:
        (Path(folder) / "abort").touch()
        report = check_store(open_store(Path(folder)), CheckOptions(now_timestamp=NOW))
    logs, queues = store.commitlog.files, store.queues
    findings = []
    for number in range(finding_count):
        if number % 2:
            file = logs[number % len(logs)]
            start = number * 7919 % file.size
            place = Where(file.relative, start, start + 300, (file.start_offset or 0) + start)
            facts = {"body_crc": number, "body_size": 200, "crc": number + 1}
            findings.append(Finding(RuleName.RECORD_BODY_CRC, place, facts, facts))
        else:
            queue = queues[number % len(queues)]
            start = number * 20 % 6_000_000
            place = Where(
                queue.files[0].relative, start, start + 20, None, queue.topic, queue.queue_id, start // 20
            )
            findings.append(Finding(RuleName.UNIT_HOLE, place, {"unit_count": 1}))
    share = counted // 2
    regions = {
        file.relative: (RegionTotal("records", 40, GIB - 9000, 900_000), RegionTotal("damaged", 40, 9000, 0))
        for file in logs
    }
    return replace(
        report,
        seconds=0.0,
        findings=tuple(findings),
        counts={RuleName.RECORD_BODY_CRC: share, RuleName.UNIT_HOLE: counted - share},
        regions=regions,
    )


def _large_survey(store: Store, limits: Limits) -> Survey:
    logs, account = [], StoreCounts()
    share = max(min(limits.span_count // len(store.commitlog.files), limits.file_span_count), 4)
    for number, file in enumerate(store.commitlog.files):
        strip = Strip(file.size, share)
        bad = []
        cell = file.size // 40
        for at in range(40):
            span = Span.of(at * cell, at * cell + 225, "damaged")
            strip.add(span)
            strip.add(Span.of(at * cell + 225, (at + 1) * cell if at < 39 else file.size, "records", 22_000))
            bad.append(Bad(span, NOW + number * 3_600_000, NOW + number * 3_600_000 + 5000))
        buckets = TimeBuckets(limits.bucket_count)
        times = NOW + number * 3_600_000 + np.arange(60, dtype=np.int64) * 60_000
        buckets.add(times, np.full(60, 1000, np.int64))
        first, last = int(times[0]), int(times[-1])
        counter = TopicCounter(limits.topic_bucket_count)
        counter.add(np.arange(60, dtype=np.int64) % 40, times)
        names = [f"trade-orders-{topic:05d}".encode() for topic in range(40)]
        cells = counter.cells(names, limits.file_topic_count)
        logs.append(
            LogSurvey(number, strip.spans(), bad, 40, StoreCounts(), buckets, cells, [], first, last, 900_000)
        )
    for number, queue in enumerate(store.queues):
        name = (queue.topic.encode(), queue.queue_id)
        account.add_queue(name, Tally(90_000 + number, 1 << 27, NOW, NOW + 86_400_000), 0, 100_000 + number)
    indexes = tuple(
        IndexSurvey(
            5_000_000,
            3_300_000,
            20_000_000,
            20_000_000,
            60,
            (10_000, 20_000, 90_000, 9, 4, 1),
            NOW,
            NOW,
            0,
            1,
        )
        for _ in store.indexes
    )
    positions = tuple(
        (f"group-{number % 50}", queue.topic, queue.queue_id, number)
        for number, queue in enumerate(store.queues)
        for _ in range(3)
    )
    events = tuple(
        TimelineEvent(
            NOW + number,
            "Content Modification Time",
            f"{file.relative} was last written",
            "file",
            file.relative,
        )
        for number, file in enumerate(store.commitlog.files)
    )
    retention = _large_retention(store, queues=2000)
    return Survey(tuple(logs), indexes, account, events, positions, retention)


def _large_retention(store: Store, queues: int) -> Retention:
    """A broker that deletes a file an hour, of which each of so many groups has consumed nothing."""
    hour = 3_600_000
    files = tuple(
        FileRetention(file.relative, file.start_offset or 0, file.size, NOW, NOW + hour * at, NOW + hour * at)
        for at, file in enumerate(store.commitlog.files)
    )
    missed = tuple(
        UnconsumedMessages(files[0].file, NOW, f"group-{at % 50}", f"trade-orders-{at:05d}", at + 1)
        for at in range(queues)
    )
    rules = RetentionRules(72, (4,), 75, ZoneInfo("UTC"), NOW)
    return Retention(rules, files, missed, GIB, ())


def _large_plan(report: Report) -> Plan:
    planned = PlanTarget("/data/store", "5.3.3", {}, (), "", 0, GIB)
    actions = tuple(
        Action(
            "fence-gap",
            finding.where.file,
            "a filler record takes the place of damaged bytes",
            why=(finding.fingerprint,),
            preconditions=(
                Extent(finding.where.file, finding.where.start or 0, finding.where.end, "0" * 64),
            ),
            losses=(Loss("record", 1),),
        )
        for finding in report.findings[:5000]
    )
    return Plan(planned, "full", "0", actions)


def sample_fleet(count: int = 40) -> dict[str, Any]:
    """The page of a fleet, as a document."""
    rows = sample_rows(count)
    found = [
        {"run_id": row["run_id"], "root": row["root"], "rule": "CL021", "severity": "error", "count": 1}
        for row in rows[::2]
    ]
    return to_document(fleet_page(rows, found))


def sample_rows(count: int) -> list[dict[str, Any]]:
    """The rows of so many stores in the table of verdicts."""
    return [
        StoreRow(
            run_id="20231114T000000Z",
            broker=f"broker-{number:03d}",
            root=f"/data/broker-{number:03d}/store",
            state=ORDER[number * 7 % len(ORDER)],
            exit_code=4 * (number % 2),
            may_start=number % 2 == 0,
            version="5.3.3",
            error_count=number % 5,
            warning_count=number % 3,
            info_count=2,
            unlisted_finding_count=0,
            lost_record_count=number % 4,
            lost_entry_count=0,
            damaged_byte_count=512 * (number % 5),
            file_count=120,
            byte_count=(1 + number) * GIB,
            checked_byte_count=(1 + number) * GIB,
            is_complete=True,
            next_command=f"rocketfsck fix /data/broker-{number:03d}/store" if number % 2 else None,
            seconds=12.5,
            new_finding_count=number % 3,
        ).as_row()
        for number in range(count)
    ]


def write_samples(target: Path) -> None:
    """Write the documents of a sound and of a damaged store, and of a fleet."""
    target.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, tarfile.open(DATA / "stores" / "5.3.3-multiseg.tar.xz") as archive:
        os.chdir(folder)
        archive.extractall(filter="tar")
        root = Path("5.3.3-multiseg/store")
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "consumerOffset.json").write_text(OFFSETS, "utf-8")
        pages = {"clean": to_document(checked_page(root))}
        pages["damaged"] = to_document(checked_page(damaged_copy(root, Path("damaged"))))
    pages["fleet"] = sample_fleet()
    for name, document in pages.items():
        text = json.dumps(document).replace(os.path.realpath(folder), "/data")
        (target / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    write_samples(SAMPLES)
