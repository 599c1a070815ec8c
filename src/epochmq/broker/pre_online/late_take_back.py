"""A master that is online without pre-online takes back what its slave did for it (INV-29).

With skipPreOnline, or totalReplicas=1, it delivers from its old progress on at once. A slave that
stood in says so when it is asked (906), and is asked for its consumer offsets: the further ones are
taken, also while consumers are here, for an offset only goes forward by that. How far delayed
messages are stays as it is: what was due is delivered again by then. What consumers of this master
committed last is what they asked for, so one that began anew may commit less once more.
"""

import asyncio
import logging

import msgspec

from epochmq.base.errors import EpochError
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.pre_online.merge import Merge
from epochmq.broker.pre_online.pre_online_peers import Asking
from epochmq.broker.replica_sync.metadata_sync import Table
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request

log = logging.getLogger(__name__)


class LateTake:
    """One at a time: who is still owed asks again."""

    def __init__(self, node: BrokerNode, peers: Peers) -> None:
        self._node = node
        self._asking = Asking(node, peers)
        self._task: asyncio.Task[None] | None = None

    def begin(self, address: str) -> None:
        """Begin to take over from the member at `address`; nobody's address is nobody."""
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
        Merge(self._node).merge_table(Table.OFFSETS, bytes(answer.body), wall)
