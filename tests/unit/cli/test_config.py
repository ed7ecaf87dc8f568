"""Config files: which count, which goes over which, what they may set, and what they never can."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from rocketfsck.cli import config as config_options
from rocketfsck.cli.commands import COMMANDS
from rocketfsck.cli.config import SETTABLE, long_name, options_of, read_policy
from rocketfsck.verify.stopping import RulePolicy
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

DAMAGED = "5.1.3-basic--flip-last-file"  # CL004, a body with a wrong checksum
NEVER = {
    "assume", "commitlog-path", "config", "fault", "force", "help", "in-place", "into", "ledger", "no-config",
    "no-undo", "only", "outside", "output", "preen", "storage-option", "write-baseline", "yes",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a project's config file, in the directory in which commands run."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project" / "rocketfsck.toml"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's config file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "rocketfsck").mkdir(parents=True)
    return tmp_path / "home" / "rocketfsck" / "config.toml"


def checked(cli: Cli, *arguments: object) -> Any:
    return json.loads(cli("check", *arguments, "--format", "json").out)


def test_flag_environment_project_user(
    cli: Cli, project: Path, user: Path, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_dir("4.9.8-basic")
    assert checked(cli, store)["level"] == "full"
    user.write_text('[check]\nlevel = "cross"\njobs = 1\n')
    assert checked(cli, store)["level"] == "cross"
    project.write_text('[check]\nlevel = "quick"\n')
    assert checked(cli, store)["level"] == "quick"
    monkeypatch.setenv("ROCKETFSCK_CHECK_LEVEL", "full")
    assert checked(cli, store)["level"] == "full"
    assert checked(cli, store, "--level", "cross")["level"] == "cross"
    monkeypatch.delenv("ROCKETFSCK_CHECK_LEVEL")
    assert checked(cli, store, "--no-config")["level"] == "full"
    other = project.with_name("other.toml")
    other.write_text("")
    assert checked(cli, store, "--config", other)["level"] == "full"
    monkeypatch.setenv("ROCKETFSCK_CONFIG", str(other))
    assert checked(cli, store)["level"] == "full"
    monkeypatch.delenv("ROCKETFSCK_CONFIG")
    ended = cli("--config", project, "check", store, "--no-config", "--format", "json")
    assert json.loads(ended.out)["level"] == "full"
    ended = cli("--no-config", "check", store, "--config", project, "--format", "json")
    assert json.loads(ended.out)["level"] == "quick"
    assert cli("check", store, "--config", project, "--no-config").code == 16


def test_what_is_in_force_is_shown(
    cli: Cli, project: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('color = "never"\n[check]\nlevel = "cross"\n[fix]\nwork-dir = "/somewhere"\n')
    project.write_text('[check]\nlevel = "quick"\n[query]\nvia = "scan"\n[rules.CL004]\npreen = false\n')
    monkeypatch.setenv("ROCKETFSCK_CHECK_VERBOSE", "yes")
    ended = cli("config")
    assert ended.code == 0
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["project", str(project), "read"] in rows
    assert ["check", "level", '"quick"', str(project)] in rows
    assert ["check", "verbose", '"yes"', "ROCKETFSCK_CHECK_VERBOSE"] in rows
    assert ["all", "commands", "color", '"never"', str(user)] in rows
    assert ["CL004", "preen", "false", str(project)] in rows
    monkeypatch.setenv("ROCKETFSCK_CHECK_VERBOSE", "perhaps")
    assert "ROCKETFSCK_CHECK_VERBOSE: [check] verbose: is neither true nor false" in cli("config").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[check]\nlevl = "quick"\n', "[check] levl: there is no such option; did you mean 'level'?"),
        ('[chek]\nlevel = "quick"\n', "there is no command 'chek'; did you mean 'check'?"),
        ('colour = "never"\n', "colour: there is no such option; did you mean 'color'?"),
        ('check = "quick"\n', "check: there is no such option"),
        ('[check]\nlevel = "slow"\n', "[check] level: 'slow' is not one of 'quick', 'cross', 'full'"),
        ("[check]\nlevel = [1]\n", "[check] level: is not one value"),
        ("[check]\nlevel = 2020-01-01\n", "[check] level: is neither a text nor a number"),
        ("[check]\nignore = 1\n", "[check] ignore: is not a list"),
        ("[check]\njobs = true\n", "[check] jobs: is not a flag"),
        ("[check]\njobs = 0\n", "[check] jobs: 0 is not in the range"),
        ("[check]\nverbose = 3\n", "[check] verbose: is neither true nor false"),
        ("[fix]\nyes = true\n", "[fix] yes cannot be set in a file: give it on the command line"),
        ('[fix]\nwork-dir = "/x"\n', "[fix] work-dir cannot be set by a project"),
        ("rules = 1\n", "rules: there is no such option"),
        ("[rules]\nCL004 = 1\n", "[rules] CL004 is not a table"),
        ("[rules.CL0044]\npreen = false\n", "there is no rule 'CL0044'; did you mean 'CL004'?"),
        ("[rules.record-body-cr]\npreen = false\n", "did you mean 'record-body-crc'?"),
        ("[rules.CL004]\npren = false\n", "[rules.CL004] pren: there is no such key; did you mean 'preen'?"),
        ("[rules.CL004]\npreen = 0\n", "[rules.CL004] preen is not true or false"),
        ("[rules.CL004]\nmax_count = -1\n", "[rules.CL004] max_count is not a number, 0 or more"),
        ('[rules.CL004]\nseverity = "bad"\n', "[rules.CL004] severity is not one of info, warning, error"),
        ("[check\n", "is not TOML: "),
        ("\\xff", "is not TOML: "),
        ("a = " + "[" * 100_000, "is not TOML: "),
        ("#" * (1 << 20) + "\n", "is larger than a config file may be (1,048,576 bytes)"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(cli: Cli, project: Path, text: str, said: str) -> None:
    project.write_bytes(text.encode("latin-1").replace(b"\\xff", b"\xff"))
    ended = cli("config")
    assert (ended.code, ended.out) == (16, "")
    assert said in ended.err
    assert ended.err.startswith(f"Error: {project}")
    assert cli("config", "--no-config").code == 0
    assert cli("check", "--help").code == 0


def test_only_what_is_on_the_command_line_consents_and_writes() -> None:
    """No file and no variable names a store, a place to write, or agrees to anything."""
    found: dict[str, list[click.Option]] = {name: [] for name in SETTABLE}
    for command in ("", *COMMANDS):
        for name, options in options_of(command).items():
            assert all(isinstance(option, click.Option) and long_name(option) == name for option in options)
            found[name] += options
    assert [name for name, options in found.items() if not options] == []
    assert not NEVER & {*SETTABLE}


def test_no_variable_stands_for_a_store_or_consent(
    cli: Cli, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "torn"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)
    for name in ("CHECK_PATH", "FIX_PATH", "PATH"):
        monkeypatch.setenv(f"ROCKETFSCK_{name}", str(root))
    for name in ("FIX_YES", "YES", "FIX_PREEN"):
        monkeypatch.setenv(f"ROCKETFSCK_{name}", "1")
    assert cli("check").code == 16
    ended = cli("fix", root)
    assert (ended.code, ended.out) == (16, "")
    assert "there is no terminal" in ended.err


def test_a_store_does_not_configure_its_own_check(
    cli: Cli, restart_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Path(shutil.copytree(restart_dir(DAMAGED), tmp_path / "evidence" / "store"))
    policy = '[check]\nignore = ["CL004"]\n'
    (store / "rocketfsck.toml").write_text(policy)
    (store / "consumequeue" / "rocketfsck.toml").write_text(policy)
    for place in (store, store / "consumequeue"):
        monkeypatch.chdir(place)
        ended = cli("check", store)
        assert ended.code == 4
        assert ended.err == f"Note: {place / 'rocketfsck.toml'} is not read: the file is inside a store.\n"
    monkeypatch.chdir(store.parent)
    (store.parent / "rocketfsck.toml").write_text(policy)
    assert cli("check", "store").code == 0  # the project's own file, beside the store
    refused = cli("count", ".")
    assert (refused.code, refused.out) == (16, "")
    assert "is inside ., which must not say how it is checked" in refused.err
    assert cli("count", ".", "--no-config").code == 0


def test_the_file_of_another_user_is_not_read(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text("nonsense")
    owner = project.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    if owner == 0:
        os.chown(project, 12345, -1)
    ended = cli("config")
    assert ended.code == 0
    assert f"{project} is not read: the file belongs to another user" in ended.err


def test_what_is_no_file_is_refused(cli: Cli, project: Path) -> None:
    os.mkfifo(project)
    assert "is not a file" in cli("config").err
    project.unlink()
    project.mkdir()
    assert cli("config").code == 16
    assert "cannot be read" in cli("check", ".", "--config", project / "none.toml").err


@pytest.mark.usefixtures("project")
def test_without_a_home_there_is_no_user_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert [file.kind for file in config_options.find_files(None)] == ["project"]


def test_the_policy_of_a_rule_is_about_reporting(cli: Cli, project: Path, restart_dir: Directory) -> None:
    store = restart_dir(DAMAGED)
    before = checked(cli, store)
    assert before["exit_code"] == 4
    project.write_text('[rules.record-body-crc]\nseverity = "info"\n')
    after = checked(cli, store)
    assert (after["exit_code"], after["severities"]) == (0, {"CL004": "info"})
    assert [f["severity"] for f in after["findings"] if f["rule"] == "CL004"] == ["info"]
    assert after["verdict"] == before["verdict"]
    assert "CL004 record-body-crc (1; info by your config)" in cli("check", store).out
    for form, words in (("csv", ",info,"), ("openmetrics", 'severity="info"')):
        lines = [line for line in cli("check", store, "--format", form).out.splitlines() if "CL004" in line]
        assert [words in line for line in lines] == [True]
    (run,) = json.loads(cli("check", store, "--format", "sarif").out)["runs"]
    assert [item["level"] for item in run["results"] if item["ruleId"] == "CL004"] == ["note"]
    project.write_text("[rules.CL004]\nmax_count = 0\n")
    after = checked(cli, store)
    assert (after["exit_code"], after["counts"]["CL004"], after["withheld"]) == (4, 1, 1)
    assert "CL004" not in {finding["rule"] for finding in after["findings"]}
    report = project.with_name("report.json")
    cli("check", store, "--format", "json", "-o", report)
    assert "made with a max_count in a config file" in cli("plan", store, "--report", report).err
    project.write_text("[rules.CL004]\nignore = true\n")
    after = checked(cli, store)
    assert (after["exit_code"], "CL004" in after["counts"]) == (0, False)
    project.write_text('[rules.IX028]\nseverity = "error"\n')
    assert checked(cli, store)["severities"] == {"IX028": "error"}


def test_no_policy_changes_what_is_planned_but_preening(
    cli: Cli, project: Path, store_dir: Directory, tmp_path: Path
) -> None:
    root = tmp_path / "torn"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)

    def planned(*options: str) -> Any:
        return json.loads(cli("plan", root, "--format", "json", *options).out)

    whole, safe = planned(), planned("--preen")
    rule = next(rule for action in safe["actions"] for rule in action["rules"])
    every = {rule for action in whole["actions"] for rule in action["rules"]}
    project.write_text(
        "".join(
            f'[rules.{name}]\nseverity = "info"\nmax_count = 0\nignore = true\npreen = true\n'
            for name in every
        )
    )
    assert (planned(), planned("--preen")) == (whole, safe)
    project.write_text(f"[rules.{rule}]\npreen = false\n")
    assert planned() == whole
    less = planned("--preen")
    assert [action for action in less["actions"] if rule in action["rules"]] == []
    reasons = [item["reason"] for item in less["unanswered"] if item["rule"] == rule]
    assert reasons == [f"left out: your config keeps --preen from what answers {rule}"] * len(reasons)
    fixed = json.loads(cli("fix", root, "-p", "--format", "json").out)
    assert [action["name"] for action in fixed["plan"]["actions"]] == [
        action["name"] for action in less["actions"]
    ]


def test_files_are_merged_key_by_key(project: Path, user: Path) -> None:
    user.write_text('[rules.CL004]\nseverity = "info"\nmax_count = 3\n')
    project.write_text('[rules.cl004]\nseverity = "warning"\n')
    policy, origins = read_policy(config_options.find_files(None))
    assert policy == {"CL004": RulePolicy(severity="warning", max_count=3)}
    assert origins == {"CL004.severity": str(project), "CL004.max_count": str(user)}


def test_what_is_before_the_command_goes_over_a_file(cli: Cli, project: Path) -> None:
    project.write_text('color = "always"\n')
    assert "\x1b[" in cli("explain", "CL004").out
    assert "\x1b[" not in cli("--color", "never", "explain", "CL004").out
    assert "\x1b[" not in cli("explain", "CL004", "--color", "never").out
    assert "\x1b[" not in cli("--no-config", "explain", "CL004").out
