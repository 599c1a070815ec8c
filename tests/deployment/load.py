"""Sends numbered messages until standard input ends, then reads the topic and compares.

    python -m tests.deployment.load NAMESRV

Prints one JSON object: how many sends were acknowledged and failed, the longest time between two
acknowledgements in milliseconds, and the acknowledged messages that are missing.
"""

import asyncio
import json
import sys
import time

from epochmq import Message, Producer, PullConsumer, errors
from epochmq.client.aio.pull_consumer import PULL_COUNT

TOPIC = "Load"
SENDERS = 4


async def send_until(ended: asyncio.Event, namesrv: str) -> tuple[list[int], int, float]:
    """Send until `ended`; return acknowledged numbers, failures and the longest pause in s."""
    acknowledged: list[int] = []
    failed, longest, last, number = 0, 0.0, time.monotonic(), 0
    async with Producer(namesrv, "load", timeout_ms=20_000) as producer:

        async def send() -> None:
            nonlocal failed, longest, last, number
            while not ended.is_set():
                own, number = number, number + 1
                try:
                    await producer.send(Message(TOPIC, b"%d" % own))
                except errors.EpochError as error:
                    print(error, file=sys.stderr)
                    failed += 1
                    continue
                now = time.monotonic()
                longest, last = max(longest, now - last), now
                acknowledged.append(own)
                await asyncio.sleep(0.002)

        await asyncio.gather(*(send() for _ in range(SENDERS)))
    return acknowledged, failed, longest


async def stored(namesrv: str) -> set[int]:
    """Return the numbers that the topic has."""
    found: set[int] = set()
    async with PullConsumer(namesrv, "load-reader") as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset, count=PULL_COUNT)
                found.update(int(message.body) for message in result.messages)
                offset = result.next_offset
    return found


async def main(namesrv: str) -> None:
    """Run until standard input ends, and print the result."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    print("started", flush=True)
    waiting = loop.run_in_executor(None, sys.stdin.read)
    waiting.add_done_callback(lambda _: ended.set())
    acknowledged, failed, longest = await send_until(ended, namesrv)
    missing = sorted(set(acknowledged) - await stored(namesrv))
    print(
        json.dumps(
            {
                "acknowledged": len(acknowledged),
                "failed": failed,
                "longest_ms": round(longest * 1000),
                "missing": missing,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
