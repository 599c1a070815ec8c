"""Reads log and tables from the master of a broker group, and goes on after a failover."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from epochmq.base.errors import NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio import Admin
from epochmq.client.aio.bulk_calls import BulkCalls, LogPart
from epochmq.client.aio.name_servers import checked
from epochmq.runtime.fetch_table import fetch_table
from epochmq.wire.bodies.offset_bodies import LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.table_parts import decode_object

T = TypeVar("T")

RETRY_FOR_S = 60.0
"""How long a request is repeated while the group has no master, or its master does not answer."""
FIRST_RETRY_FOR_S = 5.0
"""The same before the first answer: a wrong name must be reported soon."""
RETRY_S = 0.2


class BackupSource:
    """The master of one broker group."""

    def __init__(self, admin: Admin, cluster: str, broker_name: str) -> None:
        self._admin = admin
        self._calls = BulkCalls(admin.instance)
        self._cluster, self._broker_name = cluster, broker_name
        self._address: str | None = None
        self._answered = False
        self.changes = 0
        """How often the master was looked up: equal numbers mean that one master answered all."""

    async def ask(self, call: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of `call` with the address of the master.

        Repeats the call with the present master while there is none, or it does not answer.
        Raises the last error after `RETRY_FOR_S`.
        """
        began = time.monotonic()
        while True:
            try:
                if self._address is None:
                    self._address = await self._find()
                result = await call(self._address)
            except (NotReachable, Refused) as error:
                limit = RETRY_FOR_S if self._answered else FIRST_RETRY_FOR_S
                if not error.retriable or time.monotonic() - began > limit:
                    raise
                self._address = None
                await asyncio.sleep(RETRY_S)
            else:
                self._answered = True
                return result

    async def _find(self) -> str:
        self.changes += 1
        masters = await self._admin.masters(self._cluster)
        if self._broker_name not in masters:
            raise NotReachable(f"broker group {self._broker_name} has no master now")
        return masters[self._broker_name]

    async def bounds(self) -> LogDigests:
        """Return the first offset of the master's log and its confirmed offset.

        Raises `UsageError` if the broker is RocketMQ's, which does not give its log.
        """
        try:
            return await self.ask(lambda address: self._calls.digests(address, 0, 0))
        except Refused as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise UsageError(
                    f"broker {self._broker_name} is not EpochMQ's: RocketMQ's brokers do not give"
                    " their log; copy the files of a stopped broker instead"
                ) from None
            raise

    async def log(self, offset: int, max_bytes: int) -> LogPart:
        """Read confirmed log bytes from `offset` on; they may be fewer than `max_bytes`.

        Waits while a new master has not confirmed the log as far as its predecessor had.

        Raises:
            NotFound: retention has deleted the log at `offset`.
        """

        async def read(address: str) -> LogPart:
            try:
                return await self._calls.log(address, offset, max_bytes)
            except Refused as error:
                if error.code != ResponseCode.PULL_OFFSET_MOVED:
                    raise
            bounds = await self._calls.digests(address, 0, 0)
            if offset < bounds.start:
                raise NotFound(
                    f"broker {self._broker_name} has deleted its log before {bounds.start:,},"
                    f" and with it the bytes from {offset:,} on"
                )
            raise NotReachable(
                f"broker {self._broker_name} has confirmed its log up to {bounds.confirmed:,} only;"
                f" the bytes from {offset:,} on were confirmed before"
            )

        return await self.ask(read)

    async def table(self, code: RequestCode) -> dict[str, Any] | None:
        """Return a table of the master, or None if its release does not have the table.

        Raises `PeerError` if an answer is not a table.
        """

        async def fetch(address: str) -> dict[str, Any] | None:
            async def call(command: Command) -> Command | None:
                answer = await self._admin.instance.call(address, command)
                missing = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                return None if missing else checked(answer)

            return await fetch_table(code, decode_object, call)

        return await self.ask(fetch)

    async def timer_checkpoint(self) -> Command:
        """Return the master's answer to the request for the timer's checkpoint; it is an error if
        there is no timer."""
        command = request(RequestCode.GET_TIMER_CHECK_POINT)
        return await self.ask(lambda address: self._admin.instance.call(address, command))

    async def file_bytes(self) -> int:
        """Return the size of the master's log files (mappedFileSizeCommitLog)."""
        config = await self.ask(self._admin.broker_config)
        text = config.get("mappedFileSizeCommitLog", "")
        if not text.isdecimal() or int(text) <= 0:
            raise NotReachable(f"broker {self._broker_name} does not tell its log file size")
        return int(text)
