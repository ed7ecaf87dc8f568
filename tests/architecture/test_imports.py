"""Which way imports go, and what is imported before anybody needs it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import Directory

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "rocketfsck"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
assert len(MODULES) > 100, "or the tests below look at nothing"

HOMES = {
    # whoever imports the left when it is imported itself, wherever in the module, is in the right
    "numba": ("scan/",),
    "llvmlite": ("scan/",),
    "construct": ("formats/",),
    "click": ("cli/",),
    "rich": ("cli/",),
    "pytest": ("testing/",),
    "hypothesis": ("testing/",),
    "pyspark": ("engine/daemon.py", "engine/session.py", "engine/spark.py", "pipeline/"),
}
ARROW = ("cli/arrow.py", "scan/views/arrow.py", "writer/", "pipeline/", "engine/", "testing/")
"""Where pyarrow, whose import costs more than all of ours, is imported at once: modules of Arrow data, which
are imported late themselves."""

LIGHT = ("numba", "llvmlite", "pyarrow", "pyspark", "rich", "hypothesis", "pytest")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / module).read_text("utf-8"), module)


def _imported(nodes: Sequence[ast.stmt], *, inside: bool) -> Iterator[str]:
    """Names of what statements import when they are run; with `inside` in functions, too. Not for types."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _imported(node.orelse, inside=inside)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inside:
            continue
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _imported(getattr(node, name, None) or [], inside=inside)
            for handler in getattr(node, "handlers", ()):
                yield from _imported(handler.body, inside=inside)


def _packages(module: str, *, inside: bool) -> set[str]:
    return {name.split(".")[0] for name in _imported(_tree(module).body, inside=inside)}


def test_the_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 broken" in ended.stdout


def test_a_contract_that_is_broken_is_seen(tmp_path: Path) -> None:
    """The contracts can fail: a store that judges is refused."""
    config = (ROOT / "pyproject.toml").read_text("utf-8")
    start = config.index("[tool.importlinter]")
    package = tmp_path / "rocketfsck"
    for name in ("", "cli", "common", "testing", "repair", "verify", "query", "writer", "reader", "scan",
                 "store", "engine", "formats", "page", "pipeline"):  # fmt: skip
        (package / name).mkdir(exist_ok=True)
        (package / name / "__init__.py").touch()
    (package / "errors.py").touch()
    for name in ("api", "storedmessage", "opened", "progress"):
        (package / f"{name}.py").touch()
    (package / "pipeline" / "fleet").mkdir()
    for name in ("__init__", "run"):
        (package / "pipeline" / "fleet" / f"{name}.py").touch()
    (package / "__init__.py").write_text(
        "import rocketfsck.api, rocketfsck.opened, rocketfsck.pipeline.fleet.run, rocketfsck.storedmessage\n"
    )
    (package / "store" / "__init__.py").write_text("import rocketfsck.verify\n")
    (tmp_path / "pyproject.toml").write_text(config[start:])
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [linter, "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "layers BROKEN" in ended.stdout, ended.stdout + ended.stderr


def test_libraries_stay_at_home() -> None:
    strayed = [
        (module, package)
        for module in MODULES
        for package in sorted(_packages(module, inside=True) & HOMES.keys())
        if not module.startswith(HOMES[package])
    ]
    assert strayed == []


def test_arrow_is_imported_late() -> None:
    early = [module for module in MODULES if "pyarrow" in _packages(module, inside=False)]
    assert [module for module in early if not module.startswith(ARROW)] == []
    assert early  # or this test looks at nothing


def test_no_private_name_of_another_module() -> None:
    private = [
        (module, f"{node.module}.{alias.name}")
        for module in MODULES
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rocketfsck")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert private == []


def _loaded(*arguments: str) -> list[str]:
    """Which of the libraries a command line leaves imported; it must end well."""
    code = (
        "import sys; from rocketfsck.cli.app import run; code = run(sys.argv[1:]);"
        f"print(code, *[name for name in {LIGHT} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    status, *names = ended.stderr.split()
    assert status == "0", ended.stderr
    return names


SMALL = (
    "commitlog/00000000000000000000",
    "consumequeue/{topic}/0/00000000000000000000",
    "index/{index}",
    "checkpoint",
    "config/topics.json",
)


@pytest.mark.parametrize("options", [[], ["--hex", "--limit", "2"]], ids=["plain", "hex"])
@pytest.mark.parametrize("place", SMALL)
def test_a_small_file_is_shown_without_heavy_libraries(
    store_dir: Directory, place: str, options: list[str]
) -> None:
    store = store_dir("5.3.3-basic")
    topic = next(
        path.name for path in sorted((store / "consumequeue").iterdir()) if (path / "0" / ("0" * 20)).exists()
    )
    file = store / place.format(topic=topic, index=min((store / "index").iterdir()).name)
    assert _loaded("dump", str(file), *options) == []
    assert _loaded("info", str(file)) == []


def test_help_info_and_explain_without_heavy_libraries(store_dir: Directory) -> None:
    for arguments in (
        ["--help"],
        ["check", "--help"],
        ["explain", "CL001"],
        ["info", str(store_dir("5.3.3-basic"))],
    ):
        assert _loaded(*arguments) == []
