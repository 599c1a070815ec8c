"""The asyncio client: producers, push, pull and POP consumers, and `Admin`."""

from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.listening import ConsumeResult, Sql
from epochmq.client.aio.pop_consumer import PopConsumer
from epochmq.client.aio.producer import Producer, SendResult
from epochmq.client.aio.pull_consumer import PullConsumer, PullResult
from epochmq.client.aio.push_consumer import PushConsumer
from epochmq.client.aio.transaction_producer import (
    TransactionListener,
    TransactionProducer,
    TransactionResult,
    TransactionState,
)

__all__ = [
    "Admin",
    "ConsumeResult",
    "PopConsumer",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PushConsumer",
    "SendResult",
    "Sql",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]
