"""Fetches consumer offsets from a slave after this master went online without pre-online (INV-29).

With skipPreOnline, or totalReplicas=1, a master delivers from its old progress at once. A slave
that was acting master says so when it is asked (906). Then the master fetches its consumer offsets
and merges them, also while consumers are connected, because a merge moves offsets forward only. The
progress of delayed messages is not merged: what was due is delivered again by then. A consumer of
this master that began from an older offset may commit that offset once more.
"""

import asyncio
import logging

import msgspec

from epochmq.base.errors import EpochError
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.pre_online.merge import Merge
from epochmq.broker.pre_online.pre_online_peers import PreOnlineClient
from epochmq.broker.replica_sync.metadata_sync import CopiedTable
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request

log = logging.getLogger(__name__)


class OffsetsAfterOnline:
    """Fetches from one slave at a time; the slave asks again while it holds offsets for the
    master."""

    def __init__(self, node: BrokerNode, peers: Peers) -> None:
        self._node = node
        self._asking = PreOnlineClient(node, peers)
        self._task: asyncio.Task[None] | None = None

    def begin(self, address: str) -> None:
        """Start fetching from the member at `address`; does nothing when `address` is empty."""
        if address and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._fetch(address))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _fetch(self, address: str) -> None:
        """Offsets, the step-down (906, as of a master that comes back), and what was committed
        until then: in this order nothing is forgotten there before it is here."""
        try:
            await self._pull(address)
            await self._asking.announce(address)
            await self._pull(address)
        except (EpochError, msgspec.ValidationError, ValueError, TypeError) as error:
            log.warning("what %s did for this master is not taken back yet: %s", address, error)
        else:
            log.info("took back from %s what groups consumed there", address)

    async def _pull(self, address: str) -> None:
        answer = await self._asking.ask(address, request(RequestCode.GET_ALL_CONSUMER_OFFSET))
        wall = self._node.clock.wall_ms()
        Merge(self._node).merge_table(CopiedTable.OFFSETS, bytes(answer.body), wall)
