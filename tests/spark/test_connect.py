"""The same command through Spark Connect: a server from the installed pyspark, and a client without a JVM."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.cli.app import run

from tests.conftest import Directory
from tests.spark.cluster import wait_until

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server on two cores of this machine."""
    pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
    import pyspark

    from rocketfsck.engine.session import find_java, java_home

    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    log = tmp_path_factory.mktemp("connect") / "server.log"
    line = [str(home / "bin" / "spark-submit"), "--master", "local[2,4]", "--name", "connect"]
    line += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    line += [f"--conf={name}={value}" for name, value in conf.items()]
    environment = _clean_environment() | {
        "JAVA_HOME": str(java_home(find_java())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as stream:
        process = subprocess.Popen([*line, "spark-internal"], env=environment, stdout=stream, stderr=stream)
    try:
        wait_until(lambda: _answers(port) or process.poll() is not None, "the server answers")
        assert process.poll() is None, log.read_text("utf-8", "replace")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_a_check_through_connect(server: str, store_dir: Directory, tmp_path: Path) -> None:
    said = {}
    for name in ("local", "spark"):
        line = ["check", "--format", "csv", "--output", str(tmp_path / name), str(store_dir("5.3.3-killed"))]
        if name == "local":
            status = run(line)
        else:
            program = [sys.executable, "-m", "rocketfsck", *line, "--engine", "spark", "--master", server]
            done = subprocess.run(
                program, env=_clean_environment(), capture_output=True, text=True, check=False
            )
            assert "Traceback" not in done.stderr
            status = done.returncode
        said[name] = (status, (tmp_path / name).read_bytes())
    assert said["spark"] == said["local"]


ROWS = """
import sys
from pyspark.sql import SparkSession
from rocketfsck.pipeline import register
url, root = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
for registers in (False, True):  # the server finds it by itself, or the client sends it
    if registers:
        register(spark)
    reader = spark.read.format("rocketmq").option("columns", "topic, offset")
    print(reader.load(root).where("topic = 'Tx'").count())
print(spark.read.format("rocketmq").option("view", "topics").load(root).count())
spark.stop()
"""


def test_rows_through_connect(server: str, store_dir: Directory) -> None:
    program = [sys.executable, "-c", ROWS, server, str(store_dir("5.3.3-trans"))]
    done = subprocess.run(program, env=_clean_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["15", "15", "3"]), done.stderr


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
