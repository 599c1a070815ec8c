"""The end of a run: everything that the group holds, and whether its replicas are the same."""

from pathlib import Path

from sim.oracle import Delivery
from tests.compat.peers.group import Group

from chaos.load import Book, now_us
from epochmq.client.aio import PullConsumer


async def read_all(group: Group, topic: str, book: Book) -> int:
    """Read every queue to its end through the master; raises `Violation`. How many messages."""
    total = 0
    async with PullConsumer(group.namesrv_addr, "drain") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            numbers: list[int] = []
            while offset < end:
                result = await consumer.pull(queue, offset)
                for message in result.messages:
                    number = int(bytes(message.body).partition(b".")[0])
                    place = (topic, queue.queue_id)
                    at = message.queue_offset
                    book.oracle.delivered(
                        Delivery(number, "drain", place, at, now_us(), "", message.offset)
                    )
                    numbers.append(number)
                assert result.next_offset > offset, (queue, offset, result.status)
                offset = result.next_offset
            book.oracle.judge_drain((topic, queue.queue_id), numbers, group.broker_name)
            total += len(numbers)
    return total


def compare_logs(group: Group, end: int) -> int:
    """Compare all replicas' log files up to `end`, byte for byte; the bytes compared of each."""
    logs = [server.root / "store" / "commitlog" for server in group.brokers]
    first, *others = logs
    compared = 0
    for file in sorted(first.iterdir()):
        start = int(file.name)
        size = min(file.stat().st_size, end - start)
        if size <= 0:
            continue
        content = _head(file, size)
        for other in others:
            same = _head(other / file.name, size) == content
            assert same, f"{other / file.name} differs from {file} below {end}"
        compared += size
    return compared


def _head(file: Path, size: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(size)
