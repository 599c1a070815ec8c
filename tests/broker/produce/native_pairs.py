"""Two brokers that get the same frames: one with the native code, one in plain Python."""

from collections.abc import Iterator
from typing import Any

from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import BrokerHarness
from tests.store.store_internals import write_without_native

from epochmq.base.errors import PeerError
from epochmq.broker.produce.send_stage import SendStage
from epochmq.wire.command import Command
from epochmq.wire.frame import FrameReader

BUFFER = memoryview(bytearray(1 << 18))
"""What a loop's connections share."""

NEWEST_OF = ("lock", "abort", "checkpoint")
"""Files that are about the process, not about the messages."""


def files(disk: SimDisk, folder: str = "") -> Iterator[tuple[str, bytes]]:
    """Every file below `folder` with its bytes."""
    for name in disk.list(folder):
        path = f"{folder}/{name}".lstrip("/")
        if disk.is_dir(path):
            yield from files(disk, path)
        elif name not in NEWEST_OF:
            yield path, disk.read_file(path) or b""


def without_native(harness: BrokerHarness) -> BrokerHarness:
    """`harness`, which does everything in Python from now on."""
    stage: SendStage = harness.sink.stage
    stage.native = None
    write_without_native(harness.store)
    return harness


class Pair:
    """The broker under test and its reference."""

    def __init__(self, **options: Any) -> None:
        self.native = BrokerHarness(**options)
        self.plain = without_native(BrokerHarness(**options))
        self.harnesses = (self.native, self.plain)
        self.clients = [[harness.client() for _ in range(3)] for harness in self.harnesses]

    def topic(self, name: str, **more: Any) -> None:
        for harness in self.harnesses:
            harness.topic(name, **more)

    def put(self, number: int, *commands: Command) -> None:
        """The same frames for the same connection of both."""
        for clients in self.clients:
            for command in commands:
                command.opaque = 0
            clients[number].put(*commands)

    def read(self, number: int, data: bytes) -> None:
        """The same bytes for the same connection of both, as `Connection` handles them."""
        for harness, clients in zip(self.harnesses, self.clients, strict=True):
            client = clients[number]
            if client.transport.cut_for is not None:
                continue
            size = len(data)
            BUFFER[:size] = data
            try:
                start = harness.sink.receive_raw(client.session, BUFFER, 0, size)
                frames = FrameReader().feed(BUFFER[start:size])
                if frames:
                    harness.sink.receive(client.session, frames, harness.clock.now)
            except PeerError as error:
                client.transport.cut(str(error))

    def turn(self, ms: int = 1) -> list[list[tuple[object, ...]]]:
        """End the turn; the answers of both, which must be the same, in the order of requests."""
        told = []
        for harness, clients in zip(self.harnesses, self.clients, strict=True):
            harness.turn()
            told.append([_answers(client.take()) for client in clients])
            harness.clock.step(ms)
            harness.store.tick(harness.clock.now, harness.clock.wall)
        assert told[0] == told[1]
        cut = [[client.transport.cut_for for client in clients] for clients in self.clients]
        assert cut[0] == cut[1]
        return told[0]

    def tick(self) -> None:
        """What the service does by its ticks: transactions, delays, exact times."""
        for harness in self.harnesses:
            node, now, wall = harness.node, harness.clock.now, harness.clock.wall
            for _ in range(3):
                node.transactions.tick(now, wall)
                node.delivery.tick(wall)
                if node.timer is not None:
                    node.timer.tick(wall, delivers=node.serving.delivers)

    def close(self) -> None:
        """Stop both; what they leave on the disk must be the same, byte for byte."""
        for harness in self.harnesses:
            harness.sink.finish(harness.clock.now)
            problems = harness.store.verify().problems
            assert problems == [], problems
            harness.store.close(harness.clock.wall)
        left, right = (dict(files(harness.disk)) for harness in self.harnesses)
        assert left.keys() == right.keys()
        for path, data in left.items():
            assert data == right[path], path


def _answers(commands: list[Command]) -> list[tuple[object, ...]]:
    return sorted(
        (c.opaque, c.code, c.remark or "", sorted((c.ext or {}).items())) for c in commands
    )
