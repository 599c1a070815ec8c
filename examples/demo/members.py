"""The demo's consumer group as processes, and what they have noted so far."""

import asyncio
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from epochmq.base.errors import EnvironmentFault
from examples.demo import environment

# Records --------------------------------------------------------------------------------------
# What a member notes of every message it was given, in a file that survives its SIGKILL.
#
# Layout, big-endian, 22 bytes: carrier (2 bytes of ASCII), number (4), born (8, wall ms), received
# (8, wall us), in the order received. One system call writes a batch before the batch counts as
# consumed: a member has noted everything that the broker believes consumed.


_LAYOUT = struct.Struct(">2sIQQ")
SIZE = _LAYOUT.size


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery; `received_us` is wall time in microseconds, `born_ms` in milliseconds."""

    carrier: str
    number: int
    born_ms: int
    received_us: int

    @property
    def latency_ms(self) -> float:
        """From the send call to the listener, never below 0."""
        return max(0.0, self.received_us / 1_000 - self.born_ms)


def key_of(carrier: str, number: int) -> str:
    """The index key that a flight is sent with."""
    return f"{carrier}-{number}"


def encode(key: str, born_ms: int, received_us: int) -> bytes:
    """One record, from a message's index key."""
    carrier, _, number = key.rpartition("-")
    return _LAYOUT.pack(carrier.encode("ascii"), int(number), born_ms, received_us)


def decode(data: bytes) -> Iterator[Received]:
    """All whole records of `data`; a torn last one is left out."""
    whole = len(data) - len(data) % SIZE
    for carrier, number, born_ms, received_us in _LAYOUT.iter_unpack(data[:whole]):
        yield Received(carrier.decode("ascii"), number, born_ms, received_us)


# Members --------------------------------------------------------------------------------------


MODULE = "examples.demo.member"
STOP_S = 15.0


@dataclass(slots=True)
class Life:
    """One process: the `generation`-th of the member `name`."""

    name: str
    generation: int
    file: Path
    process: asyncio.subprocess.Process
    owned: int = -1
    reading: asyncio.Task[None] | None = None
    records: list[Received] = field(default_factory=list)
    read_bytes: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}.{self.generation}"


class DemoMembers:
    """Starts, kills and stops members; `distinct` counts different messages noted by all."""

    def __init__(self, namesrv: str, topic: str, group: str, directory: Path) -> None:
        self._arguments = (namesrv, topic, group)
        self._directory = directory / "members"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._changed = asyncio.Event()
        self._seen: set[tuple[str, int]] = set()
        self.lives: list[Life] = []

    @property
    def distinct(self) -> int:
        return len(self._seen)

    @property
    def delivered(self) -> int:
        return sum(len(life.records) for life in self.lives)

    async def start(self, name: str) -> Life:
        """A new process of the member `name`; its place in the group is that of the last one."""
        generation = 1 + sum(life.name == name for life in self.lives)
        file = self._directory / f"{name}.{generation}.records"
        log = file.with_suffix(".log").open("wb")
        with log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                *self._arguments,
                name,
                str(file),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        life = Life(name, generation, file, process)
        life.reading = asyncio.create_task(self._listen(life))
        self.lives.append(life)
        return life

    async def wait_shared(self, queues: int, timeout_s: float) -> None:
        """Until the living members own `queues` queues between them, each at least one."""

        def shared() -> bool:
            owned = [life.owned for life in self.alive()]
            return sum(owned) == queues and all(count > 0 for count in owned)

        await self._wait(shared, timeout_s, "the members did not share out the queues")

    async def _wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise EnvironmentFault(f"{what} within {timeout_s:.0f} s") from None

    def alive(self) -> list[Life]:
        return [life for life in self.lives if life.process.returncode is None]

    async def kill(self, life: Life) -> None:
        """SIGKILL: no handler runs, nothing is said to the broker."""
        life.process.kill()
        await life.process.wait()

    async def stop(self) -> None:
        """Ask all to end; whoever does not in time is killed."""
        for life in self.alive():
            life.process.send_signal(signal.SIGTERM)
        for life in self.lives:
            try:
                async with asyncio.timeout(STOP_S):
                    await life.process.wait()
            except TimeoutError:
                await self.kill(life)
            if life.reading is not None:
                await life.reading

    def read(self) -> None:
        """Take in what was noted since the last time."""
        for life in self.lives:
            try:
                with life.file.open("rb") as file:
                    file.seek(life.read_bytes)
                    data = file.read()
            except FileNotFoundError:
                continue
            fresh = list(decode(data))
            life.read_bytes += len(fresh) * SIZE
            life.records += fresh
            self._seen.update((record.carrier, record.number) for record in fresh)

    async def _listen(self, life: Life) -> None:
        assert life.process.stdout is not None
        async for line in life.process.stdout:
            word, _, count = line.decode().strip().partition(" ")
            if word == "owns":
                life.owned = int(count)
                self._changed.set()
        self._changed.set()


def last_words(life: Life) -> str:
    """The end of what a member complained of."""
    text = life.file.with_suffix(".log").read_text(errors="replace").strip()
    return text.splitlines()[-1] if text else f"exit code {life.process.returncode}"
