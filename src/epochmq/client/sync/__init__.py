"""The blocking client: the classes of `epochmq.client.aio` with calls that wait for their result.

All clients of a process share one thread, which runs an event loop. Names, arguments, results and
errors are those of `epochmq.client.aio`. `Admin` has no blocking version: call it with
`asyncio.run`.
"""

from epochmq.client.aio import (
    ConsumeResult,
    PullResult,
    SendResult,
    Sql,
    TransactionListener,
    TransactionResult,
    TransactionState,
)
from epochmq.client.sync.sync_clients import (
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)

__all__ = [
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
