"""Decoders of bodies, above all bad ones: they hang, flood, lie and die, and nothing else does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.reader.decoders import FAILURES, ProgramDecoder, decoder_names, open_decoder

GOOD = """
import json, sys
inp, out = sys.stdin.buffer, sys.stdout.buffer
while line := inp.readline():
    head = json.loads(line)
    body = inp.read(head["size"])
    if body == b"not mine":
        out.write(b"-\\n")
    else:
        text = f"{head['topic']}:{len(body)}:{body[:10].decode('utf-8', 'replace')}".encode()
        out.write(b"%d\\n%s" % (len(text), text))
    out.flush()
"""
READ = "import json, sys, time, os; i = sys.stdin.buffer; o = sys.stdout.buffer; {0}\n"
ONE = "h = json.loads(i.readline()); b = i.read(h['size']); "
BAD = {
    "hangs": ("time.sleep(600)", "no answer in 0.5 s"),
    "reads slowly": ("[(i.read(1), time.sleep(0.05)) for _ in range(10**6)]", "no answer in 0.5 s"),
    "floods": (ONE + "[o.write(b'x' * 65536) for _ in range(10**6)]", "no length"),
    "says too much": (ONE + "o.write(b'3\\nabcdef'); o.flush(); time.sleep(60)", "more than was asked for"),
    "more than not mine": (ONE + "o.write(b'-\\nabc'); o.flush(); time.sleep(60)", "more than was asked for"),
    "promises gigabytes": (
        ONE + "o.write(b'9999999999\\n'); o.flush(); time.sleep(60)",
        "longer than 1",
    ),
    "has no length": (ONE + "o.write(b'abc\\n'); o.flush(); time.sleep(60)", "no length"),
    "negative": (ONE + "o.write(b'-5\\n'); o.flush(); time.sleep(60)", "no length"),
    "dies": ("os._exit(1)", "the program ended"),
    "dies half way": (ONE + "o.write(b'10\\nabc'); o.flush(); os._exit(1)", "the program ended"),
    "does not read": ("o.write(b'2\\nno'); o.flush(); time.sleep(60)", "before the whole body was sent"),
}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[object]:
    opened: list[ProgramDecoder] = []

    def start(code: str, seconds: float = 20.0) -> ProgramDecoder:
        path = tmp_path / "decoder.py"
        path.write_text(code, "utf-8")
        opened.append(ProgramDecoder([sys.executable, str(path)], seconds=seconds))
        return opened[-1]

    yield start
    for decoder in opened:
        decoder.close()


def test_a_program(program) -> None:  # type: ignore[no-untyped-def]
    decoder = program(GOOD)
    for body in (b"hello", b"", b"x" * 3_000_000, b"again"):
        found = decoder.decode(body, {"topic": "T"})
        assert found.text == f"T:{len(body)}:{body[:10].decode()}"
        assert found.note is None
    assert decoder.decode(b"not mine", {"topic": "T"}).text is None
    assert "does not know this body" in str(decoder.decode(b"not mine", {"topic": "T"}).note)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_program(program, name: str) -> None:  # type: ignore[no-untyped-def]
    code, said = BAD[name]
    decoder = program(READ.format(code), seconds=0.5 if "0.5" in said else 20.0)
    started = time.monotonic()
    found = decoder.decode(b"b" * 1_000_000, {"topic": "T"})
    assert time.monotonic() - started < 15
    assert found.text is None
    assert said in str(found.note)


def test_one_that_dies_is_started_again_and_given_up(program, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    marks = tmp_path / "marks"
    decoder = program(f"open({str(marks)!r}, 'a').write('x')\n")
    for _ in range(FAILURES):
        assert "the program ended" in str(decoder.decode(b"b", {}).note)
    assert "is not asked again" in str(decoder.decode(b"b", {}).note)
    assert marks.read_text() == "x" * FAILURES


def test_what_it_started_ends_with_it(program, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    decoder = program(code, seconds=3.0)
    decoder.decode(b"b", {})
    pid = int(pid_file.read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    raise AssertionError("the child is alive")


def test_no_shell(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with open_decoder(f"cat ; touch {marker}") as decoder:
        decoder.decode(b"b", {})
    assert not marker.exists()


def test_no_such_decoder() -> None:
    with pytest.raises(UsageError, match=r"neither a program nor a decoder: .*json"):
        open_decoder("no-such-program-or-decoder")
    with pytest.raises(UsageError, match="not a command"):
        open_decoder("'")
    with pytest.raises(UsageError, match="cannot be run"):
        ProgramDecoder([os.devnull])


def test_json() -> None:
    with open_decoder("json") as decoder:
        assert decoder.decode(b'{"b": 1, "a": "\xc3\xa9"}', {}).text == '{"a": "\u00e9", "b": 1}'
        assert decoder.decode(b"{", {}).text is None
        assert decoder.decode(b"[" * 100_000, {}).text is None


def test_decoders_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    names = ("upper", "wrong", "raises", "huge", "absent")
    (info / "entry_points.txt").write_text(
        "[rocketfsck.decoders]\n" + "".join(f"{name} = otherdecoders:{name}\n" for name in names)
    )
    (tmp_path / "otherdecoders.py").write_text(
        "def upper(body, facts): return body.decode().upper() + facts['topic']\n"
        "def wrong(body, facts): return body\n"
        "def raises(body, facts): raise ValueError('so')\n"
        "def huge(body, facts): return 'x' * (2 << 20)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(names) < set(decoder_names())
    with open_decoder("upper") as decoder:
        assert decoder.decode(b"body", {"topic": "T"}).text == "BODYT"
    for name, said in (
        ("wrong", "gave bytes"),
        ("raises", "ValueError: so"),
        ("huge", "1,048,576 characters"),
    ):
        with open_decoder(name) as decoder:
            found = decoder.decode(b"body", {"topic": "T"})
        assert found.text is None
        assert said in str(found.note)
    with pytest.raises(UsageError, match="cannot be loaded: AttributeError"):
        open_decoder("absent")
