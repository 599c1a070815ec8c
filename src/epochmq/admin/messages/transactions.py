"""The producer of `epochmq produce`; with `--transaction` each message is sent in a transaction."""

import asyncio
import datetime
import re
from collections.abc import Sequence
from typing import Any

from epochmq.base.errors import EpochError, UsageError
from epochmq.client.aio import (
    Producer,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from epochmq.model.message import Message, StoredMessage
from epochmq.model.topic import MessageQueue


class AlwaysSo:
    """A listener that ends all transactions in the same way."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def execute_local(self, message: Message, arg: Any) -> TransactionState:
        return self._state

    def check(self, message: StoredMessage) -> TransactionState:
        return self._state


class InTransactions(TransactionProducer):
    """A `Producer` that sends each message in its own transaction."""

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
        """Send all messages concurrently, one per transaction; returns the last result."""
        sends = (self.send(one, queue=queue, timeout_ms=timeout_ms) for one in messages)
        return (await asyncio.gather(*sends))[-1]


def producer_for(namesrv: str, group: str, transaction: str | None) -> Producer:
    """Create a plain producer, or one whose transactions end as `transaction` says."""
    if transaction is None:
        return Producer(namesrv, group)
    return InTransactions(namesrv, group, AlwaysSo(TransactionState[transaction.upper()]))


# When ----------------------------------------------------------------------------------------
# Parses delivery times: a level, a duration, a time. Pure.


LEVEL_MAX = 18
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def delay(text: str) -> tuple[int, int]:
    """Return (level, milliseconds), one of them 0: `3` is a level, `90s` or `1h30m` a duration.

    Raises `UsageError` for other texts.
    """
    if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= LEVEL_MAX:
        return int(text), 0
    if _WHOLE.fullmatch(text):
        return 0, sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text))
    raise UsageError(
        f"'{text}' is not a delay; write a duration (1500ms, 90s, 1h30m) or a level from 0 to"
        f" {LEVEL_MAX}"
    )


def moment(text: str) -> int:
    """Parse `@1700000000000`, or ISO 8601 in local time, or with `Z` or a zone; returns wall ms.

    Raises `UsageError` for other texts.
    """
    if re.fullmatch(r"@[0-9]{1,15}", text):
        return int(text[1:])
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"'{text}' is not a time; write 2024-05-01T12:00, or @ and milliseconds since 1970"
        ) from None
