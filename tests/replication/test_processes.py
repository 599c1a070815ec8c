"""Two replicas as processes; either is killed with -9 while messages flow."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.store.world import HOST

from epochmq.runtime.disk import RealDisk
from epochmq.store.store import Store

from .brokers import STORE

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]


class Replica:
    """The test's end of one process."""

    def __init__(self, root: Path, number: int) -> None:
        self.root = root
        self.number = number
        self.port = 0
        self.acked = 0
        """Highest offset that was acknowledged to this process's client."""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> "Replica":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.replication.process",
            str(self.root),
            str(self.number),
            str(self.port),
            cwd=REPOSITORY,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"},
        )
        self.port = (await self._hear("port"))["port"]
        return self

    async def _hear(self, key: str) -> dict[str, Any]:
        """The next line with `key` in it."""
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), 60)
            assert line, f"replica {self.number} is gone"
            said: dict[str, Any] = json.loads(line)
            if said.get("status") == "ACKED":
                self.acked = max(self.acked, said["end"])
            if key in said:
                return said

    async def tell(self, line: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await self._hear("did")

    async def acks(self, count: int) -> None:
        for _ in range(count):
            assert (await self._hear("status"))["status"] == "ACKED"

    async def state_with(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for _ in range(500):
            state = await self.tell("state")
            if condition(state):
                return state
            await asyncio.sleep(0.02)
        raise AssertionError(state)

    async def kill(self) -> None:
        """-9; what it said before still counts."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        assert process.stdout is not None
        for line in (await process.stdout.read()).splitlines():
            said = json.loads(line) if line.endswith(b"}") else {}
            if said.get("status") == "ACKED":
                self.acked = max(self.acked, said["end"])
        await process.wait()

    def log(self) -> bytes:
        """The log on disk, of a process that is gone."""
        store = Store.open(RealDisk(str(self.root / str(self.number))), STORE, HOST, 0)
        end = store.pointers.appended
        parts = []
        at = store.pointers.start
        while at < end:
            parts.append(bytes(store.slice(at, end - at)))
            at += len(parts[-1])
        assert store.verify().problems == []
        store.close(0)
        return b"".join(parts)


Test = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    a, b = Replica(tmp_path, 1), Replica(tmp_path, 2)
    await asyncio.gather(a.start(), b.start())
    await a.tell("lead 1 1")
    await b.tell(f"follow 1 1 {a.port}")
    await a.state_with(lambda state: state["members"] == [1, 2])
    yield a, b
    await a.kill()
    await b.kill()


async def test_the_follower_is_killed_and_comes_back(two: tuple[Replica, Replica]) -> None:
    a, b = two
    await a.tell("load on")
    await a.acks(30)
    await b.kill()
    await a.acks(30)  # the first of them when the set is {1}
    assert (await a.tell("state"))["members"] == [1]
    await b.start()
    await b.tell(f"follow 1 1 {a.port}")
    await a.state_with(lambda state: state["members"] == [1, 2])
    await a.acks(30)
    end = (await a.tell("load off"))["end"]
    await b.state_with(lambda state: state["end"] == end)
    await a.tell("stop")
    await b.tell("stop")
    await a.kill()
    await b.kill()
    assert a.log() == b.log()


async def test_the_master_is_killed_and_follows_afterwards(two: tuple[Replica, Replica]) -> None:
    a, b = two
    await a.tell("load on")
    await a.acks(50)
    await a.kill()
    state = await b.tell("lead 2 1,2")
    assert state["end"] >= a.acked > 0
    await a.start()
    await a.tell(f"follow 2 2 {b.port}")
    await b.tell("load on")
    await b.acks(30)
    end = (await b.tell("load off"))["end"]
    await a.state_with(lambda state: state["end"] == end)
    for replica in (a, b):
        assert (await replica.tell("stop"))["troubles"] == []
        await replica.kill()
    assert a.log() == b.log()
