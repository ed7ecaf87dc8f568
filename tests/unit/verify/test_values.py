"""Baselines, values in JSON, collectors: the small parts that reports and resume files are made of."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.common.outputs import write_text
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.tasks.resume import from_json, read_baseline, to_json, write_baseline
from rocketfsck.verify.tasks.task import (
    Checked,
    Collector,
    LogFacts,
    TaskResult,
    aggregate,
    complete,
    is_aggregate,
)

from tests.unit.verify.storemaker import log_facts


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
    write_text(path, "old")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StoreError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        write_text(tmp_path / "none" / "state", "text")


@dataclass(frozen=True, slots=True)
class Summary:
    number: float
    data: bytes
    names: tuple[tuple[str, int], ...]
    counts: dict[str, int]
    array: Longs
    nothing: str | None = None


@dataclass(frozen=True, slots=True)
class Result(TaskResult):
    facts: tuple[LogFacts, ...] = ()
    summary: Summary | None = None


def summary(array: Any) -> Summary:
    return Summary(1.5, b"\0\xff", (("text \udcff", -(2**63)),), {"$b": 7}, array)


def result_of(array: Any) -> Result:
    findings = (finding(1), finding(3, "\u4e3b\u9898 \udcff", RuleName.STRAY))
    return Result(findings, {"ST041": 1}, Checked(1, 2), (log_facts(4096),), summary(array))


@pytest.mark.parametrize("dtype", ["i8", ">i4", "u1", "f8", "b1"])
def test_results_survive_json(dtype: str) -> None:
    result = result_of(np.arange(6).reshape(2, 3).astype(dtype))
    back = from_json(Result, json.loads(json.dumps(to_json(result))))
    assert back.summary is not None and result.summary is not None
    array = back.summary.array
    assert array.dtype == result.summary.array.dtype
    assert (array == result.summary.array).all()
    array[0, 0] = 1  # writable
    same: Any = np.zeros(0)
    assert replace(back, summary=replace(back.summary, array=same)) == result_of(same)


def test_numbers_of_arrays_are_numbers() -> None:
    result = Result(findings=(finding(1),), counts={"ST041": np.int64(5)})  # type: ignore[dict-item]
    assert from_json(Result, json.loads(json.dumps(to_json(result)))).counts == {"ST041": 5}


@pytest.mark.parametrize("value", [object(), {1: object()}, int, np.array([object()]), np.zeros(1, "M8[s]")])
def test_values_without_a_form_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        to_json(result_of(value))


DOCUMENT = to_json(result_of(np.arange(3)))


@pytest.mark.parametrize(
    "array",
    [
        None,
        5,
        {},
        [],
        ["i8", [1]],
        ["O", [1], ""],
        ["nonsense", [1], ""],
        ["i8,", [1], ""],
        ["i8", [2], "AAAAAAAAAAA="],
        ["i8", [1 << 70], "AAAAAAAAAAA="],
        ["i8", ["x"], ""],
        ["i8", [0], "?"],
        ["i8", [0], 7],
        ["V8", [1], "AAAAAAAAAAA="],
        ["i8", [-1, -1], "AAAAAAAAAAA="],
    ],
)
def test_arrays_that_nobody_wrote_are_refused(array: Any) -> None:
    document = DOCUMENT | {"summary": DOCUMENT["summary"] | {"array": array}}
    with pytest.raises(UsageError, match="not a result of a check"):
        from_json(Result, document)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"findings": {}},
        DOCUMENT | {"summary": {}},
        DOCUMENT | {"counts": {"ST041": "1"}},
        DOCUMENT | {"facts": [5]},
        DOCUMENT | {"summary": DOCUMENT["summary"] | {"data": "?"}},
        DOCUMENT | {"summary": DOCUMENT["summary"] | {"number": None}},
    ],
)
def test_documents_that_nobody_wrote_are_refused(document: Any) -> None:
    with pytest.raises(UsageError):
        from_json(Result, document)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["array", "a"]), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(DOCUMENT["summary"])), JSON)
def test_any_document_is_a_value_or_refused(name: str, value: Any) -> None:
    with contextlib.suppress(UsageError):
        from_json(Result, DOCUMENT | {"summary": DOCUMENT["summary"] | {name: value}})
    with contextlib.suppress(UsageError):
        from_json(Result, value)


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
