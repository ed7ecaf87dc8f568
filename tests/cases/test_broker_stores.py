"""What a full check says of every store that a real broker wrote, and of every one that was damaged.

Cleanly stopped stores give nothing above info. For the others the table says exactly what must be found: no
more and no less. Levels, engines and both scanners give the same.
"""

from __future__ import annotations

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document

NOW = 1_800_000_000_000

KILLED_OR_ALTERED: dict[str, set[str]] = {
    # killed: the next start deletes the newest index file
    "4.9.8-killed": {"CP001", "CP003"},
    "4.9.8-lagkill-transient": {"CP001", "CP003"},
    "5.3.3-killed": {"CP001", "CP003"},
    # killed, and the restart indexed only a part anew
    "5.1.3-killed-restarted": {"XR020", "XR021"},
    # a flipped bit made the restart cut the log; units and entries of what was cut are still there
    "4.9.8-ghosttail": {
        "CL021", "CQ002", "XR004", "XR005", "XR020", "XR022", "XR023", "XR024", "XR027",
    },
}  # fmt: skip

RESTARTS: dict[str, tuple[set[str], set[str]]] = {
    # name: rules above info, fault classes diagnosed
    "4.4.0-basic--checkpoint-zeroed-abort": ({"CP001", "CP003", "CP017"}, {"I1", "K1", "K4"}),
    "4.4.0-basic--stray-first": ({"ST003"}, {"C6"}),
    "4.4.0-multiseg--missing-middle-commitlog": ({"ST010", "XR011", "XR030"}, {"C5"}),
    # offsets that were sound are ahead of queues that are gone
    "4.9.8-basic--cq-deleted": ({"CF011", "XR002"}, {"K6", "Q7"}),
    "4.9.8-basic--torn-tail": ({"CL002", "CP011", "XR010", "XR029"}, {"C1", "K2"}),
    "4.9.8-ghosttail--as-is-second-restart": (
        KILLED_OR_ALTERED["4.9.8-ghosttail"],
        {"C3", "I1", "I12", "I2", "Q2"},
    ),
    "4.9.8-killed--index-truncated": (
        {"CP001", "CP003", "IX001", "XR020", "XR021"},
        {"I1", "I10", "K4"},
    ),
    "4.9.8-lagkill-transient--as-is": ({"CP001", "CP003"}, {"I1", "K4"}),
    "4.9.8-multiseg--flip-older-file": ({"CL004"}, {"C4"}),
    "5.1.3-basic--flip-last-file": ({"CL004"}, {"C4"}),
    "5.1.3-killed-restarted--cq-deleted-clean": ({"XR002", "XR020", "XR021"}, {"I1", "Q7"}),
    "5.3.3-basic--one-queue-deleted-abort": (
        {"CF011", "CP001", "CP003", "XR002"},
        {"I1", "K4", "K6", "Q7"},
    ),
    "5.3.3-killed--as-is": ({"CP001", "CP003"}, {"I1", "K4"}),
    "5.3.3-multiseg--flip-older-file": ({"CL004"}, {"C4"}),
    "5.3.3-trans--cq-dangling": ({"XR004"}, {"Q2"}),
}


def check(directory: object, **options: object) -> Report:
    return check_store(open_store(str(directory)), CheckOptions(now_timestamp=NOW, **options))  # type: ignore[arg-type]


def above_info(report: Report) -> set[str]:
    return {rule for rule, count in report.counts.items() if count and RULES[rule].severity > Severity.INFO}


def of(report: Report, rule: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.rule == rule]


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_broker_written_store(name: str, store_dir: Directory) -> None:
    report = check(store_dir(name))
    wanted = KILLED_OR_ALTERED.get(name, set())
    assert above_info(report) == wanted
    assert report.exit_code == (4 if wanted else 0)
    assert report.coverage.complete
    assert not [item for item in report.not_checked if item.operational]


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_a_damaged_store(name: str, restart_dir: Directory) -> None:
    report = check(restart_dir(name))
    rules, classes = RESTARTS[name]
    assert above_info(report) == rules
    assert {diagnosis.fault_class for diagnosis in report.diagnoses} == classes
    assert report.exit_code == 4


@pytest.mark.parametrize("name", STORE_NAMES)
def test_regions_tile_every_file_of_the_log(name: str, store_dir: Directory) -> None:
    report = check(store_dir(name))
    store = open_store(store_dir(name))
    assert set(report.regions) == {file.relative for file in store.commitlog.files}
    for file in store.commitlog.files:
        assert sum(region.byte_count for region in report.regions[file.relative]) == file.size


@pytest.mark.parametrize("name", STORE_NAMES)
def test_as_many_records_as_the_broker_read(
    name: str, store_dir: Directory, manifest: Document, oracle: Document
) -> None:
    report = check(store_dir(name))
    last = manifest(name)["phases"][-1]
    walk = last["live"]["walk"] if "live" in last else oracle(f"{name}--as-is")["afterStart"]["walk"]
    live = sum(
        region.record_count
        for regions in report.regions.values()
        for region in regions
        if region.kind == "records"
    )
    assert live == len(walk)


