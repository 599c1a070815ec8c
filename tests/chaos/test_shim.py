"""A process whose machine was suspended waits as long as it asks, like any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.shim import NoCompiler, build

pytestmark = pytest.mark.process

WAIT_S = 0.05
SUSPENDED_S = 3
WAITS = {
    "sleep": "time.sleep({wait})",
    "lock": "lock.acquire(timeout={wait})",
    "condition": "threading.Event().wait({wait})",
    "queue": "queue.SimpleQueue().get(timeout={wait})",
}
PROGRAM = """
import mmap, queue, struct, threading, time
from contextlib import suppress
lock = threading.Lock()
lock.acquire()
with open({control!r}, "r+b") as file:
    control = mmap.mmap(file.fileno(), 16)
before = time.monotonic()
control[:] = struct.pack("=qq", {suspended} * 10**9, 0)
assert time.monotonic() < before - 1, "the clock does not stand still"
began = time.clock_gettime(time.CLOCK_BOOTTIME)
with suppress(queue.Empty):
    {wait}
assert time.clock_gettime(time.CLOCK_BOOTTIME) - began >= {seconds}, "the wait ended at once"
"""


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_after_a_suspension_does_not_end_at_once(name: str, tmp_path: Path) -> None:
    """Else its threads spin for the interpreter lock, and the broker under test stands still."""
    try:
        library = build(tmp_path)
    except NoCompiler as error:
        pytest.skip(str(error))
    control = tmp_path / "shim"
    control.write_bytes(bytes(16))
    program = PROGRAM.format(
        control=str(control),
        suspended=SUSPENDED_S,
        wait=WAITS[name].format(wait=WAIT_S),
        seconds=WAIT_S,
    )
    env = os.environ | {"LD_PRELOAD": str(library), "EPOCHMQ_SHIM": str(control)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
