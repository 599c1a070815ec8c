"""Pages that cannot be read: zeros and a count where the map is guarded, else the usual end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from epochmq.native import library

pytestmark = pytest.mark.skipif(library.library() is None, reason="no native code")

_FRONT = """
import mmap, os, sys
from epochmq.store.native_records import guard
path = sys.argv[1]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"x" * 20480, 0)
pages = mmap.mmap(fd, 20480, access=mmap.ACCESS_READ)
"""
_GUARDED = (
    _FRONT
    + """
view = memoryview(pages)
address = guard().add(view)
os.ftruncate(fd, 5000)
assert bytes(view[:5000]) == b"x" * 5000
assert guard().faults == 0
assert bytes(view[9000:9010]) == bytes(10)
assert guard().faults == 1
assert bytes(view[19000:19010]) == bytes(10)
assert guard().faults == 2
"""
)


def run(text: str, tmp_path: Path) -> int:
    command = [sys.executable, "-c", text, str(tmp_path / "file")]
    return subprocess.run(command, check=False, timeout=60).returncode


def test_a_guarded_map_reads_as_zeros(tmp_path: Path) -> None:
    assert run(_GUARDED, tmp_path) == 0


@pytest.mark.parametrize(
    "text",
    [
        _FRONT + "guard()\nos.ftruncate(fd, 0)\npages[9000]",
        _GUARDED + "guard().remove(address)\npages[13000]",
    ],
    ids=["never guarded", "no longer"],
)
def test_others_end_the_process_as_before(tmp_path: Path, text: str) -> None:
    assert run(text, tmp_path) == -signal.SIGBUS
