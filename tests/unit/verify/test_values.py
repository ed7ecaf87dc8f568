"""Baselines, values in JSON, collectors: the small parts that reports and resume files are made of."""

from __future__ import annotations

import contextlib
import json
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.verify.baseline import read_baseline, write_baseline
from rocketfsck.verify.documents import write_atomically
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.tasks.jsonform import from_json, to_json
from rocketfsck.verify.tasks.task import Checked, Collector, TaskResult, aggregate, complete, is_aggregate

from tests.unit.verify.storemaker import log_facts, queue_facts


def finding(number: int, file: str = "f", rule: str = "ST041", count: int = 1) -> Finding:
    return Finding(rule, Where(file=file, start=number), {"reason": "x"}, count=count)


def test_a_baseline_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    assert write_baseline(path, [finding(1), finding(2), finding(1)]) == 2
    assert read_baseline(path) == {finding(1).fingerprint, finding(2).fingerprint}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2, "fingerprints": []}',
        '{"schema_version": 1}',
        '{"schema_version": 1, "fingerprints": ["xyz"]}',
        '{"schema_version": 1, "fingerprints": [7]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"known\.json"):
        read_baseline(path)


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_baseline(tmp_path / "none")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_atomically(path, "old")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        write_atomically(tmp_path / "none" / "state", "text")


VALUES: tuple[Any, ...] = (
    None,
    True,
    -(2**63),
    1.5,
    "text \udcff",
    b"\0\xff",
    (1, (2, "3"), ()),
    {"a": (1, 2), "$b": {"c": None}},
    Severity.ERROR,
    finding(3, "主题"),
    log_facts(4096),
    queue_facts("T", 0, 1, 9),
    TaskResult((finding(1),), {"ST041": 1}, Checked(1, 2), (log_facts(0),), {"x": (1,)}),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_survive_json(value: Any) -> None:
    text = json.dumps(to_json(value))
    assert from_json(json.loads(text)) == value


@pytest.mark.parametrize("dtype", ["i8", ">i4", "u1", "f8", "b1"])
def test_arrays_survive_json(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = from_json(json.loads(json.dumps(to_json(array))))
    assert back.dtype == array.dtype
    assert (back == array).all()
    back[0, 0] = 1  # writable
    assert to_json(array[1, 1]) == array[1, 1]


def test_lists_become_tuples() -> None:
    assert from_json(to_json([1, [2]])) == (1, (2,))


class Foreign(Enum):
    ONE = 1


@pytest.mark.parametrize("value", [object(), {1: 2}, int])
def test_values_without_a_form_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        to_json(value)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": 1},
        {"$bytes": "?"},
        {"$bytes": 7},
        {"$map": 1},
        {"$map": {}, "$bytes": ""},
        {"$array": ["O", [1], ""]},
        {"$array": ["nonsense", [1], ""]},
        {"$array": ["i8", [2], "AAAAAAAAAAA="]},
        {"$array": ["i8", ["x"], ""]},
        {"$array": 5},
        {"$enum": ["rocketfsck.verify.finding:Finding", 1]},
        {"$enum": ["rocketfsck.verify.finding:Severity", 99]},
        {"$type": "os:system"},
        {"$type": "rocketfsck.__main__:main"},
        {"$enum": ""},
        {"$type": 5},
        {"$type": "rocketfsck.verify.nothing:X"},
        {"$type": "rocketfsck.verify.finding:Nothing"},
        {"$type": "rocketfsck.verify.finding:Scalar"},
        {"$type": "rocketfsck.verify.rules.catalog:Finding"},
        {"$type": "rocketfsck.verify.finding:Severity"},
        {"$type": "rocketfsck.verify.finding:Where", "nothing": 1},
    ],
)
def test_documents_that_nobody_wrote_are_refused(document: Any) -> None:
    with pytest.raises(UsageError):
        from_json(document)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$type", "$map", "$array", "$bytes", "$enum", "a"]), inner, max_size=2
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_document_is_a_value_or_refused(document: Any) -> None:
    with contextlib.suppress(UsageError):
        from_json(document)


def test_a_collector_keeps_some_and_counts_all() -> None:
    collector = Collector(limit=2)
    collector.extend(finding(number) for number in range(5))
    collector.add(finding(9, "other", count=4))
    kept = collector.findings
    assert [item.where.start for item in kept] == [0, 1, 9, None]
    assert is_aggregate(kept[-1])
    assert (kept[-1].where.file, kept[-1].count) == ("f", 3)
    assert collector.counts == {"ST041": 9}


def test_collectors_of_collectors_count_the_same() -> None:
    first = Collector(limit=2)
    first.extend(finding(number) for number in range(5))
    second = Collector(limit=1)
    second.extend(first.findings)
    assert second.counts == {"ST041": 5}
    assert [item.count for item in second.findings] == [1, 4]
    assert second.findings[1] == aggregate("ST041", "f", 4)


def test_a_collector_has_a_total() -> None:
    collector = Collector(limit=10, total=3)
    collector.extend(finding(number, f"file{number}") for number in range(5))
    assert len([item for item in collector.findings if not is_aggregate(item)]) == 3
    assert collector.counts == {"ST041": 5}


def test_checked_adds_up() -> None:
    assert Checked(1, 2, 3, 4, 5) + Checked(10, 20, 30, 40, 50) == Checked(11, 22, 33, 44, 55)
    assert sum([Checked(1), Checked(2)], Checked()) == Checked(3)


def test_complete_means_a_result_for_every_task() -> None:
    assert complete([])
    assert complete([TaskResult()])
    assert not complete([TaskResult(), None])
