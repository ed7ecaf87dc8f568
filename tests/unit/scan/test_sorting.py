"""Sets of numbers as sorted arrays, against what NumPy itself makes of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rocketfsck.scan.spans import among, distinct

from tests.conftest import Directory

ARRAYS = [[], [3], [3, 3], [2, 1, 2, -5, 1], list(range(100, 0, -1)) * 3]


@pytest.mark.parametrize("values", ARRAYS)
def test_distinct(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()
    assert distinct(array).dtype == array.dtype


@pytest.mark.parametrize("values", ARRAYS)
@pytest.mark.parametrize("ordered", [[], [3], [-5, 1, 99], [7, 1000]])
def test_among(values: list[int], ordered: list[int]) -> None:
    array, known = np.array(values, np.int64), np.array(ordered, np.int64)
    assert among(array, known).tolist() == np.isin(array, known).tolist()


def test_a_check_does_not_import_masked_arrays(store_dir: Directory) -> None:
    program = (
        "import sys; from rocketfsck import check_store, open_store\n"
        "report = check_store(open_store(sys.argv[1]))\n"
        "assert report.coverage.complete and 'numpy.ma' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, store_dir("4.9.8-multiseg")], check=True)