@pytest.mark.parametrize("name", ["4.9.8-multiseg--flip-older-file", "5.1.3-basic--flip-last-file"])
def test_a_flipped_bit_is_located_to_its_record(name: str, restart_dir: Directory, oracle: Document) -> None:
    damage = oracle(name)["damage"][0]
    (finding,) = of(check(restart_dir(name)), "CL004")
    where = finding.where
    assert where.file == damage["file"]
    assert where.physical_offset == damage["physicalOffset"]
    assert where.start is not None and where.end is not None
    assert where.start <= damage["at"] < where.end
    assert where.end - where.start == damage["size"]


def test_a_torn_tail_is_located_to_the_byte(restart_dir: Directory, oracle: Document) -> None:
    name = "4.9.8-basic--torn-tail"
    damage = oracle(name)["damage"][0]
    report = check(restart_dir(name))
    (finding,) = of(report, "CL002")
    assert (finding.where.physical_offset, finding.where.file) == (damage["physicalOffset"], damage["file"])
    # the broker's own log ends there after the restart
    assert oracle(name)["afterStart"]["commitlogMaxOffset"] == damage["physicalOffset"]


def test_lost_messages_are_listed_queue_by_queue(restart_dir: Directory, manifest: Document) -> None:
    report = check(restart_dir("4.4.0-multiseg--missing-middle-commitlog"))
    walk = manifest("4.4.0-multiseg")["phases"][-1]["live"]["walk"]
    lost: dict[tuple[str, int], list[int]] = {}
    for row in walk:
        if 196608 <= row["o"] < 262144:
            lost.setdefault((row["t"], row["q"]), []).append(row["n"])
    stated = {
        (finding.where.topic, finding.where.queue_id): (
            finding.found.get("queue_offset", finding.where.queue_offset),
            finding.found["last_queue_offset"],
            finding.found["unit_count"],
        )
        for finding in of(report, "XR011")
    }
    assert stated == {queue: (min(rows), max(rows), len(rows)) for queue, rows in lost.items()}


def test_dangling_units_are_located_to_the_first(restart_dir: Directory, oracle: Document) -> None:
    name = "5.3.3-trans--cq-dangling"
    damage = oracle(name)["damage"][0]
    (finding,) = of(check(restart_dir(name)), "XR004")
    assert finding.where.file == damage["file"]
    assert finding.where.queue_offset == damage["firstUnit"]
    assert (finding.where.start, finding.count) == (damage["firstUnit"] * 20, 1) or finding.found[
        "unit_count"
    ] == 3


def test_a_truncated_index_file_is_located_to_the_first_lost_entry(
    restart_dir: Directory, oracle: Document
) -> None:
    name = "4.9.8-killed--index-truncated"
    damage = oracle(name)["damage"][0]
    (finding,) = of(check(restart_dir(name)), "IX001")
    assert finding.where.file == damage["file"]
    first_lost = (damage["newSize"] - 40 - 4 * 64) // 20
    assert finding.found["first_lost_entry"] in (first_lost, first_lost + 1)


@pytest.mark.parametrize("name", ["5.3.3-killed", "4.9.8-lagkill-transient"])
def test_the_index_file_that_a_start_deletes_is_the_one_it_did_delete(
    name: str, store_dir: Directory, oracle: Document
) -> None:
    stated = {finding.where.file for finding in of(check(store_dir(name)), "CP003")}
    deleted = oracle(f"{name}--as-is")["afterShutdown"]["filesDeleted"]
    assert stated == {path for path in deleted if path.startswith("index/")}


@pytest.mark.parametrize("name", [*STORE_NAMES, *RESTART_NAMES])
def test_both_scanners_and_any_number_of_jobs_find_the_same(
    name: str, store_dir: Directory, restart_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = store_dir(name) if name in STORE_NAMES else restart_dir(name)
    reports = []
    for kernels, jobs in (("plain", 1), ("compiled", 1), ("compiled", 3)):
        monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
        report = check_store(open_store(directory), CheckOptions(now_timestamp=NOW), engine=LocalEngine(jobs))
        reports.append((report.findings, dict(report.counts), report.regions, report.checked))
    assert reports[0] == reports[1] == reports[2]


@pytest.mark.parametrize("name", ["4.9.8-multiseg", "5.3.3-multiseg", "4.9.8-ghosttail"])
def test_lower_levels_find_no_other_things(name: str, store_dir: Directory) -> None:
    full = check(store_dir(name))
    for level in ("quick", "cross"):
        lower = check(store_dir(name), level=level)
        assert set(lower.counts) <= set(full.counts)
        assert all(RULES[rule].applies_at(level) for rule in lower.counts)


def test_hosts_are_read_behind_ipv6_hosts_too(store_dir: Directory, manifest: Document) -> None:
    (finding,) = of(check(store_dir("4.9.8-ipv6")), "CL025")
    hosts = {message["storeHost"] for message in manifest("4.9.8-ipv6")["phases"][0]["messages"]}
    shown = {str(finding.found["previous_host"]), str(finding.found["host"])}
    assert {text.replace("[", "").replace("]", "").rpartition(":")[2] for text in shown} == {"10911"}
    assert len(shown) == 2
    assert {text for text in shown if "." in text} <= hosts
