"""broker.conf: the Java properties grammar, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import StoreError
from rocketfsck.store.circumstances import Settings, parse_settings, read_settings, setting_path


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (b"", {}),
        (b"a=b", {"a": "b"}),
        (b"a = b \r\nc:d\re f\n", {"a": "b ", "c": "d", "e": "f"}),
        (b"# no\n  ! no\n\t\n a=1", {"a": "1"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a", {"a": ""}),
        (b"a==b", {"a": "=b"}),
        (b"a := b", {"a": "= b"}),
        (b"a\\ b\\=\\:c=d", {"a b=:c": "d"}),
        (b"levels=1s \\\n   5s \\\r\n\t10s", {"levels": "1s 5s 10s"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=b\\\n# no comment", {"a": "b# no comment"}),
        (b"a=b\\", {"a": "b"}),
        (b"a=\\u4E2d\\t\\n\\r\\f\\q", {"a": "中\t\n\r\fq"}),
        (b"a=\xe4", {"a": "ä"}),
        (b"=x", {"": "x"}),
    ],
)
def test_grammar(text: bytes, settings: dict[str, str]) -> None:
    assert parse_settings(text) == settings


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\uXYZ1", b"\\u=1"])
def test_a_malformed_escape_is_an_error_as_in_java(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(text)
    with pytest.raises(StoreError, match="malformed") as caught:
        read_settings(path)
    assert caught.value.path == str(path)


@given(st.binary(max_size=200))
def test_any_bytes_give_settings_or_value_error(data: bytes) -> None:
    try:
        settings = parse_settings(data)
    except ValueError:
        assert b"\\u" in data
        return
    assert sum(map(len, settings)) + sum(map(len, settings.values())) <= len(data)


def test_a_settings_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(StoreError, match="at most"):
        read_settings(path)
    with pytest.raises(StoreError, match="is a directory"):
        read_settings(tmp_path)


def test_settings_are_looked_up_by_any_of_their_names() -> None:
    settings = Settings(None, {"b": "2", "on": " TRUE", "off": "yes"})
    assert (settings.get("a", "b"), settings.get("c")) == ("2", None)
    assert settings.flag("on", False)
    assert not settings.flag("off", True)
    assert settings.flag("missing", True)


def test_a_path_is_taken_byte_by_byte_where_that_exists(tmp_path: Path) -> None:
    (tmp_path / "数据").mkdir()
    as_read = str(tmp_path / "数据").encode().decode("latin-1")
    assert setting_path(as_read) == tmp_path / "数据"
    assert setting_path("/nowhere/é") == Path("/nowhere/é")
    assert setting_path("/中") == Path("/中")
    assert setting_path("a\0b") == Path("a\0b")
