"""Arguments reach kernels as they are, and what a kernel cannot take is refused before it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from rocketfsck.scan.machine import frames
from rocketfsck.scan.machine.jit import Kernel
from rocketfsck.scan.machine.library import KERNELS

from tests.unit.scan.machine import small

ROOT = Path(small.__file__).parents[4]
CALL = """
import numpy as np
from rocketfsck.scan.machine import library
names = ("triple", "hashed", "all_kinds", "is_odd", "double")
library.KERNELS = tuple("tests.unit.scan.machine.small:" + name for name in names)
from tests.unit.scan.machine import small
words, flags = np.zeros((2, 3), np.int32), np.zeros(1, np.bool_)
pair = small.Pair(-5, np.array([1, 1 << 40], np.int64))
print(small.all_kinds(pair, True, np.uint64(0xF << 60), np.array([7, 9], np.uint8), words, flags))
print(words.tolist(), flags.tolist())
print(small.is_odd(3), small.is_odd(4), small.double(pair.rows), pair.rows.tolist(), small.triple(-(1 << 62)))
data = np.frombuffer(b"The quick brown fox" * 40, np.uint8)
for size in (0, 1, 3, 63, 64, 65, 200, 600):
    expected = 0
    for byte in data[:size].tolist():
        expected = (31 * expected + byte) % (1 << 32)
    assert small.hashed(data.ctypes.data, size) == expected
"""


@pytest.mark.parametrize("processor", ["", "x86-64-v2", "no-such-processor"])
def test_every_kind_of_argument_arrives(
    processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ROCKETFSCK_PROCESSOR", processor)
    done = subprocess.run([sys.executable, "-c", CALL], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"({-5 + (1 << 40) + 2 + 9}, 15)",
        "[[0, 1, 2], [10, 11, 12]] [True]",
        f"True False None [2, {2 << 40}] {(1 << 62) + 1}",  # 64 bits of it
    ]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, np.int32),
        np.zeros((3, 1), np.int64),
        np.zeros(6, np.int64)[::2],
        np.zeros(3, ">i8"),
    ],
    ids=["type", "dimensions", "strides", "byte-order"],
)
def test_another_kind_of_array_is_refused(array: Any) -> None:
    signature = frames.signature_of(small.double.function)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="a kernel takes a contiguous array of int64 with 1 dimensions"):
        frames.call(0, signature, (array,))


def test_what_no_frame_can_hold_is_refused() -> None:
    def takes_text(name: str) -> None:
        """Nothing."""

    with pytest.raises(TypeError, match="a kernel cannot be given <class 'str'>"):
        frames.signature_of(takes_text)


def test_all_kernels_are_listed_and_say_what_they_take() -> None:
    from importlib import import_module

    functions: list[Callable[..., Any]] = []
    for name in KERNELS:
        module, _, attribute = name.partition(":")
        found = getattr(import_module(module), attribute)
        functions.append(found.function if isinstance(found, Kernel) else found)
    assert all(frames.signature_of(function).kinds for function in functions)
    package = Path(frames.__file__).parents[1]
    entries = sum(text.count("\n@entry\n") for text in (path.read_text() for path in package.rglob("*.py")))
    forms = sum(text.count("in_form(") for text in (path.read_text() for path in package.rglob("*.py")))
    assert len(KERNELS) == entries + forms - 1  # one of them is the definition


def test_arrays_of_numpy_2_5_are_arrays() -> None:
    """There `NDArray` is what a `type` statement makes, on each Python that has one."""

    class Alias:
        __value__ = NDArray

    said = GenericAlias(cast(type, Alias()), (np.int32,))
    assert frames.kind_of(said) == frames.kind_of(NDArray[np.int32]) == frames.ArrayKind(np.dtype("i4"), 1)
    assert frames.kind_of(Annotated[said, 2]) == frames.ArrayKind(np.dtype("i4"), 2)
