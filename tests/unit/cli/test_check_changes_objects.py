"""check --tables URL compares with the earlier runs in an object store, in any format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from tests.conftest import Directory
from tests.s3 import s3_client, s3_server_apart
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server_apart() as url:
        s3_client(url)
        yield url


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_new_since_the_last_run(
    cli: Cli, store_dir: Directory, server: str, tmp_path: Path, table_format: str
) -> None:
    assert server
    store = tmp_path / "broker" / "store"
    shutil.copytree(store_dir("5.3.3-basic"), store)
    catalog = [f"uri=sqlite:///{tmp_path}/catalog.db", "type=sql"] if table_format == "iceberg" else []
    line = [
        *("check", store, "--level", "quick", "--format", "json", "--alert-on", "new"),
        *("--tables", f"s3://bucket/{table_format}/checks", "--table-format", table_format),
        *(word for given in catalog for word in ("--catalog", given)),
    ]
    first, second = (json.loads(cli(*line).out) for _ in range(2))
    (store / "checkpoint").write_bytes(b"")
    shutil.rmtree(store / "consumequeue")
    ended = cli(*line)
    third = json.loads(ended.out)
    assert [document["not_compared"] for document in (first, second, third)] == [None] * 3
    assert [document["compared_store_count"] for document in (first, second, third)] == [0, 1, 1]
    assert second["new_finding_count"] == 0
    assert (ended.code, third["new_finding_count"] > 0) == (4, True)
    assert json.loads(cli(*line).out)["exit_code"] == 0
