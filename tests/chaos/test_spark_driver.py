"""A driver as its killer sees it: steps, phases, and every process of its session."""

import sys
import time
from pathlib import Path

import pytest
from chaos.spark_driver import Driver, Gone, Over, members
from tests.compat.peers.process import wait_until

FAKE = """
import subprocess, sys, time
steps, plan = sys.argv[1], sys.argv[2].split()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open(steps, "ab", buffering=0) as out:
    for step in plan:
        out.write(f"{step} {time.monotonic_ns()}\\n".encode())
if plan[-1] == "end":
    child.kill()
    sys.exit(3)
child.wait()
"""


@pytest.fixture
def driver(tmp_path: Path) -> "type[Fake]":
    Fake.place = tmp_path
    return Fake


class Fake(Driver):
    """A small program in place of the archive."""

    place: Path

    def __init__(self, *steps: str, over: bool = False) -> None:
        self.said = steps
        super().__init__(["n", "t", "delta", "none"], self.place, 1, lambda: over)

    def command(self, steps: Path) -> list[str]:
        return [sys.executable, "-c", FAKE, str(steps), " ".join(self.said)]


def test_it_dies_where_its_last_step_says(driver: type[Fake]) -> None:
    with_child = driver("claimed", "planned", "written")
    with_child.wait("written", 1)
    assert with_child.phase() == "commit window"
    assert [name for name, _ in with_child.steps] == ["claimed", "planned", "written"]
    assert all(with_child.began < at <= time.monotonic() for _, at in with_child.steps)
    session = with_child.process.pid
    assert with_child.find(b"time.sleep(60)")
    assert with_child.kill(alone=True) == "commit window"
    assert members(session), "its child is left to notice"
    with_child.bury()
    assert members(session) == []
    with_child.bury()


def test_nobody_is_left_of_a_session(driver: type[Fake]) -> None:
    whole = driver("claimed")
    whole.wait("claimed")
    wait_until(lambda: len(members(whole.process.pid)) == 2, 20, "the child")
    assert whole.kill(alone=False) == "session start-up"
    assert members(whole.process.pid) == []


def test_an_end_of_its_own_is_told(driver: type[Fake]) -> None:
    ended = driver("claimed", "end")
    with pytest.raises(Gone, match="ended by itself, code 3"):
        ended.wait("planned")
    with pytest.raises(Gone, match="ended with 3"):
        ended.end_well(10, ask=False)
    ended.bury()


def test_waiting_ends_with_the_campaign(driver: type[Fake]) -> None:
    running = driver("claimed", over=True)
    with pytest.raises(Over):
        running.pause(60)
    running.bury()
