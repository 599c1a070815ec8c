"""A broker with a small timer on a simulated disk, for the tests beside."""

from typing import Any

from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import BrokerHarness, send

from epochmq.broker.delay.timer_service import TimerService
from epochmq.wire.command import Command

WHEEL_BYTES = 512 * 32
LOG_BYTES = 52 * 20 + 16


class TimerBroker(BrokerHarness):
    """`run` lets time pass, with a tick every `step_ms`."""

    def __init__(self, disk: SimDisk | None = None, **changes: Any) -> None:
        changes.setdefault("mapped_file_size_timer_log", LOG_BYTES)
        changes.setdefault("timer_roll_window_slot", 60)
        super().__init__(disk=disk, **changes)
        node, store = self.node, self.store
        node.timer = self.timer = TimerService(
            self.disk,
            store,
            node.internal_writer,
            lambda: node.options,
            lambda: (store.pointers.start, store.pointers.appended),
            cold_reads=node.cold_reads,
            wheel_bytes=WHEEL_BYTES,
        )
        self.timer.open()
        self.delivers = True
        if node.topics.get("T") is None:
            self.topic("T")

    def put(self, *bodies: bytes, **properties: object) -> list[Command]:
        """One message for each body; the answers."""
        client = self.client()
        texts = {name: str(value) for name, value in properties.items()}
        return [client.ask(send(body, properties=texts)) for body in bodies]

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.timer.tick(self.clock.wall, delivers=self.delivers)

    def run(self, ms: int = 0, step_ms: int = 100) -> list[bytes]:
        """What is in topic T after so long."""
        self.tick(2)
        for gone in range(0, ms, step_ms):
            self.clock.step(min(step_ms, ms - gone))
            self.tick(3)
        return self.bodies()

    def bodies(self) -> list[bytes]:
        return [message.body for queue in range(4) for message in self.stored("T", queue)]

    def save(self) -> None:
        """As the service's period, but at once."""
        self.timer.save(self.clock.wall, Now(self.disk), lambda done: done(True))

    def again(self, disk: SimDisk) -> "TimerBroker":
        """The next process, on a disk as a crash left it."""
        after = TimerBroker(disk)
        after.clock.now, after.clock.wall = self.clock.now, self.clock.wall
        return after


class Now:
    """Saves at once."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def snapshot(self, table: Any, before: Any = None) -> Any:
        if not table.dirty:
            return None
        path, data = table.file, table.encode()
        table.dirty = False

        def write() -> None:
            if before is not None:
                before()()
            self._disk.write_file(path, data)

        return write
