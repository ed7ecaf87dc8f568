"""What builds this project: the lock file, the hooks and the editor's settings say what the Makefile does."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK_FILES = ("constraints.txt", "builders.txt")
HASHED = re.compile(
    r"^(\S.*?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)(?:    # via .*\n)?", re.MULTILINE
)


def _requirements(name: str) -> list[Requirement]:
    """What a lock file names, each with the hashes of its files."""
    text = (ROOT / name).read_text("utf-8")
    assert re.fullmatch(r"(#.*\n)*", HASHED.sub("", text)), "something has no hash"
    return [Requirement(found[1]) for found in HASHED.finditer(text)]


LOCKED = _requirements("constraints.txt")
PYTHONS = [line.split()[-1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
"""The versions of Python that are supported."""


def _prerequisites(target: str) -> list[str]:
    (found,) = re.findall(rf"^{target}: (?!.*:=)([^#\n]*)", MAKEFILE, re.MULTILINE)
    return str(found).split()


def _locked(python: str) -> dict[str, Requirement]:
    """What is installed on Linux with this Python."""
    machine = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "platform_system": "Linux",
    }
    return {
        canonicalize_name(one.name): one
        for one in LOCKED
        if one.marker is None or one.marker.evaluate(machine)
    }


@pytest.mark.parametrize("name", LOCK_FILES)
def test_a_lock_file_gives_one_version_with_its_hashes_and_no_place(name: str) -> None:
    """An address would bind an installation to one registry."""
    found = _requirements(name)
    assert len(found) > (100 if name == "constraints.txt" else 4)
    assert [one for one in found if one.url or [part.operator for part in one.specifier] != ["=="]] == []
    assert re.findall(r"https?:|--(?!hash=)[\w-]+|file:", (ROOT / name).read_text("utf-8")) == []


def test_the_lock_files_agree() -> None:
    assert {str(one) for one in _requirements("builders.txt")} <= {str(one) for one in LOCKED}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_file_has_what_the_project_asks_for(python: str) -> None:
    """Run `make lock` after a change of the dependencies."""
    locked = _locked(python)
    extras = chain.from_iterable(PROJECT["optional-dependencies"].values())
    asked = [Requirement(text) for text in (*PROJECT["dependencies"], *extras)]
    assert len(asked) > 20
    unmet = []
    for wanted in asked:
        found = locked.get(canonicalize_name(wanted.name))
        version = next(iter(found.specifier)).version if found else ""
        if wanted.name != "rocketfsck" and not (version and wanted.specifier.contains(version)):
            unmet.append((str(wanted), version))
    assert unmet == []


def test_the_virtualenv_is_built_from_the_lock_file() -> None:
    (built,) = re.findall(r"^\$\(STAMP\):.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert re.findall(r"pip install (.*)", str(built)) == [
        "$(LOCKED) --requirement builders.txt",
        "$(LOCKED) --requirement constraints.txt",
        "--quiet --no-deps --no-build-isolation --editable .",
    ]
    (locked,) = re.findall(r"^LOCKED +:= (.*)", MAKEFILE, re.MULTILINE)
    assert locked == "--quiet --require-hashes --no-deps --no-build-isolation"
    builders = re.findall(r"^BUILDERS := (.*)", MAKEFILE, re.MULTILINE)[0].split()
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert {Requirement(text).name for text in needed} <= {*builders}
    assert {*builders} <= {one.name for one in _requirements("builders.txt")}


def test_the_hooks_are_the_checks_of_ci() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    run = re.findall(r"^ +entry: make --silent (\w+)$", hooks, re.MULTILINE)
    assert len(run) == hooks.count("- id:")
    assert run == ["lint", "types", "imports"]
    assert set(run) <= set(_prerequisites("checks"))


def test_ci_runs_every_check_and_every_suite() -> None:
    (recipe,) = re.findall(r"^test: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    made = re.findall(r"\$\(MAKE\) \$\(BESIDE\) (.+)$", str(recipe), re.MULTILINE)
    assert made == ["checks", "--keep-going suites"]
    assert _prerequisites("checks") == [
        *("types", "collected", "lint", "imports", "kaitai", "browser", "classpaths")
    ]
    assert _prerequisites("suites") == ["unit", "spark", "oracle"]


def test_editors_wrap_where_ruff_does() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    assert f"max_line_length = {settings['line-length']}\n" in (ROOT / ".editorconfig").read_text("utf-8")


def test_every_package_has_a_bar_of_coverage() -> None:
    (strict,), (others,), (bar,) = (
        re.findall(rf"^{name} := (.*)", MAKEFILE, re.MULTILINE) for name in ("STRICT", "OTHERS", "STRICT_BAR")
    )
    bars = dict.fromkeys(strict.split(), bar) | dict(item.split(":") for item in others.split())
    assert bars.keys() == {path.parent.name for path in (ROOT / "src" / "rocketfsck").glob("*/__init__.py")}
    assert min(map(int, bars.values())) >= 90
