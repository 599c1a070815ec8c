"""The asyncio client: `Producer`, `PushConsumer`, `PullConsumer`, `Admin`."""

from epochmq.client.aio.admin import Admin
from epochmq.client.aio.producer import Producer, SendResult
from epochmq.client.aio.pull_consumer import PullConsumer, PullResult
from epochmq.client.aio.push_consumer import ConsumeResult, PushConsumer
from epochmq.client.aio.subscribing import Sql

__all__ = [
    "Admin",
    "ConsumeResult",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PushConsumer",
    "SendResult",
    "Sql",
]
