"""One member of the demo's consumer group, a process of its own: notes what it is given.

    python -m examples.demo.member NAMESRV TOPIC GROUP NAME FILE

Writes "owns N" to standard output whenever the number of its queues changes. Ends at SIGTERM, and
when standard input ends: whoever started it is gone then.
"""

import asyncio
import os
import sys
import time

from epochmq.client.aio import PushConsumer
from epochmq.model.message import StoredMessage
from epochmq.runtime.logging_setup import configure
from epochmq.runtime.main import run
from epochmq.runtime.signals import stop_on_signals
from examples.demo.members import encode

BATCH = 32
PULL_COUNT = 128
LOOK_S = 0.05


async def member(namesrv: str, topic: str, group: str, name: str, file: str) -> None:
    """Consume in order until told to stop. With the same `name` it is the same member again."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(messages: list[StoredMessage]) -> None:
        now_us = time.time_ns() // 1_000
        lines = (encode(m.keys[0], m.born_wall_ms, now_us) for m in messages)
        os.write(handle, b"".join(lines))

    async with PushConsumer(
        namesrv,
        group,
        ordered=True,
        start="first",
        batch_size=BATCH,
        pull_count=PULL_COUNT,
        name=name,
    ) as consumer:
        consumer.on_message(note)
        await consumer.subscribe(topic)
        await consumer.start()
        with stop_on_signals() as stop:
            loop = asyncio.get_running_loop()

            def parent_gone() -> None:
                loop.remove_reader(sys.stdin)
                stop.ask("parent gone")

            loop.add_reader(sys.stdin, parent_gone)
            owned = -1
            while not stop.asked:
                now = sum(queue.topic == topic for queue in consumer.progress())
                if now != owned:
                    print(f"owns {now}", flush=True)
                    owned = now
                try:
                    async with asyncio.timeout(LOOK_S):
                        await stop.wait()
                except TimeoutError:
                    continue


if __name__ == "__main__":
    configure("warning")
    run(member(*sys.argv[1:]))
