"""The asyncio client: producers, push, pull and POP consumers, and `Admin`.

`OpenTelemetry` is imported when it is used: it needs the extra `telemetry`.
"""

from typing import TYPE_CHECKING

from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.hooks import ClientHook, ConsumeCall, SendCall, TransactionEnd
from epochmq.client.aio.listening import ConsumeResult, Sql
from epochmq.client.aio.message_trace import MessageTrace
from epochmq.client.aio.pop_consumer import PopConsumer
from epochmq.client.aio.producer import Producer
from epochmq.client.aio.pull_consumer import PullConsumer, PullResult
from epochmq.client.aio.push_consumer import PushConsumer
from epochmq.client.aio.request_reply import reply_to
from epochmq.client.aio.transaction_producer import (
    TransactionListener,
    TransactionProducer,
    TransactionResult,
    TransactionState,
)
from epochmq.client.core.send_result import SendResult

if TYPE_CHECKING:
    from epochmq.client.aio.open_telemetry import OpenTelemetry

__all__ = [
    "Admin",
    "ClientHook",
    "ConsumeCall",
    "ConsumeResult",
    "MessageTrace",
    "OpenTelemetry",
    "PopConsumer",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PushConsumer",
    "SendCall",
    "SendResult",
    "Sql",
    "TransactionEnd",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "reply_to",
]


def __getattr__(name: str) -> object:
    if name == "OpenTelemetry":
        from epochmq.client.aio.open_telemetry import OpenTelemetry

        return OpenTelemetry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
