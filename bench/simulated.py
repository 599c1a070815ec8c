"""Very many messages for an exact time in simulated time, with a broker that dies in the middle.

A real store on a real disk and the product's timer in one process, without sockets; the clock goes
on by the CPU time that each tick takes (and a millisecond, as the broker's loop has it), else it
jumps to what is due next. All messages are sent first, so that all of them hang on the wheel. The
kill leaves the disk as it is and forgets everything else, like `kill -9`; another broker recovers.
"""

import argparse
import random
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.store_keys import store_options
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.delay.timer_service import TimerService
from epochmq.broker.produce.send_special import timed_draft
from epochmq.broker.state.saved_files import SavedFile
from epochmq.broker.transaction.half_messages import records_of
from epochmq.model import record
from epochmq.model.host import pack
from epochmq.model.topic import TopicConfig
from epochmq.runtime.disk import RealDisk
from epochmq.store.draft import Appended, Draft
from epochmq.store.store import Store

TOPIC = "BenchTimers"
QUEUES = 4
BODY = b"%d" + b"." * 100
WALL = 1_700_000_000_000
SENDS = 256
"""Messages that one turn of the broker takes."""
STORE_MS, SAVE_MS = 100, 1_000
WAIT_MAX_MS = 60_000
SEED = 7
_BYTES = 1 << 24


class Clock:
    """Simulated: both clocks go on together."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def wall_ms(self) -> int:
        return WALL + int(self.ms)


class NoLock:
    """Of a process that may die: the next one finds nobody."""

    def release(self) -> None:
        """It was never taken."""


class Disk(RealDisk):
    """One that a second broker of this process may open when the first is dead."""

    def lock(self, path: str) -> Any:
        return NoLock()


class Beside:
    """Saves a table at once, where the broker has a thread for it."""

    def __init__(self, disk: RealDisk) -> None:
        self._disk = disk

    def snapshot(
        self, table: SavedFile, before: Callable[[], Callable[[], None]] | None = None
    ) -> Callable[[], None] | None:
        if not table.dirty:
            return None
        data = table.encode()
        table.dirty = False

        def write() -> None:
            if before is not None:
                before()()
            self._disk.write_file(table.file, data, backup=True)

        return write


class Broker:
    """What one process has; `again` is the next one on the same disk."""

    def __init__(self, root: Path, clock: Clock) -> None:
        options = BrokerOptions(broker_name="b", broker_ip1="127.0.0.1")
        self.clock = clock
        self.disk = Disk(str(root))
        keys = store_options(options)
        host = pack("127.0.0.1", 10911)
        self.store = Store.open(self.disk, keys, host, clock.wall_ms())
        self.node = BrokerContext(
            options, clock=clock, disk=self.disk, store=self.store, port=10911
        )
        self.node.topics.put(TopicConfig(TOPIC, QUEUES, QUEUES), clock.wall_ms())
        self.node.open_timer()
        timer = self.node.timer
        assert timer is not None
        self.timer: TimerService = timer
        self._store_at = self._save_at = clock.now_ms()

    def tick(self) -> float:
        """All that is due; the CPU seconds of the timer's tick."""
        now, wall = self.clock.now_ms(), self.clock.wall_ms()
        began = time.process_time()
        self.timer.tick(wall, delivers=True)
        took = time.process_time() - began
        if now >= self._store_at:
            self._store_at = now + STORE_MS
            self.store.tick(now, wall)
        if now >= self._save_at:
            self._save_at = now + SAVE_MS
            self.timer.save(wall, Beside(self.disk), self._synced)
        return took

    def _synced(self, done: Callable[[bool], None]) -> None:
        self.store.sync()
        done(True)

    def next_ms(self) -> int:
        """Simulated time of the next tick."""
        due = self.timer.next_deadline(self.clock.wall_ms())
        times = [self._store_at, self._save_at] + ([] if due is None else [due - WALL])
        return min(times)

    def delivered(self) -> Iterator[memoryview]:
        """Every record of the topic."""
        for queue in range(QUEUES):
            at, end = self.store.queue_bounds(TOPIC, queue)
            while at < end:
                found = self.store.read_queue(TOPIC, queue, at, 10_000, _BYTES)
                yield from records_of(found)
                at = found.next_offset


