"""Bulk reads beside pulls of 32: broker CPU a message, from one broker over loopback.

`python -m bench.bulk_read`. One topic alone in its part of the log, one whose four queues take
turns in it. The reader takes bytes and decodes nothing.
"""

import argparse
import socket
import time
from collections.abc import Iterator

from tests.broker.broker_harness import pull, send
from tests.compat.peers import admin
from tests.compat.peers.epochmq import EpochCluster

from epochmq.model import batch
from epochmq.model.message import Message
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, decode, encode_frame, request
from epochmq.wire.frame import FrameReader
from epochmq.wire.headers.pull_headers import BulkReadHeader

BODY = b"x" * 1000
BATCH = 100
SIZES = (1 << 20, 8 << 20)


class Client:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._reader = FrameReader()

    def ask(self, command: Command) -> Command:
        command.opaque = 1
        self._socket.sendall(encode_frame(command))
        while not (frames := self._reader.feed(self._socket.recv(1 << 20))):
            pass
        return decode(frames[0].header, frames[0].binary, frames[0].body)


def fill(client: Client, topic: str, queues: int, count: int) -> None:
    """`count` messages of 1 KB in all; with many queues a message each in turn."""
    each = BATCH if queues == 1 else 1
    body = batch.encode(Message(topic, BODY) for _ in range(each))
    for n in range(count // each):
        answer = client.ask(
            send(body, topic=topic, queue_id=n % queues, code=RequestCode.SEND_BATCH_MESSAGE)
        )
        assert answer.code == 0, answer


def bulk(client: Client, topic: str, queues: int, size: int) -> Iterator[tuple[int, int]]:
    """(messages, bytes) of each answer."""
    for queue_id in range(queues):
        at = 0
        while True:
            header = BulkReadHeader(topic=topic, queueId=queue_id, offset=at, maxBytes=size)
            answer = client.ask(request(RequestCode.BULK_READ, header))
            if answer.code or answer.ext is None:
                break
            at = int(answer.ext["nextOffset"])
            yield int(answer.ext["count"]), len(answer.body)


def pulls(client: Client, topic: str, queues: int) -> Iterator[tuple[int, int]]:
    """The same by pulls of 32."""
    for queue_id in range(queues):
        at = 0
        while True:
            answer = client.ask(pull(topic=topic, queue_id=queue_id, offset=at, suspend_ms=0))
            if answer.code or answer.ext is None:
                break
            before, at = at, int(answer.ext["nextBeginOffset"])
            yield at - before, len(answer.body)


def measure(cluster: EpochCluster, name: str, answers: Iterator[tuple[int, int]]) -> None:
    cpu, began = cluster.broker.cpu_seconds(), time.monotonic()
    rows = list(answers)
    cpu, wall = cluster.broker.cpu_seconds() - cpu, time.monotonic() - began
    count, size = (sum(column) for column in zip(*rows, strict=True))
    print(
        f"{name:24} {count:8} messages {size / wall / 1e6:6.0f} MB/s"
        f" broker {cpu / count * 1e6:5.2f} us a message {cpu / size * (1 << 30):5.2f} s a GiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    chosen = parser.parse_args()
    with EpochCluster(broker_config={"mappedFileSizeCommitLog": 256 << 20}) as cluster:
        client = Client(cluster.broker_addr)
        for queues in (1, 4):
            topic = f"Bulk{queues}"
            admin.create_topic(cluster.broker_addr, topic, queues)
            fill(client, topic, queues, chosen.count)
            for _ in range(2):
                for size in SIZES:
                    name = f"{queues} queues, {size >> 20} MiB"
                    measure(cluster, name, bulk(client, topic, queues, size))
            measure(cluster, f"{queues} queues, pulls of 32", pulls(client, topic, queues))


if __name__ == "__main__":
    main()
