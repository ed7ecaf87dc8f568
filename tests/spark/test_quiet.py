"""What is left of a session that rocketfsck opened: no stack on standard error, and no socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import Directory
from tests.spark.cluster import wait_until

pytest.importorskip("pyspark")

from rocketfsck.engine.daemon import print_unless_hung_up

pytestmark = pytest.mark.spark

SESSION = """
import sys
from pyspark.errors import PySparkException
from rocketfsck.engine.spark import open_session
whole, torn, sockets = sys.argv[1:]
spark = open_session("local[2]", conf={"spark.python.unix.domain.socket.dir": sockets})
frame = spark.read.format("rocketmq")
for options in ({"columns": "offset"}, {"columns": "*", "split_size": "4K"}):
    frame.options(**options).load(whole).show(2)
frame.load(whole).limit(3).collect()
try:
    frame.option("mode", "FAILFAST").load(torn).collect()
except PySparkException as error:
    print(str(error).strip().splitlines()[-1])
"""
"""As a command does, it ends without stopping the session."""


@pytest.mark.slow
def test_no_stack_and_no_socket_is_left(store_dir: Directory, restart_dir: Directory) -> None:
    torn = restart_dir("4.9.8-basic--torn-tail")
    with TemporaryDirectory(dir="/tmp") as sockets:  # the path of a socket must be short
        command = [sys.executable, "-c", SESSION, str(store_dir("4.9.8-multiseg")), str(torn), sockets]
        ran = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
        assert ran.returncode == 0, ran.stderr
        wait_until(lambda: not any(Path(sockets).iterdir()), "no socket is left", seconds=30)
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    said = ran.stdout.splitlines()[-1]
    assert said.startswith(
        f"rocketfsck.errors.StoreError: {torn}/commitlog/{0:020} at byte 49078: torn bytes"
    )


def test_only_a_broken_pipe_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (BrokenPipeError(), ValueError("another")):
        try:
            raise error
        except (BrokenPipeError, ValueError):
            print_unless_hung_up()
    shown = capsys.readouterr().err
    assert "BrokenPipeError" not in shown
    assert "ValueError: another" in shown