@dataclass
class Run:
    """What came of it; lateness in ms, sorted."""

    lateness: list[int]
    lost: int
    twice: int
    tick_ms: float
    """CPU of the longest tick of the timer."""
    cpu_s: float
    memory_mib: tuple[float, float]
    """Anonymous memory of the process when all is sent, and at most."""


def _anonymous_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


def _send(broker: Broker, due: "array[int]") -> None:
    """All of `due` (wall ms), a turn of the broker for every `SENDS` of them."""
    node, host = broker.node, pack("10.0.0.9", 40_000)
    for first in range(0, len(due), SENDS):
        drafts = []
        for number in range(first, min(first + SENDS, len(due))):
            text = b"UNIQ_KEY\x01%032d\x02TIMER_DELIVER_MS\x01%d" % (number, due[number])
            draft = Draft(
                TOPIC, number % QUEUES, BODY % number, text, keys=(f"{number:032d}",),
                born_host=host, born_wall_ms=broker.clock.wall_ms(),
            )  # fmt: skip
            drafts.append(timed_draft(node, draft))
        results = broker.store.append(drafts, broker.clock.wall_ms())
        if not all(isinstance(result, Appended) for result in results):
            raise SystemExit("a message was refused")
        broker.clock.ms += 1 + broker.tick() * 1000


def _live(broker: Broker, root: Path, due: "array[int]", kill_ms: float | None) -> Run:
    clock, last = broker.clock, max(due) - WALL
    before = peak = _anonymous_mib()
    longest, looks, began = 0.0, 0, time.process_time()
    until = last + WAIT_MAX_MS
    while clock.ms < until:
        if kill_ms is not None and clock.ms >= kill_ms:
            kill_ms, at = None, time.process_time()
            broker = Broker(root, clock)
            clock.ms += (time.process_time() - at) * 1000
        took = broker.tick()
        longest = max(longest, took)
        clock.ms = max(clock.ms + 1 + took * 1000, broker.next_ms())
        looks += 1
        if looks % 64 == 0:
            peak = max(peak, _anonymous_mib())
        if clock.ms > last and broker.timer.driver.core.read_ms - WALL > last:
            break
    cpu = time.process_time() - began
    seen: dict[int, int] = {}
    lateness: list[int] = []
    for raw in broker.delivered():
        start, end = record.body_span(raw, 0)
        number = int(bytes(raw[start:end]).rstrip(b"."))
        seen[number] = seen.get(number, 0) + 1
        if seen[number] == 1:
            lateness.append(record.store_time_at(raw, 0) - due[number])
    twice = sum(count > 1 for count in seen.values())
    memory = (before, peak)
    return Run(sorted(lateness), len(due) - len(seen), twice, longest * 1000, cpu, memory)


def measure(count: int, over_s: float, *, kill: bool) -> Run:
    """One run on a disk of its own."""
    root = Path(tempfile.mkdtemp(prefix="bench-simulated-"))
    try:
        clock = Clock()
        broker = Broker(root, clock)
        chance = random.Random(SEED)
        first = WALL + count  # a millisecond for each send is more than they take
        due = array("q", (first + chance.randrange(int(over_s * 1000)) for _ in range(count)))
        _send(broker, due)
        half = first - WALL + over_s * 500 if kill else None
        return _live(broker, root, due, half)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def table(count: int, *rows: tuple[float, bool]) -> str:
    """The figures as Markdown, a row for each (seconds, kill)."""
    lines = [
        "| messages | over (s) | late p50 (ms) | p99 (ms) | max (ms) | early | lost | twice"
        " | longest tick (ms CPU) | CPU (us a message) | memory when sent (MiB) | max (MiB) |",
        "|" + "---|" * 12,
    ]
    for over_s, kill in rows:
        run = measure(count, over_s, kill=kill)
        late: list[Any] = run.lateness or [0]
        p50, p99 = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
        lines.append(
            f"| {count:,}{' and a kill' if kill else ''} | {over_s:g} | {p50} | {p99} | {late[-1]}"
            f" | {sum(one < 0 for one in late)} | {run.lost} | {run.twice} | {run.tick_ms:.0f}"
            f" | {run.cpu_s * 1e6 / count:.1f} | {run.memory_mib[0]:.0f}"
            f" | {run.memory_mib[1]:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """`python -m bench.simulated`."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulated", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--over", type=float, default=3600.0, metavar="SECONDS")
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    print(table(args.count, (args.over, args.kill)))


if __name__ == "__main__":
    main()
