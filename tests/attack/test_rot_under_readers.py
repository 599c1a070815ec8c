"""A disk that changes or loses what it was given; what kills is tried in a process of its own."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.world import HOST, SMALL

from epochmq.model.record import decode_all
from epochmq.native import library
from epochmq.runtime.disk import RealDisk
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus
from epochmq.store.store import Store

COUNT = 2000
_NAME = "0" * 20

_SCRIPT = """
import os, sys
from dataclasses import replace
from tests.store.world import HOST, SMALL
from epochmq.runtime.disk import RealDisk
from epochmq.store.draft import Draft
from epochmq.store.read import GetStatus
from epochmq.store.store import Store

root = sys.argv[1]
options = replace(SMALL, commit_log_file_bytes=1 << 20)
store = Store.open(RealDisk(root), options, HOST, 1)
for number in range(100):
    store.append([Draft("T", 0, b"%04d" % number * 1000, b"", born_host=HOST)], 1)
assert store.read_queue("T", 0, 0, 100, 1 << 20).count == 100
os.truncate(root + "/commitlog/" + "0" * 20, 200_000)
for offset in range(100):  # before anybody has noticed: nothing dies
    b"".join(store.read_queue("T", 0, offset, 1, 1).chunks)
store.tick(10_000, 1)
assert "shortened" in store.fenced
found = [store.read_queue("T", 0, offset, 1, 1) for offset in range(100)]
whole = [b"".join(one.chunks)[88:92] for one in found if one.status is GetStatus.FOUND]
assert whole == [b"%04d" % number for number in range(len(whole))], whole
assert len(whole) >= 48
assert {one.status for one in found[len(whole):]} == {GetStatus.DAMAGED}
print("alive")
"""


@pytest.mark.skipif(library.library() is None, reason="needs the guard of the native code")
def test_a_log_file_is_cut_off_under_the_store(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


def stopped(root: Path) -> None:
    """2,000 messages in one queue, and a clean stop."""
    store = opened(root)
    drafts = [Draft("T", 0, b"amount=%04d" % n, b"", born_host=HOST) for n in range(COUNT)]
    for draft in drafts:
        store.append([draft], 1_700_000_000_000)
    store.close(1)


def opened(root: Path) -> Store:
    options = replace(SMALL, commit_log_file_bytes=1 << 20, consume_queue_file_bytes=100_000)
    return Store.open(RealDisk(str(root)), options, HOST, 1)


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def delivered(store: Store) -> tuple[list[bytes], list[int]]:
    """(bodies that a reader gets, queue offsets that it is refused)."""
    bodies: list[bytes] = []
    refused: list[int] = []
    offset = 0
    while offset < COUNT:
        found = store.read_queue("T", 0, offset, 32, 1 << 18)
        store.chores.run_all()
        if found.status is GetStatus.DAMAGED:
            refused.append(offset)
            offset += 1
            continue
        bodies += [m.body for chunk in found.chunks for m in decode_all(chunk)]
        assert found.next_offset > offset
        offset = found.next_offset
    return bodies, refused


def test_a_unit_of_a_queue_rots(tmp_path: Path) -> None:
    """Every message is delivered, whatever bit it was."""
    stopped(tmp_path)
    path = tmp_path / "consumequeue" / "T" / "0" / _NAME
    rng = random.Random("units")
    flip(path, 1000 * 20 + rng.randrange(20), rng.randrange(8))
    flip(path, 30 * 20 + 9, 3)
    store = opened(tmp_path)
    assert delivered(store) == ([b"amount=%04d" % n for n in range(COUNT)], [])
    assert store.damage.units_rebuilt == 2
    store.close(1)


def test_a_body_rots(tmp_path: Path) -> None:
    """The changed amount is not delivered; all that is not in its block is."""
    stopped(tmp_path)
    path = tmp_path / "commitlog" / _NAME
    store = opened(tmp_path)
    flip(path, path.read_bytes().index(b"amount=0005") + 7, 2)
    bodies, refused = delivered(store)
    numbers = [int(body[7:]) for body in bodies]
    assert sorted([*numbers, *refused]) == list(range(COUNT))
    assert 5 in refused
    assert len(refused) < 700
    store.close(1)
