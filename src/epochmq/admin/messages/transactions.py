"""The producer behind `epochmq produce`, with `--transaction` one that ends each as it says."""

import asyncio
from collections.abc import Sequence
from typing import Any

from epochmq.base.errors import EpochError
from epochmq.client.aio import (
    Producer,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from epochmq.model.message import Message, StoredMessage
from epochmq.model.queue import MessageQueue


class AlwaysSo:
    """A listener whose transactions all end the same way."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        return self._state

    def check(self, message: StoredMessage) -> TransactionState:
        return self._state


class InTransactions(TransactionProducer):
    """Sends as a `Producer` does, each message in a transaction of its own."""

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        done = await self.send_in_transaction(message, queue=queue, timeout_ms=timeout_ms)
        if not done.ended and done.state is not TransactionState.UNKNOWN:
            raise EpochError(f"the end of transaction {done.send.msg_id} was not taken")
        return done.send

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """All at once, for a transaction holds one message; the last one's result."""
        sends = (self.send(one, queue=queue, timeout_ms=timeout_ms) for one in messages)
        return (await asyncio.gather(*sends))[-1]


def producer_for(namesrv: str, group: str, transaction: str | None) -> Producer:
    """An ordinary producer, or one whose transactions end as `transaction` says."""
    if transaction is None:
        return Producer(namesrv, group)
    return InTransactions(namesrv, group, AlwaysSo(TransactionState[transaction.upper()]))
