"""`spark-submit`, and how the package gets to executors: as an archive, packed, or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.engine.archive import write_archive
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.spark.cluster import Cluster

pytestmark = [pytest.mark.spark]

NAME = "5.3.3-killed"


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has what rocketfsck needs, and rocketfsck only if it is brought along."""
    program = tmp_path_factory.mktemp("bare") / "python"
    packages = sysconfig.get_path("purelib")
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return str(program)


def _expected(root: Path, folder: Path) -> tuple[int, bytes]:
    output = folder / "local.csv"
    return run(["check", "--format", "csv", "--output", str(output), str(root)]), output.read_bytes()


def _check(root: Path, output: Path) -> list[str]:
    return ["check", "--format", "csv", "--output", str(output), str(root)]


@pytest.mark.parametrize("kernels", ["plain", pytest.param("compiled", marks=pytest.mark.nightly)])
def test_the_archive_is_all_that_travels(
    cluster: Cluster, bare_python: str, store_dir: Directory, tmp_path: Path, kernels: str
) -> None:
    """Neither the driver's Python nor the executors' has the package but from `--py-files`."""
    archive, script = write_archive(tmp_path / "zip")
    output, cache = tmp_path / "spark.csv", tmp_path / "cache"
    conf = {
        "spark.submit.pyFiles": str(archive),
        "spark.executorEnv.ROCKETFSCK_CACHE_DIR": str(cache),
        "spark.executorEnv.ROCKETFSCK_KERNELS": kernels,
        "spark.app.name": "as it was given",
    }
    pythons = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": bare_python, "PYTHONPATH": ""}
    done = cluster.submitted(*_check(store_dir(NAME), output), script=script, conf=conf, **pythons)
    assert (done.returncode, output.read_bytes()) == _expected(store_dir(NAME), tmp_path), done.stderr
    assert "as it was given" in cluster.log("master")
    kept = [path for path in cache.rglob("*.nbc") if path.parent.name.startswith("sources_")]
    assert bool(kept) == (kernels == "compiled")  # compiled from the archive, and kept


ROWS = """
import sys
from pyspark.sql import SparkSession
from rocketfsck.pipeline import register
root, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
register(spark)
messages = spark.read.format("rocketmq").load(root)
topics = messages.groupBy("topic").count().orderBy("topic").collect()
open(output, "w").write(repr([tuple(row) for row in topics]))
spark.stop()
"""


def _counted(root: Path) -> str:
    counts = Counter(message.topic for message in iter_messages(open_store(root), live_only=True))
    return repr(sorted(counts.items()))


def test_rows_by_py_files(cluster: Cluster, bare_python: str, store_dir: Directory, tmp_path: Path) -> None:
    """The data source, which the archive alone brings to the driver and the executors."""
    archive, _ = write_archive(tmp_path / "zip")
    script, output = tmp_path / "job.py", tmp_path / "rows"
    script.write_text(ROWS)
    pythons = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": bare_python, "PYTHONPATH": ""}
    conf = {"spark.submit.pyFiles": str(archive)}
    done = cluster.submitted(str(store_dir(NAME)), str(output), script=script, conf=conf, **pythons)
    assert done.returncode == 0, done.stderr
    assert output.read_text() == _counted(store_dir(NAME))


