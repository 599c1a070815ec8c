"""The same client without asyncio: every call waits for its result.

All clients of a process share one thread with an event loop. Names, arguments, results and errors
are those of `epochmq.client.aio`; what is not here (`Admin`) is used by `asyncio.run`.
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
