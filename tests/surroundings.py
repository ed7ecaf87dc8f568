"""What a process inherits from whoever starts it, made the same for every test.

A shell's `&` and nohup start what they run with signals ignored, an editor without a terminal, a container
without a locale; each user has a time zone and a umask. Tests must give the same answer everywhere, so the
differences end here, before the start test is collected. Processes that tests start inherit the result.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

import pytest

SETTINGS = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONUTF8": "1"}
UNSET = (
    "LANGUAGE", "COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
    "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
)  # fmt: skip
UMASK = 0o022
KEPT = {signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that stay ignored: nohup's, those of job control, and those that Python itself ignores and resets
for the processes that it starts."""


def settle() -> None:
    """Set environment, umask and signals; pytest.UsageError where names of files are not UTF-8."""
    if sys.getfilesystemencoding() != "utf-8":
        raise pytest.UsageError("names of files are not UTF-8 here: start pytest with PYTHONUTF8=1")
    for name in UNSET:
        os.environ.pop(name, None)
    os.environ.update(SETTINGS)
    if "ROCKETFSCK_STATE_DIR" not in os.environ:  # plans are kept there, and not in the user's home
        state = tempfile.mkdtemp(prefix="rocketfsck-state-")
        os.environ["ROCKETFSCK_STATE_DIR"] = state
        os.environ["XDG_CONFIG_HOME"] = f"{state}/config"  # whoever tests has no settings
        atexit.register(shutil.rmtree, state, ignore_errors=True)
    time.tzset()
    os.umask(UMASK)
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals() - KEPT:
            if signal.getsignal(number) is signal.SIG_IGN:
                usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                signal.signal(number, usual)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
