"""A slave that is about to stand in takes the progress of another slave that stood in before.

It may have been cut off from the name servers meanwhile, and then it knows nothing of what the
other one did for the master. That one ceases when it sees a smaller id, and is asked again until it
did: what it did until then is all it ever does. Who cannot be reached, or does not cease for as
long as members are believed to live, is left out: what it did last may come twice.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from epochmq.base.errors import EpochError
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.pre_online.merge import Merge
from epochmq.broker.pre_online.pre_online_peers import Asking, pull_tables
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.base import decode_header
from epochmq.wire.headers.ha import ExchangeHAInfoAnswer, ExchangeHAInfoHeader

LOOK_MS = 100
"""Between two questions to one that still stands in."""

log = logging.getLogger(__name__)


class StandInTake:
    """One at a time; `done` is called once for each."""

    def __init__(self, node: BrokerNode, peers: Peers) -> None:
        self._node = node
        self._peers = peers
        self._asking = Asking(node, peers)
        self._merge = Merge(node)
        self._task: asyncio.Task[None] | None = None

    def take(self, addresses: Sequence[str], done: Callable[[], None]) -> None:
        """From all of these members, side by side."""
        self._task = asyncio.get_running_loop().create_task(self._take(addresses, done))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _take(self, addresses: Sequence[str], done: Callable[[], None]) -> None:
        await asyncio.gather(*map(self._take_from, addresses))
        done()

    async def _take_from(self, address: str) -> None:
        try:
            if await self._stood_in(address):
                await pull_tables(self._node, self._peers, self._merge, address)
                log.info("took over from %s what it did for the master", address)
        except (EpochError, msgspec.ValidationError, ValueError, TypeError) as error:
            log.warning("what %s did for the master is not known here: %s", address, error)
        except Exception:
            log.exception("what %s did for the master is not known here", address)

    async def _stood_in(self, address: str) -> bool:
        """Whether it stood in, and the master took nothing back since; said once it has ceased."""
        clock = self._node.clock
        until_ms = clock.now_ms() + self._node.options.broker_not_active_timeout_millis
        while True:
            command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())
            answer = await self._asking.ask(address, command)
            says = decode_header(ExchangeHAInfoAnswer, answer.ext)
            if not says.standsIn or clock.now_ms() >= until_ms:
                return bool(says.stoodIn)
            await asyncio.sleep(LOOK_MS / 1000)
