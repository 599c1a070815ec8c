"""EpochMQ: a highly available message broker that speaks the RocketMQ 5 remoting protocol.

The asyncio clients are imported from here:

    from epochmq import Message, Producer, PushConsumer, errors

Blocking clients of the same names are in `epochmq.client.sync`, servers for tests in
`epochmq.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"
"""The version of RocketMQ's protocol is in `epochmq --version`."""

if TYPE_CHECKING:
    from epochmq import errors
    from epochmq.client.aio import (
        Admin,
        ConsumeResult,
        MessageTrace,
        PopConsumer,
        Producer,
        PullConsumer,
        PullResult,
        PushConsumer,
        SendResult,
        Sql,
        TransactionListener,
        TransactionProducer,
        TransactionResult,
        TransactionState,
        reply_to,
    )
    from epochmq.model.message import Message, StoredMessage
    from epochmq.model.topic import MessageQueue, TopicConfig

__all__ = [
    "Admin",
    "ConsumeResult",
    "Message",
    "MessageQueue",
    "MessageTrace",
    "PopConsumer",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PushConsumer",
    "SendResult",
    "Sql",
    "StoredMessage",
    "TopicConfig",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "errors",
    "reply_to",
]

_ELSEWHERE = {
    "Message": "epochmq.model.message",
    "StoredMessage": "epochmq.model.message",
    "MessageQueue": "epochmq.model.topic",
    "TopicConfig": "epochmq.model.topic",
}


def __getattr__(name: str) -> object:
    """Import what is used: the servers and the command line do not load the clients."""
    if name == "errors":
        return import_module("epochmq.errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "epochmq.client.aio")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