PACKED = (
    *("construct", "click", "isal", "llvmlite", "llvmlite.libs", "msgspec", "numba", "numpy", "numpy.libs"),
    *("pandas", "pandas.libs", "pyarrow", "pyarrow.libs", "dateutil", "pytz", "tzdata", "six.py"),
)
"""What a job imports: as files of this environment, which as a whole would be packed for minutes."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The Python of an environment that a user would make for a job, and venv-pack's archive of it."""
    venv_pack = pytest.importorskip("venv_pack")
    prefix = tmp_path_factory.mktemp("packed") / "job"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    (into,) = prefix.glob("lib/python*/site-packages")
    here = Path(sysconfig.get_path("purelib"))
    sources = [here / name for name in PACKED] + sorted(here.glob("*.dist-info"))
    package = Path(rocketfsck.__file__).parent
    for source in [*sources, package, package.with_name("pyspark_rocketmq")]:
        if source.is_dir():
            shutil.copytree(source, into / source.name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        elif source.exists():
            shutil.copy(source, into)
    archive = prefix.with_name("job.tar.gz")
    venv_pack.pack(prefix=str(prefix), output=str(archive), compress_level=1)
    return prefix / "bin" / "python", archive


def _of_packed(python: Path, archive: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Settings and environment of a job by which driver and executors have that environment alone."""
    pythons = {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": str(python)}
    return {"spark.archives": f"{archive}#environment"}, {**pythons, "PYTHONPATH": ""}


@pytest.mark.nightly
def test_a_packed_environment(
    cluster: Cluster, packed: tuple[Path, Path], store_dir: Directory, tmp_path: Path
) -> None:
    """venv-pack's archive, unpacked by Spark where an executor works."""
    output = tmp_path / "spark.csv"
    conf, environment = _of_packed(*packed)
    script = Path(rocketfsck.__file__).with_name("__main__.py")
    done = cluster.submitted(*_check(store_dir(NAME), output), script=script, conf=conf, **environment)
    assert (done.returncode, output.read_bytes()) == _expected(store_dir(NAME), tmp_path), done.stderr


@pytest.mark.nightly
def test_rows_in_a_packed_environment(
    cluster: Cluster,
    packed: tuple[Path, Path],
    store_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A data source is planned next to the driver by the Python of workers: it is unpacked there, too."""
    script, output = tmp_path / "job.py", tmp_path / "rows"
    script.write_text(ROWS)
    python, archive = packed
    (tmp_path / "environment").symlink_to(python.parents[1])
    monkeypatch.chdir(tmp_path)
    conf, environment = _of_packed(python, archive)
    done = cluster.submitted(str(store_dir(NAME)), str(output), script=script, conf=conf, **environment)
    assert done.returncode == 0, done.stderr
    assert output.read_text() == _counted(store_dir(NAME))


@pytest.mark.nightly
def test_submitted_without_a_cluster(store_dir: Directory, tmp_path: Path) -> None:
    """The master and the settings are those of spark-submit; `--master` beside them is refused."""
    import pyspark

    from rocketfsck.engine.session import find_java, java_home

    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1,3]"]
    script, output = str(Path(rocketfsck.__file__).with_name("__main__.py")), tmp_path / "spark.csv"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment = clean | {"JAVA_HOME": str(java_home(find_java())), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*submit, script, *_check(store_dir(NAME), output)], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, output.read_bytes()) == _expected(store_dir(NAME), tmp_path), done.stderr
    refused = subprocess.run(
        [*submit, script, "check", "--master", "local[2]", str(store_dir(NAME))],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "spark-submit has already set the master" in refused.stdout + refused.stderr  # it joins the two
    assert refused.returncode != 0


@pytest.mark.nightly
def test_executors_without_the_package(cluster: Cluster, bare_python: str, store_dir: Directory) -> None:
    done = cluster.command("check", str(store_dir(NAME)), PYSPARK_PYTHON=bare_python, PYTHONPATH="")
    assert done.returncode == 16
    assert "cannot run rocketfsck: it has no rocketfsck" in done.stderr
    _no_stacks(done)


@pytest.mark.nightly
def test_executors_with_another_version(
    cluster: Cluster, bare_python: str, store_dir: Directory, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(rocketfsck.__file__).parent, other / "rocketfsck")
    (other / "rocketfsck" / "__init__.py").write_text('__version__ = "0.0.9"\n')
    done = cluster.command(
        "check",
        str(store_dir(NAME)),
        "--spark-conf",
        f"spark.executorEnv.PYTHONPATH={other}",
        PYSPARK_PYTHON=bare_python,
        PYTHONPATH="",
    )
    assert done.returncode == 16
    assert f"the executor has version 0.0.9, but the driver {rocketfsck.__version__}" in done.stderr
    _no_stacks(done)


@pytest.mark.nightly
def test_executors_with_another_python(cluster: Cluster, store_dir: Directory, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "kind = collections.namedtuple('version_info', 'major minor micro releaselevel serial')\n"
        "sys.version_info = kind(3, 99, 0, 'final', 0)\n"
    )
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    done = cluster.command("check", str(store_dir(NAME)), PYSPARK_PYTHON=str(program))
    assert done.returncode == 16
    assert "executors and driver run different versions of Python" in done.stderr
    assert "3.99" in done.stderr
    _no_stacks(done)


@pytest.mark.nightly
def test_executors_with_no_python(cluster: Cluster, store_dir: Directory, tmp_path: Path) -> None:
    done = cluster.command("check", str(store_dir(NAME)), PYSPARK_PYTHON=str(tmp_path / "python3.99"))
    assert done.returncode == 16
    assert "python3.99: set PYSPARK_PYTHON" in done.stderr
    _no_stacks(done)


@pytest.mark.nightly
def test_a_path_that_is_not_whole(cluster: Cluster, store_dir: Directory) -> None:
    root = store_dir(NAME)
    done = subprocess.run(
        cluster.line("check", root.name),
        env=cluster.environment,
        cwd=root.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 16
    assert f"give the absolute path: {root}" in done.stderr


def _no_stacks(done: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in done.stdout + done.stderr
    assert "\tat " not in done.stdout + done.stderr
