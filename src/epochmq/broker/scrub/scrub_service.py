"""Carries out what `core` decides: searches, questions to other members, repairs.

What the search has read is compared with another replica by `peers`. The bytes for a repair are
read by LOG_READ (34006), and judged by the store (`store/scrub.py`) before anything is written.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from epochmq.base import limits
from epochmq.base.errors import EpochError
from epochmq.base.ports import Clock
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.scrub.scrub_peers import TIMEOUT_MS, Comparing, ScrubPeers
from epochmq.broker.scrub.scrub_plan import AskForBytes, ScrubCore
from epochmq.runtime.peers import Peers
from epochmq.store.scrub import WantedRange
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.headers.bulk_headers import LogReadHeader

log = logging.getLogger(__name__)


class ScrubService:
    """One broker's search for damage; `servers` are the name servers."""

    def __init__(
        self, node: BrokerNode, peers: Peers, servers: Sequence[str], clock: Clock
    ) -> None:
        self._node = node
        self._peers = peers
        self._members = ScrubPeers(node, peers, servers)
        self._comparing = Comparing(node, peers, self._members, clock)
        self._core = ScrubCore(node.options.scrub_bytes_per_second, clock.now_ms())
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._told: dict[tuple[int, int], set[str]] = {}

    def tick(self, now: int) -> None:
        """Search a little; begin to repair what is damaged."""
        store = self._node.store
        if (
            store.fenced is not None
            or store.closed
            or self._node.options.scrub_bytes_per_second < 1
        ):
            return
        if not store.scrub.is_busy and (size := self._core.search_bytes(now)):
            comparing = self._comparing
            store.scrub.search(size, comparing.begin if comparing.wants(now) else None)
        if self._task is None and store.damage.ranges:
            wanted = {(one.start, one.end): one for one in store.scrub.wanted()}
            if wanted and self._core.wants_members(list(wanted), now):
                self._task = asyncio.create_task(self._repair(wanted), name="scrub-repair")
                self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the repair of the log failed", exc_info=error)

    async def close(self) -> None:
        """Ask nobody any more."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._comparing.close()
        await self._peers.close()

    async def _repair(self, wanted: Mapping[tuple[int, int], WantedRange]) -> None:
        members = await self._members.others()
        while (ask := self._core.next_ask(members, self._clock.now_ms())) is not None:
            one = wanted[ask.start, ask.end]
            try:
                data = await self._read(ask)
            except EpochError as error:
                self._tell(one, f"{ask.address} was asked in vain: {error}")
                continue
            reason = await self._put(one, data, ask.address)
            if reason:
                self._tell(one, f"{ask.address} cannot help: {reason}")

        for one in wanted.values():
            if one.damaged in self._node.store.damage.ranges:
                reason = await self._mend(one)
                if reason:
                    self._tell(one, f"without a replica: {reason}")

    def _tell(self, wanted: WantedRange, text: str) -> None:
        """Log a failure once for each range and reason."""
        key = wanted.start, wanted.end
        told = self._told.setdefault(key, set())
        if text not in told:
            told.add(text)
            log.warning("%s; %s", wanted.damaged, text)

    async def _read(self, ask: AskForBytes) -> bytes:
        """The bytes that a member has of a range; fewer where its log ends."""
        data = b""
        while ask.start + len(data) < ask.end:
            size = min(ask.end - ask.start - len(data), limits.BULK_READ_BYTES_MAX)
            header = LogReadHeader(ask.start + len(data), size)
            answer = await self._peers.invoke(
                ask.address, request(RequestCode.LOG_READ, header), TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                if not data:
                    log.info("%s, bytes from %d: %s", ask.address, ask.start, answer.remark)
                break
            data += bytes(answer.body)
        return data

    async def _mend(self, wanted: WantedRange) -> str:
        """Why the store cannot repair itself; '' when it did."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._node.store.scrub.mend(wanted, outcome.set_result)
        return await outcome

    async def _put(self, wanted: WantedRange, data: bytes, source: str) -> str:
        """Why the store did not take the bytes; '' when it did."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def done(reason: str) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        self._node.store.scrub.repair(wanted, data, source, done)
        return await outcome
