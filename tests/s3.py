"""A server of the S3 protocol in this process, and stores put into it or into fsspec's memory."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from rocketfsck.store.places import urls

KEY, SECRET = "AKIATESTTESTTEST0001", "a-secret-that-is-shown-nowhere"


@contextmanager
def s3_server() -> Iterator[str]:
    """The server's URL while it runs; whoever asks it is told by the environment who he is."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    with _stated(f"http://{host}:{port}") as url:
        yield url
        server.stop()


@contextmanager
def s3_server_apart() -> Iterator[str]:
    """Such a server in a process of its own: deltalake waits for answers while it holds Python's lock."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with subprocess.Popen([sys.executable, "-c", _APART], stdin=PIPE, stdout=PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with _stated(server.stdout.readline().strip()) as url:
            yield url
        server.stdin.close()


_APART = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def _stated(url: str) -> Iterator[str]:
    names = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        # A file system is connected once a process; that of an earlier server has the same name.
        patch.setattr(urls, "_systems", {})
        yield url


def s3_client(endpoint: str) -> Any:
    """A client of such a server, with one bucket there: `bucket`."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="bucket")
    return client


def files_of(root: Path) -> Mapping[str, bytes]:
    """The bytes of all files below a directory, by relative path."""
    return {
        os.path.relpath(os.path.join(folder, name), root): Path(folder, name).read_bytes()  # noqa: PTH118
        for folder, _, names in os.walk(root)
        for name in names
    }
