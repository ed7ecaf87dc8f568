"""Start-up, help, exit statuses: what a shell sees before any command does its work."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from rocketfsck import __version__
from rocketfsck.cli.base import EXIT_STATUS
from rocketfsck.cli.commands import COMMANDS, GROUPS, KNOWN_ELSEWHERE, PLUMBING, explain

from tests.conftest import NIGHTLY
from tests.unit.cli.conftest import Cli

Store = Callable[[str], Path]
PROGRAM = [sys.executable, "-c", "from rocketfsck.cli import main; main()"]


def _run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_every_help_ends_with_the_exit_statuses(cli: Cli, command: list[str]) -> None:
    ended = cli(*command, "--help")
    assert ended.code == 0
    tail = ended.out.rstrip().splitlines()[-len(EXIT_STATUS) - 1 :]
    assert tail[0] == "Exit status, the sum of:"
    assert [int(line.split()[0]) for line in tail[1:]] == [0, 1, 2, 4, 8, 16, 32, 128]


def test_help_lists_what_the_commands_say(cli: Cli) -> None:
    out = cli("--help").out
    for commands in GROUPS.values():
        for name, line in commands.items():
            assert f"{name} " in out
            assert line in out
    assert f"Also: {', '.join(PLUMBING)}." in out


def test_options_of_every_command_are_one_line_of_its_help(cli: Cli) -> None:
    for words in ([], ["query"], ["check"], ["undo"]):
        short, long = cli(*words, "--help"), cli(*words, "--help-all")
        assert (short.code, long.code) == (0, 0)
        assert "Every command has --config, --no-config" in short.out
        assert "--progress-fd N" not in short.out
        assert "--progress-fd N" in long.out
        assert "Every command has" not in long.out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["fsck", "a", "b c"], "Try: rocketfsck check a 'b c'"),
        (["Repair"], "Try: rocketfsck fix"),
        (["report", "--by", "day"], "Try: rocketfsck count --by day"),
        (["."], "To check that store: rocketfsck check ."),
        (["s3://bucket/store", "-v"], "To check that store: rocketfsck check s3://bucket/store -v"),
    ],
)
def test_who_types_something_else_gets_the_command(cli: Cli, words: list[str], hint: str) -> None:
    ended = cli(*words)
    assert (ended.code, ended.out) == (16, "")
    assert ended.err.endswith(f"{hint}\n")


def test_hints_lead_to_commands(cli: Cli) -> None:
    assert not KNOWN_ELSEWHERE.keys() & COMMANDS.keys()
    for command in {*KNOWN_ELSEWHERE.values()}:
        assert command in COMMANDS or cli(command).code == 0


def test_version(cli: Cli) -> None:
    assert cli("--version").out == cli("-V").out == f"rocketfsck, version {__version__}\n"


HEAVY = ("numpy", "construct", "rich", "pyarrow", "numba", "dataclasses")


def test_help_imports_click_only() -> None:
    code = (
        "import sys; from rocketfsck.cli.app import run; code = run(['--help']);"
        f"print(code, [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "0 []\n"


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("info", "{store}/checkpoint"), ("numpy", "rich", "pyarrow", "numba")),
        (("info", "{store}"), ("rich", "pyarrow", "numba")),
        (("dump", "{store}/checkpoint"), ("numpy", "rich", "pyarrow", "numba")),
        (("dump", "{store}/commitlog"), ("rich", "pyarrow", "numba")),
        (("explain", "CL001"), ("rich", "pyarrow", "numba")),  # its repairs are read off their table
    ],
)
def test_commands_import_what_they_need(
    store_dir: Store, arguments: Sequence[str], unwanted: Sequence[str]
) -> None:
    store = store_dir("5.3.3-basic")
    filled = [argument.format(store=store) for argument in arguments]
    code = (
        f"import sys; from rocketfsck.cli.app import run; code = run({filled!r});"
        f"print(code, [name for name in {tuple(unwanted)} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "0 []\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nonsense"], 16, "No such command 'nonsense'"),
        (["dmup", "x"], 16, "Did you mean 'dump'?"),
        (["info"], 16, "Missing argument"),
        (["info", "--format", "xml", "x"], 16, "'xml' is not one of"),
        (["explain", "ZZ999"], 16, "no rule, fault class or repair has the name"),
        (["info", "/nonexistent"], 8, "/nonexistent: cannot be opened"),
        (["dump", "/nonexistent"], 8, "/nonexistent"),
        (["check", "/nonexistent"], 8, "/nonexistent: cannot be listed"),
        (["info", "/dev/zero"], 8, "/dev/zero: is a character device"),
    ],
)
def test_exit_statuses(cli: Cli, arguments: list[str], code: int, said: str) -> None:
    ended = cli(*arguments)
    assert ended.code == code
    assert said in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


def _raising(error: BaseException) -> Callable[..., NoReturn]:
    def raise_it(**_options: object) -> NoReturn:
        raise error

    return raise_it


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 32, "Cancelled.\n"),
        (ZeroDivisionError("all\x1b[31m wrong"), 128, "ZeroDivisionError: all\\x1b[31m wrong\n"),
        (EOFError("Ran out of input"), 128, "RuntimeError: unexpected end of data: Ran out of input\n"),
        (MemoryError(), 8, "Error: out of memory.\n"),
        (PermissionError(13, "Permission denied", "/some\nwhere"), 8, "/some\\nwhere: Permission denied"),
    ],
)
def test_other_ends(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(explain.explain_command, "callback", _raising(error))
    ended = cli("explain")
    assert ended.code == code
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_internal_error_asks_for_a_report_and_debug_shows_the_traceback(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain.explain_command, "callback", _raising(ZeroDivisionError("x")))
    assert "--debug" in cli("explain").err
    for command in (["explain", "--debug"], ["--debug", "explain"]):
        ended = cli(*command)
        assert ended.code == 128
        assert ended.err.startswith("Traceback (most recent call last):\n")
        assert "ZeroDivisionError: x\n" in ended.err
    monkeypatch.undo()
    stated = cli("info", "/nonexistent", "--debug")
    assert stated.code == 8
    assert "Traceback" in stated.err


def test_output_that_the_terminal_cannot_show(store_dir: Store) -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [*PROGRAM, "info", "-v", str(store_dir("5.3.3-basic"))], capture_output=True, check=False, env=env
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"\\u4e3b\\u9898-Gamma" in ended.stdout


def test_reader_gone_is_quiet(store_dir: Store) -> None:
    path = store_dir("4.9.8-multiseg") / "commitlog"
    with subprocess.Popen(
        [*PROGRAM, "dump", "--hex", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (32, b"")


def test_no_command_shows_what_there_is(cli: Cli) -> None:
    ended = cli()
    assert (ended.code, ended.out) == (16, "")
    assert ended.err == cli("--help").out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["dump", "{store}"], ["dump", "--format=arrow", "{store}"]]
)
@pytest.mark.parametrize("closing", [">&-", ">/dev/full"])
def test_output_that_cannot_be_written(store_dir: Store, arguments: list[str], closing: str) -> None:
    filled = [argument.format(store=store_dir("4.9.8-multiseg") / "commitlog") for argument in arguments]
    ended = subprocess.run(
        f"{shlex.join([*PROGRAM, *filled])} {closing}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 8
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1


def test_closed_standard_error_changes_nothing(store_dir: Store) -> None:
    command = f"{shlex.join([*PROGRAM, 'check', str(store_dir('5.3.3-trans'))])} 2>&-"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stdout.startswith("Healthy: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(cli: Cli, shell: str) -> None:
    ended = cli("completion", shell)
    assert ended.code == 0
    assert "_ROCKETFSCK_COMPLETE" in ended.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rocketfsck exp", ["explain", "export"]),
        ("rocketfsck explain ix00", [f"IX00{number}" for number in range(1, 10)]),
        ("rocketfsck explain index-chain-c", ["index-chain-cycle", "index-chain-cross-link"]),
    ],
)
def test_completion_completes(words: str, expected: list[str]) -> None:
    program = [sys.executable, "-c", "from rocketfsck.cli import main; main()"]
    env = os.environ | {
        "_ROCKETFSCK_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    ended = subprocess.run(program, capture_output=True, text=True, check=False, env=env)
    assert ended.stdout.split() == [f"plain,{word}" for word in expected]
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("options", "env", "colored"),
    [
        ((), {}, False),
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {}, False),
    ],
)
def test_color(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    env: dict[str, str],
    colored: bool,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in cli("explain", "CL001", *options).out) is colored
    assert ("\x1b[" in cli(*options, "explain", "CL001").out) is colored


def test_color_on_a_terminal() -> None:
    import pty

    def shown(**env: str) -> bytes:
        master, slave = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        subprocess.run(
            [*PROGRAM, "explain", "CL001"], stdout=slave, check=True, env=clean | {"TERM": "xterm"} | env
        )
        os.close(slave)
        data = os.read(master, 1 << 16)
        os.close(master)
        return data

    assert b"\x1b[1m" in shown()
    assert b"\x1b[" not in shown(NO_COLOR="1")
    assert b"\x1b[" not in shown(TERM="dumb")


WITHOUT = """
import sys
from rocketfsck.cli.app import run
for name in ("pyarrow", "numba", "llvmlite"):
    sys.modules[name] = None
