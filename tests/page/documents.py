"""Documents of pages, made up: of any size, with any texts. Real ones are in tests/data/page."""

from __future__ import annotations

from typing import Any

KINDS = [
    "records",
    "blank",
    "zero",
    "torn",
    "damaged",
    "stale",
    "filler",
    "units",
    "header",
    "slots",
    "entries",
]
FAMILIES = ["commitlog", "consumequeue", "index", "config", "missing"]
_FILE = 1 << 20

STATES = ["refused", "harmful", "failed", "damaged", "unknown", "partial", "running", "healthy"]

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\u2028\u2029 separators",
    "\u202egnp.exe",
    "\"'><svg onload=alert(2)>",
    "${7*7}{{7*7}}`",
    "\x00\x1b[31m\ud800",
]


def columns(names: list[str], rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Rows as a table of columns."""
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def store_page(
    *,
    log_files: int = 4,
    queues: int = 6,
    spans_a_file: int = 5,
    findings: int = 12,
    events: int = 8,
    texts: list[str] | None = None,
) -> dict[str, Any]:
    """A page of a damaged store: commit log files of 1 MiB with so many spans each, queues with a file of
    6,000 bytes each, an index file, findings all over the commit log. `texts` are put where names are."""
    words = texts or ["Orders"]
    word = [words[at % len(words)] for at in range(max(queues, findings, events, 1))].__getitem__
    files, spans = _files(log_files, queues, spans_a_file, word)
    return {
        "kind": "rocketfsck.page",
        "schema_version": 1,
        "tool_version": "1.0.0rc1",
        "started_timestamp": 1_636_265_028_587,
        "seconds": 1.5,
        "level": "full",
        "store": {"root": f"/data/store {words[0]}", "dialect": "4.9.8", "versions": ["4.9.8"]},
        "state": "damaged",
        "headline": "Damaged. A broker may be started: its start loses nothing more.",
        "lines": [
            "Damaged. A broker may be started: its start loses nothing more.",
            "  Store   /data/store (RocketMQ 4.9.8)",
            "  Lost    1 message for good (256 bytes of the commit log damaged)",
            "  Repair  2 actions correct 5 findings; 1 is safe, 1 needs your judgement",
            "          1 committed consumer offset is beyond the new end of its queue",
            "  Next    rocketfsck fix /data/store",
        ],
        "verdict": None,
        "coverage": "Everything was checked.",
        "not_checked": [{"what": word(0), "reason": "no rule knows the file"}],
        "not_checked_counts": {"count": 1, "kept_count": 1},
        "diagnoses": [
            {
                "fault_class": "C1",
                "title": "half-written last record",
                "text": f"The last record is incomplete: {word(0)}.",
                "severity": "error",
                "rules": ["CL002"],
                "files": [],
                "count": 1,
                "next_command": "rocketfsck dump --hex /data/store",
            }
        ],
        "starts": _starts(log_files, word),
        "map": {
            "is_walked": True,
            "families": FAMILIES,
            "kinds": KINDS,
            "directories": ["commitlog", f"consumequeue/{words[0]}/0", "index", "config"],
            "files": files,
            "spans": spans,
            "totals": columns(["file", "kind", "region_count", "byte_count", "record_count"], []),
            "damage": columns(
                ["file", "start", "end", "kind"], [(0, 4096, 4352, 4), (log_files - 1, 900_000, 900_256, 3)]
            ),
            "damage_counts": {"count": 5, "kept_count": 2},
        },
        "findings": _findings(log_files, findings, word),
        "windows": [_window(word)],
        "timeline": _timeline(events, word),
        "retention": _retention(log_files, word),
        "topics": columns(
            ["topic", "queue_count", "message_count", "byte_count", "first_timestamp", "last_timestamp"],
            [(text, 2, 500, 9000, 1_636_265_000_000, 1_636_265_900_000) for text in dict.fromkeys(words)],
        ),
        "queues": _queues(queues, len(dict.fromkeys(words))),
        "groups": [f"group {word(0)}"],
        "positions": columns(
            ["group", "queue", "offset", "lag"], [(0, at, 10, 490 - at) for at in range(min(queues, 5))]
        ),
        "position_counts": {"count": queues, "kept_count": min(queues, 5)},
        "indexes": _indexes(log_files + queues),
        "plan": _plan(log_files, word),
        "left_out": [],
    }


def _files(
    log_files: int, queues: int, spans_a_file: int, word: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [
        "directory",
        "name",
        "family",
        "file_count",
        "size",
        "allocated_size",
        "start_offset",
        "queue",
        "first_span",
        "first_timestamp",
        "last_timestamp",
        "record_count",
    ]
    files: list[tuple[Any, ...]] = []
    spans: list[tuple[int, ...]] = []
    for at in range(log_files):
        files.append(
            (
                0,
                "",
                0,
                1,
                _FILE,
                _FILE,
                at * _FILE,
                -1,
                len(spans),
                1_636_265_000_000 + at,
                1_636_265_500_000 + at,
                900,
            )
        )
        step = _FILE // spans_a_file
        # One small damaged span after each third of the plain ones.
        spans += [(step * part, 0 if part % 3 else 4, 10, 1, 0) for part in range(spans_a_file)]
    for at in range(queues):
        files.append((1, f"{at:020} {word(at)}", 1, 1, 6000, 6000, at, at, len(spans), None, None, 300))
        spans += [(0, 7, 200, 1, 0), (4000, 6, 0, 1, 0), (5000, 2, 0, 1, 0)]
    files.append((2, "20261120090445904", 2, 1, 4444, 4444, -1, -1, len(spans), None, None, 22))
    spans += [(0, 8, 0, 1, 0), (40, 9, 0, 1, 0), (444, 10, 22, 1, 0)]
    files.append((3, "topics.json", 3, 1, 700, 700, -1, -1, len(spans), None, None, None))
    files.append((3, "missing.json", 4, 1, 0, 0, -1, -1, len(spans), None, None, None))
    table = columns(["start", "kind", "record_count", "region_count", "bad_byte_count"], spans)
    return columns(names, files), table


def _starts(log_files: int, word: Any) -> list[dict[str, Any]]:
    end = log_files * _FILE
    gone = {"start_offset": end - 200_000, "end_offset": end - 100_000, "record_count": 7}
    common = {
        "covered": True,
        "queues_destroyed": False,
        "unreadable": [],
        "unreadable_count": 0,
        "hidden": [],
    }
    return [
        {
            "versions": "4.9.4 to 4.9.8",
            "text": "starts and loses 7 messages",
            "loads": True,
            "min_offset": 0,
            "cut_offset": end - 200_000,
            "cut": [gone],
            "cut_count": 7,
            "hidden_count": 0,
            "files": [{"file": word(0), "change": "deleted", "why": "the file is empty"}],
            "file_count": 1,
        }
        | common,
        {
            "versions": "5.0.0",
            "text": "refuses to start",
            "loads": False,
            "min_offset": None,
            "cut_offset": None,
            "cut": [],
            "cut_count": None,
            "hidden_count": None,
            "files": [],
            "file_count": 0,
        }
        | common,
    ]


def _findings(log_files: int, findings: int, word: Any) -> dict[str, Any]:
    rules = [
        ("CL002", "log-torn-tail", "error"),
        ("XR010", "unit-of-damaged-record", "warning"),
        ("CP011", "checkpoint-ahead", "info"),
    ]
    names = [
        "rule",
        "file",
        "start",
        "end",
        "physical_offset",
        "queue",
        "queue_offset",
        "slot",
        "entry",
        "count",
        "message",
        "fingerprint",
        "window",
        "actions",
        "timestamp",
    ]
    rows = [
        (
            at % 3,
            at % log_files,
            4096 + 512 * at,
            4096 + 512 * at + 256,
            4096 + 512 * at,
            0,
            at,
            None,
            None,
            1,
            f"finding {at}: {word(at)}",
            f"{at:016x}",
            0 if at == 0 else -1,
            [at % 2] if at < 5 else [],
            None,
        )
        for at in range(findings)
    ]
    return {
        "count": findings + 1_000_000,
        "listed_count": findings + 1_000_000,
        "kept_count": findings,
        "rules": [
            {
                "rule": rule,
                "slug": slug,
                "severity": severity,
                "count": 350_000,
                "kept_count": sum(row[0] == at for row in rows),
                "why": "A broker cuts the log there.",
                "advice": f"Look at {word(0)}.",
                "reference": "",
                "fault_class": "C1",
                "repair": None,
            }
            for at, (rule, slug, severity) in enumerate(rules)
        ],
        "by_file": columns(["rule", "file", "count"], [(0, 0, 500_000), (1, 1, 500_000)]),
        "crowds": columns(
            ["file", "start", "end", "severity", "count"],
            [(0, part * 4096, part * 4096 + 4096, "error", 4000) for part in range(256)],
        ),
        "rows": columns(names, rows),
    }


def _window(word: Any) -> dict[str, Any]:
    fields = [
        ("totalSize", 4096, 4100, "256"),
        ("magicCode", 4100, 4104, "0xDAA320A7"),
        ("topic", 4184, 4200, word(0)),
    ]
    return {
        "file": 0,
        "start": 4096,
        "end": 4352,
        "data": "".join(f"{at:02x}" for at in range(128)) + ".." * 128,
        "fields": [
            {"name": name, "start": start, "end": end, "text": text} for name, start, end, text in fields
        ],
    }


def _timeline(events: int, word: Any) -> dict[str, Any]:
    first = 1_636_265_000_000
    return {
        "step_ms": 1000,
        "first_timestamp": first,
        "last_timestamp": first + 100_000,
        "buckets": columns(
            ["timestamp", "message_count", "byte_count"],
            [(first + 1000 * at, 10 + at % 7, 900) for at in range(100)],
        ),
        "events": columns(
            ["timestamp", "kind", "message", "file", "physical_offset"],
            [
                (first + 9000 * at, ["file", "broker", "gap"][at % 3], f"event {word(at)}", 0, 4096 * at)
                for at in range(events)
            ],
        ),
        "event_counts": {"count": events + 5, "kept_count": events},
        "lost": columns(
            ["first_timestamp", "last_timestamp", "file", "start", "byte_count"],
            [(first + 40_000, first + 45_000, 0, 4096, 256)],
        ),
        "topics": {
            "step_ms": 10_000,
            "first_timestamp": first,
            "rows": columns(
                ["topic", "bucket", "message_count"],
                [(-1, at, 1 + at) for at in range(10)] + [(0, at, 100 * (1 + at % 3)) for at in range(10)],
            ),
            "mixed_count": 0,
            "undated_count": 0,
            "unread_file_count": 0,
        },
    }


def _retention(log_files: int, word: Any) -> dict[str, Any]:
    """All files but two go at one time, the last but one a day later, the last stays."""
    first, day = 1_636_344_000_000, 86_400_000
    end = log_files * _FILE
    steps = [
        (0, end - 2 * _FILE, log_files - 2, end - 2 * _FILE, first, True),
        (end - 2 * _FILE, end - _FILE, 1, _FILE, first + day, True),
        (end - _FILE, end, 1, _FILE, None, False),
    ]
    return {
        "reserved_hours": 72,
        "delete_hours": [4],
        "time_zone": "UTC",
        "now_timestamp": 1_636_265_028_587,
        "growth_per_day": 5 * _FILE,
        "steps": columns(
            ["start_offset", "end_offset", "file_count", "byte_count", "delete_timestamp", "is_deleted"],
            [step for step in steps if step[2] > 0],
        ),
        "step_counts": {"count": 3, "kept_count": 3},
        "unconsumed": columns(
            ["group", "topic", "message_count", "delete_timestamp"],
            [(f"group {word(0)}", word(0), 41, first), ("late", word(0), 7, first + day)],
        ),
        "unconsumed_counts": {"count": 3, "kept_count": 2},
        "problem": "",
    }


def _queues(queues: int, topics: int) -> dict[str, Any]:
    names = [
        "topic",
        "queue_id",
        "min_offset",
        "max_offset",
        "log_min_offset",
        "log_max_offset",
        "message_count",
        "gap_count",
        "finding_count",
        "lag",
    ]
    rows = [
        (at % topics, at, 0, 500, 10, 490, 480, at % 3 == 0, at % 2, 490 - at if at < 5 else None)
        for at in range(queues)
    ]
    return columns(names, [(*row[:7], int(row[7]), *row[8:]) for row in rows])


def _indexes(file: int) -> dict[str, Any]:
    names = [
        "file",
        "slot_count",
        "used_slot_count",
        "entry_count",
        "used_entry_count",
        "longest_chain",
        "chain_counts",
        "lost_entry_count",
        "begin_timestamp",
        "end_timestamp",
        "begin_physical_offset",
        "end_physical_offset",
    ]
    return columns(
        names, [(file, 101, 19, 200, 21, 5, [12, 5, 2], 1, 1_636_265_000_000, 1_636_265_900_000, 0, 4096)]
    )


def _plan(log_files: int, word: Any) -> dict[str, Any]:
    return {
        "actions": [
            {
                "action": "drop-tail",
                "file": log_files - 1,
                "note": f"cut {word(0)}",
                "is_safe": True,
                "extents": [[log_files - 1, 900_000, 900_256], [log_files, 0, None]],
                "finding_count": 2,
                "gains": {"readable_records": 3},
                "losses": {},
                "write_size": 256,
            },
            {
                "action": "fix-checkpoint",
                "file": -1,
                "note": "write the checkpoint",
                "is_safe": False,
                "extents": [],
                "finding_count": 3,
                "gains": {},
                "losses": {"records": 1},
                "write_size": 4096,
            },
        ],
        "action_counts": {"count": 2, "kept_count": 2},
        "unanswered": [{"rule": "IX028", "count": 3, "reason": f"nobody knows {word(0)}"}],
        "notices": [f"One consumer group repeats messages of {word(0)}."],
        "before": {
            "record_count": 3600,
            "readable_count": 3500,
            "error_count": 9,
            "warning_count": 3,
            "damaged_byte_count": 512,
        },
        "after": {
            "record_count": 3599,
            "readable_count": 3599,
            "error_count": 0,
            "warning_count": 1,
            "damaged_byte_count": 0,
        },
        "obstacle": "",
    }


def fleet_page(stores: int = 40, texts: list[str] | None = None) -> dict[str, Any]:
    """A page of a fleet with stores of all states."""
    words = texts or ["broker"]
    names = [
        "run_id",
        "broker",
        "root",
        "state",
        "exit_code",
        "may_start",
        "version",
        "error_count",
        "warning_count",
        "info_count",
        "unlisted_finding_count",
        "lost_record_count",
        "lost_entry_count",
        "damaged_byte_count",
        "file_count",
        "byte_count",
        "checked_byte_count",
        "is_complete",
        "next_command",
        "error",
        "seconds",
    ]
    rows: list[tuple[Any, ...]] = []
    for at in range(stores):
        state, text = STATES[at * len(STATES) // stores], words[at % len(words)]
        if state == "failed":
            rows.append(
                (
                    "run",
                    f"{text}-{at}",
                    f"/data/{at}/{text}",
                    state,
                    8,
                    *[None] * 14,
                    f"no store: {text}",
                    0.1,
                )
            )
        else:
            rows.append(
                (
                    "run",
                    f"{text}-{at}",
                    f"/data/{at}/{text}",
                    state,
                    4,
                    True,
                    "4.9.8",
                    stores - at,
                    3,
                    1,
                    0,
                    at,
                    0,
                    256 * at,
                    32,
                    1 << 30,
                    1 << 30,
                    True,
                    f"rocketfsck fix /data/{at}",
                    None,
                    1.0,
                )
            )
    counts = {state: sum(row[3] == state for row in rows) for state in STATES}
    return {
        "kind": "rocketfsck.page.fleet",
        "schema_version": 1,
        "tool_version": "1.0.0rc1",
        "store_counts": {"count": stores + 2, "kept_count": stores},
        "state_counts": {state: count for state, count in counts.items() if count}
        | {"healthy": counts["healthy"] + 2},
        "byte_count": stores << 30,
        "error_count": 10,
        "warning_count": 11,
        "lost_record_count": 12,
        "stores": columns(names, rows),
        "rules": columns(
            ["store", "rule", "severity", "count"],
            [(0, "CL002", "error", 3), (0, "CF010", "info", 1), (1, words[0], "warning", 2)],
        ),
    }
