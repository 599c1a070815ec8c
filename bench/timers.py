"""Messages for an exact time on a real broker: lateness, what came early, twice or never, memory.

All are sent first, as fast as they go, with times spread evenly over `--over` seconds that begin
when the last one should be sent. Lateness is the delivered message's store time against the time
asked for, on one clock. `--kill` kills the broker in the middle (`kill -9`) and starts it again.
"""

import argparse
import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass

from tests.compat.peers import admin
from tests.compat.peers.epochmq import EpochCluster

from epochmq.base.errors import EpochError
from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message

TOPIC = "BenchTimers"
SENDERS = 64
RATE = 5_000
"""Sends a second that are counted on, to choose the first time."""
WAIT_MAX_S = 120.0
SEED = 7


@dataclass
class Run:
    """What was asked for and what came."""

    send_s: float
    lateness_ms: list[int]
    early: int
    lost: int
    twice: int
    rss_mib: tuple[float, float]
    """Before the first send, and at most afterwards."""


async def _send(namesrv: str, first_ms: int, over_ms: int, count: int) -> dict[int, int]:
    chance = random.Random(SEED)
    times = [first_ms + chance.randrange(over_ms) for _ in range(count)]
    numbers = iter(range(count))
    due: dict[int, int] = {}

    async def sender(producer: Producer) -> None:
        for number in numbers:
            message = Message(TOPIC, b"%d" % number, deliver_at_ms=times[number])
            await producer.send(message, timeout_ms=10_000)
            due[number] = times[number]

    async with Producer(namesrv, "timers") as producer:
        await asyncio.gather(*(sender(producer) for _ in range(SENDERS)))
    return due


async def _collect(cluster: EpochCluster, due: dict[int, int], kill_at_s: float | None) -> Run:
    peak = cluster.broker.rss_bytes()
    counts: Counter[int] = Counter()
    lateness: list[int] = []
    offsets: dict[int, int] = {}
    deadline = max(due.values()) / 1000 + WAIT_MAX_S
    async with PullConsumer(cluster.namesrv_addr, "timers-check") as consumer:
        queues = await consumer.queues(TOPIC)
        while len(counts) < len(due) and time.time() < deadline:
            if kill_at_s is not None and time.time() >= kill_at_s:
                kill_at_s = None
                await asyncio.to_thread(cluster.kill9_broker)
                await asyncio.to_thread(cluster.start_broker)
            came = 0
            for queue in queues:
                try:
                    found = await consumer.pull(queue, offsets.get(queue.queue_id, 0), count=1000)
                except EpochError:
                    continue
                offsets[queue.queue_id] = found.next_offset
                came += len(found.messages)
                for message in found.messages:
                    number = int(message.body)
                    counts[number] += 1
                    if counts[number] == 1:
                        lateness.append(message.store_wall_ms - due[number])
            peak = max(peak, cluster.broker.rss_bytes())
            await asyncio.sleep(0 if came else 0.2)
    return Run(
        0.0,
        sorted(lateness),
        sum(late < 0 for late in lateness),
        len(due) - len(counts),
        sum(count > 1 for count in counts.values()),
        (0.0, peak / 2**20),
    )


def measure(count: int, over_s: float, *, kill: bool) -> Run:
    """One run on a broker of its own."""
    with EpochCluster() as cluster:
        admin.create_topic(cluster.broker_addr, TOPIC)
        idle = cluster.broker.rss_bytes() / 2**20
        began = time.time()
        first_ms = int((began + count / RATE + 2) * 1000)
        over_ms = int(over_s * 1000)
        due = asyncio.run(_send(cluster.namesrv_addr, first_ms, over_ms, count))
        send_s = time.time() - began
        half = (first_ms + over_ms / 2) / 1000 if kill else None
        run = asyncio.run(_collect(cluster, due, half))
    run.send_s, run.rss_mib = send_s, (idle, run.rss_mib[1])
    return run


def table(count: int, over_s: float, *, kill: bool) -> str:
    """The figures as Markdown."""
    run = measure(count, over_s, kill=kill)
    late = run.lateness_ms or [0]
    p50, p99 = late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)]
    return "\n".join(
        [
            "| messages | over (s) | sent in (s) | late p50 (ms) | p99 (ms) | max (ms) | early"
            " | lost | twice | RSS idle (MiB) | RSS max (MiB) |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
            f"| {count:,}{' and a kill' if kill else ''} | {over_s:g} | {run.send_s:.1f} | {p50}"
            f" | {p99} | {late[-1]} | {run.early} | {run.lost} | {run.twice}"
            f" | {run.rss_mib[0]:.0f} | {run.rss_mib[1]:.0f} |",
        ]
    )


def main() -> None:
    """`python -m bench.timers`."""
    parser = argparse.ArgumentParser(prog="python -m bench.timers", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--over", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--kill", action="store_true")
    args = parser.parse_args()
    print(table(args.count, args.over, kill=args.kill))


if __name__ == "__main__":
    main()