sys.exit(run(sys.argv[1:]))
"""


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a Python that has what a plain install brings."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False
    )


def test_what_gives_no_arrow_needs_none(store_dir: Store, tmp_path: Path) -> None:
    store = str(store_dir("5.3.3-basic"))
    asked = [
        ("check", store, "--report", str(tmp_path / "page.html")),
        ("query", "scan", store, "queue_id == 0"),
        ("rebuild", "all", store, "--into", str(tmp_path / "built")),
        ("write", "--synth", "plain", "--messages", "50", "--into", str(tmp_path / "made")),
    ]
    if NIGHTLY:
        asked += [
            ("plan", store),
            ("info", store),
            ("dump", store, "--kind", "all"),
            ("query", "offsets", store),
            ("find", store, "k1"),
            ("simulate", store),
            ("compare", store, store),
            ("salvage", store, "--into", str(tmp_path / "saved")),
        ]
    for arguments in asked:
        ended = without_extras(*arguments)
        assert ended.returncode in (0, 4), (arguments, ended.stderr)
        assert "Error" not in ended.stderr, arguments


def test_what_gives_arrow_says_what_it_needs(store_dir: Store, tmp_path: Path) -> None:
    store = str(store_dir("5.3.3-basic"))
    for arguments in (("dump", store, "--format", "arrow"), ("export", store, "--into", str(tmp_path / "e"))):
        ended = without_extras(*arguments)
        assert ended.returncode == 16
        assert ended.stderr.splitlines()[-1] == (
            "Error: this needs pyarrow, which is not installed: run pip install pyarrow"
        )
