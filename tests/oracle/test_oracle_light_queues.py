"""Light queues (LMQ) as the real store code writes them: nothing is wrong, and a rebuilding gives its bytes.

From 5.0.0 on a broker numbers light queues alone; of a list that ends with another name it writes no unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import Directory
from tests.oracle.broker import Put, run

pytestmark = pytest.mark.oracle

LISTS = ("%LMQ%a,%LMQ%b", "%LMQ%a,other", "%LMQ%c", "%LMQ%c,%LMQ%b,more,other")
SETTINGS = {"enableLmq": True, "enableMultiDispatch": True}


def puts(first: int) -> list[Put]:
    return [
        Put("Light", b"x" * (n % 17), n % 2, {"KEYS": f"k{n}", "INNER_MULTI_DISPATCH": LISTS[n * n % 4]})
        if n % 5
        else Put("Light", b"none", 0, {"KEYS": f"k{n}", "INNER_MULTI_DISPATCH": LISTS[3 - n % 4]})
        for n in range(first, first + 40)
    ]


@pytest.mark.parametrize("version", ["4.9.8", "5.1.4", "5.3.3"])
def test_lists_that_end_with_another_name(
    version: str, needs_broker: Callable[[str], None], store_dir: Directory, tmp_path: Path
) -> None:
    needs_broker(version)
    geometry = replace(
        open_store(store_dir("5.1.3-basic")).geometry, commitlog_file_size=65536, consumequeue_file_size=400
    )
    root = tmp_path / "store"
    root.mkdir()
    for first in (0, 40):  # a start counts the numbers of light queues anew
        assert run(version, root, geometry, append=puts(first), settings=SETTINGS).loaded
        report = check_store(open_store(root, version=version), CheckOptions())
        above = {
            rule for rule, count in report.counts.items() if count and RULES[rule].severity > Severity.INFO
        }
        assert above == set()
        assert ("XR036" in report.counts) == (version != "4.9.8")
        target = tmp_path / f"built{first}"
        rebuild_store(open_store(root, version=version), target, RebuildOptions(queues=True, index=False))
        for built in sorted((target / "consumequeue").rglob("0*")):
            if built.is_file():
                assert built.read_bytes() == (root / built.relative_to(target)).read_bytes(), built
