"""Keys of the live view, in a real terminal."""

import os
import pty
import select
import subprocess
import time

import pytest
from tests.admin.shell import ARGV

from epochmq.admin.top.keys import KeyPresses, key_presses
from epochmq.testing import MiniCluster


async def test_each_key_is_returned_once_and_none_in_time() -> None:
    keys = KeyPresses()
    keys.press("qp")
    assert [await keys.wait(1), await keys.wait(1), await keys.wait(0.01)] == ["q", "p", ""]


async def test_no_key_comes_from_what_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with key_presses() as keys:
            assert await keys.wait(0.01) == ""


def read_until(terminal: int, text: str, timeout: float = 20) -> str:
    """What the terminal shows, up to `text`."""
    seen, end = "", time.monotonic() + timeout
    while text not in seen:
        left = end - time.monotonic()
        assert left > 0, f"no {text!r} in {seen!r}"
        if select.select([terminal], [], [], left)[0]:
            seen += os.read(terminal, 65_536).decode(errors="replace")
    return seen


def test_the_live_view_is_paused_explained_and_quit_by_keys() -> None:
    with MiniCluster() as cluster:
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [*ARGV, "top", "-n", cluster.namesrv, "-i", "0.1"],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        )  # fmt: skip
        try:
            shown = read_until(ours, "q quit")
            assert "IN/S" in shown
            assert "OUT/S" in shown
            os.write(ours, b"p")
            read_until(ours, "PAUSED")
            os.write(ours, b"p")
            os.write(ours, b"q")
            _, said = child.communicate(timeout=20)
            assert (child.returncode, said) == (0, b"")
        finally:
            child.kill()
            child.communicate()
            os.close(ours)
            os.close(theirs)
