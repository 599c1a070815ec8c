"""Waits until a topic exists, for a consumer that is started before the first producer."""

import asyncio

from epochmq.base.errors import NotFound
from epochmq.client.aio import Admin

POLL_S = 0.5


async def wait_for_topic(namesrv: str, topic: str) -> bool:
    """Return when the topic exists: whether it was created during the call.

    Raises:
        NotReachable: no name server answers.
    """
    waited = False
    async with Admin(namesrv) as admin:
        while True:
            try:
                await admin.brokers_of(topic)
            except NotFound:
                waited = True
                await asyncio.sleep(POLL_S)
                continue
            return waited
