"""Follows a topic for one page: new messages, with a filter, at a bounded rate."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator

from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.message_queries import short_row
from epochmq.admin.dashboard.paging import Row
from epochmq.admin.messages.following import follow, spans_of
from epochmq.admin.messages.position import LAST
from epochmq.client.aio import Sql
from epochmq.model.message import StoredMessage

WAITING_MAX = 500
"""Messages that wait for the browser; older ones are left out and counted."""
WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of their bodies, beyond the newest message."""
BATCH_MAX = 100
PAUSE_S = 0.2


async def tail(
    client: ClusterClient, topic: str, expression: str | Sql, heartbeat_s: float
) -> AsyncGenerator[Row | None]:
    """Yield new messages in batches, and None when nothing came for `heartbeat_s` seconds.

    A row has `messages`, and in `left_out` how many the browser was too slow for.

    Raises:
        NotFound: the topic does not exist.
    """
    waiting: deque[StoredMessage] = deque()
    left_out = waiting_bytes = 0
    arrived = asyncio.Event()

    def receive(messages: list[StoredMessage]) -> bool:
        nonlocal left_out, waiting_bytes
        waiting.extend(messages)
        waiting_bytes += sum(len(each.body) for each in messages)
        while len(waiting) > WAITING_MAX or (
            waiting_bytes > WAITING_BYTES_MAX and len(waiting) > 1
        ):
            waiting_bytes -= len(waiting.popleft().body)
            left_out += 1
        arrived.set()
        return True

    spans = await spans_of(client.consumer, topic, LAST)
    following = asyncio.create_task(follow(client.consumer, spans, expression, receive))
    following.add_done_callback(lambda done: arrived.set())
    last = time.monotonic()
    try:
        yield {"messages": [], "left_out": 0}
        while True:
            try:
                async with asyncio.timeout(heartbeat_s):
                    await arrived.wait()
            except TimeoutError:
                yield None
                continue
            arrived.clear()
            if following.done():
                await following
                return
            batch = [waiting.popleft() for _ in range(min(BATCH_MAX, len(waiting)))]
            waiting_bytes -= sum(len(each.body) for each in batch)
            if waiting:
                arrived.set()
            counted, left_out = left_out, 0
            yield {"messages": [short_row(each) for each in batch], "left_out": counted}
            await asyncio.sleep(max(0.0, last + PAUSE_S - time.monotonic()))
            last = time.monotonic()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
