"""Which language a command line speaks, and what is the same in every language."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.cli.lang import chosen_language, is_translating, said_line, said_row, speak
from rocketfsck.cli.show.text import LineStream, fit, width, wrapped

from tests.conftest import Directory


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    speak("en")


@pytest.mark.parametrize(
    ("arguments", "environment", "language"),
    [
        ([], {}, "en"),
        ([], {"LANG": "zh_CN.UTF-8"}, "zh"),
        ([], {"LANG": "zh"}, "zh"),
        ([], {"LANG": "zha_XX"}, "en"),
        ([], {"LANG": "de_DE.UTF-8"}, "en"),
        ([], {"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ([], {"LC_ALL": "", "LC_MESSAGES": "zh_TW", "LANG": "en_US"}, "zh"),
        ([], {"ROCKETFSCK_LANG": "zh", "LANG": "C"}, "zh"),
        ([], {"ROCKETFSCK_LANG": "en", "LANG": "zh_CN"}, "en"),
        ([], {"ROCKETFSCK_LANG": "fr", "LANG": "zh_CN"}, "zh"),
        (["check", "--lang", "zh"], {"ROCKETFSCK_LANG": "en"}, "zh"),
        (["--lang=en", "check"], {"LANG": "zh_CN.UTF-8"}, "en"),
        (["check", "--lang", "fr"], {"LANG": "zh_CN.UTF-8"}, "en"),
        (["check", "--lang"], {}, "en"),
    ],
)
def test_the_language(arguments: list[str], environment: dict[str, str], language: str) -> None:
    assert chosen_language(arguments, environment) == language


def test_a_terminal_without_chinese_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    speak("zh")
    assert not is_translating()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "gb18030"))
    speak("zh")
    assert is_translating()


def test_a_config_file_names_the_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('lang = "zh"\n')
    assert run(["check", "--config", str(config), "/no/such/store"]) == 8
    assert capsys.readouterr().err.startswith("错误：")
    assert run(["check", "--config", str(config), "--lang", "en", "/no/such/store"]) == 8
    assert capsys.readouterr().err.startswith("Error: ")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help", "--lang", "zh"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("用法：")
    assert "检查的深入程度" in said
    assert all(width(line) <= 80 or "rocketfsck " in line for line in said.splitlines())
    assert run(["check", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ")


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--lang", "zh", "--no-such"]) == 16
    assert "没有这个选项" in capsys.readouterr().err
    assert run(["check", "--lang", "zh", "/no/such/store"]) == 8
    assert "错误：" in capsys.readouterr().err
    assert run(["check", "--lang", "fr", "x"]) == 16
    assert "'fr' is not one of" in capsys.readouterr().err


def test_documents_are_the_same(store_dir: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(store_dir("4.9.8-basic"))
    found = []
    for language in ("en", "zh"):
        run(["info", "--lang", language, "--format", "json", store])
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


def test_text_in_a_file_is_translated(store_dir: Directory, tmp_path: Path) -> None:
    out = tmp_path / "check.txt"
    run(["certify", "--lang", "zh", "-o", str(out), str(store_dir("4.9.8-basic"))])
    assert any("\u4e00" <= character <= "\u9fff" for character in out.read_text("utf-8"))


def test_a_line_keeps_colours_and_gaps() -> None:
    speak("zh")
    assert (
        said_line("\x1b[32mHealthy: a broker may be started.\x1b[0m")
        == "\x1b[32m正常：可以启动 Broker。\x1b[0m"
    )
    assert said_line("  Next: rocketfsck check x") == "  下一步：rocketfsck check x"
    assert said_line("主题 nothing is wrong") == "主题 nothing is wrong"
    assert is_translating()


def test_cells_of_a_table() -> None:
    speak("zh")
    assert said_row(("topic", "messages"), is_head=True) == ("主题", "消息数")
    assert said_row(("topic", "3 messages")) == ("topic", "3 条消息")
    assert said_row(("topic", "3"), is_head=True) == ("topic", "3")


def test_a_stream_says_whole_lines() -> None:
    speak("zh")
    out = io.StringIO()
    stream = LineStream(out, lambda line: [said_line(line)])
    stream.writelines(["Healthy: a broker", " may be started.\nnothing"])
    assert out.getvalue() == "正常：可以启动 Broker。\n"
    stream.flush()
    assert out.getvalue().endswith("\n无")
    assert stream.getvalue() == out.getvalue()


def test_chinese_lines_are_broken_between_characters() -> None:
    speak("zh")
    lines = list(wrapped("启动会整理好存储目录，不丢失任何内容。" * 3, 30, "  "))
    assert all(width(line) <= 32 for line in lines)
    assert "".join(line.strip() for line in lines) == "启动会整理好存储目录，不丢失任何内容。" * 3
    assert not any(line.strip()[0] in "，。" for line in lines)
    assert all(width(line) <= 32 for line in fit("  " + "不丢失任何内容，" * 6, 30))
