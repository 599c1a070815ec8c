"""Fetches the progress of a former acting master before this slave becomes the acting master.

While this slave was cut off from the name servers, another slave may have been acting master. Then
this slave does not know what that slave did for the master. The other slave stops acting when it
sees a smaller broker id; this slave asks it until it has stopped, and then copies its tables. A
member that cannot be reached, or that goes on acting for as long as name servers keep a dead
member, is left out: what it did last may be done twice.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from epochmq.base.errors import EpochError
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.pre_online_peers import (
    Merge,
    PreOnlineClient,
    fetch_copy,
    pull_tables,
)
from epochmq.broker.group.replicated_tables import CopiedTable
from epochmq.runtime.peers import Peers
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import ExchangeHAInfoAnswer, ExchangeHAInfoHeader

LOOK_MS = 100
"""Pause between two questions to a member that is still acting master."""

log = logging.getLogger(__name__)


class ActingProgressFetch:
    """Fetches progress from members; one `fetch` at a time."""

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
        self._node = node
        self._peers = peers
        self._asking = PreOnlineClient(node, peers)
        self._merge = Merge(node)
        self._task: asyncio.Task[None] | None = None

    def fetch(self, addresses: Sequence[str], done: Callable[[], None]) -> None:
        """Fetch from the members at `addresses` concurrently, then call `done` once."""
        self._task = asyncio.get_running_loop().create_task(self._fetch_all(addresses, done))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _fetch_all(self, addresses: Sequence[str], done: Callable[[], None]) -> None:
        await asyncio.gather(*map(self._fetch_from, addresses))
        done()

    async def _fetch_from(self, address: str) -> None:
        try:
            if await self._stood_in(address):
                await pull_tables(self._node, self._peers, self._merge, address)
                log.info(
                    "the progress that %(address)s made for the master is taken over",
                    {"address": address},
                )
        except (EpochError, msgspec.ValidationError, ValueError, TypeError) as error:
            log.warning(
                "the progress that %(address)s made for the master cannot be read: %(error)s",
                {"address": address, "error": error},
            )
        except Exception:
            log.exception(
                "the progress that %(address)s made for the master cannot be read",
                {"address": address},
            )

    async def _stood_in(self, address: str) -> bool:
        """Return whether it was acting master and the master has not copied its progress since.

        Returns when the member has stopped acting, or after `brokerNotActiveTimeoutMillis`.
        """
        clock = self._node.clock
        until_ms = clock.now_ms() + self._node.options.broker_not_active_timeout_millis
        while True:
            command = request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoHeader())
            answer = await self._asking.ask(address, command)
            says = decode_header(ExchangeHAInfoAnswer, answer.ext)
            if not says.standsIn or clock.now_ms() >= until_ms:
                return bool(says.stoodIn)
            await asyncio.sleep(LOOK_MS / 1000)


# Offsets after online ------------------------------------------------------------------------
# Fetches consumer offsets from a slave after this master went online without pre-online
# (INV-29).
#
# With skipPreOnline, or totalReplicas=1, a master delivers from its old progress at once. A slave
# that was acting master reports this when the master asks it (906). Then the master fetches the
# slave's consumer offsets and merges them, also while consumers are connected, because a merge
# moves offsets forward only. The progress of delayed messages is not merged: messages that were due
# have been delivered again by then. A consumer of this master that began from an older offset may
# commit that offset once more.


class OffsetsAfterOnline:
    """Fetches from one slave at a time; the slave asks again while it holds offsets for the
    master."""

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
        self._node = node
        self._peers = peers
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
        """Fetch the offsets, ask the slave to step down (906, as from a returning master), and
        fetch again what was committed until then. In this order the slave drops no offset before it
        is here."""
        try:
            await self._pull(address)
            await self._asking.announce(address)
            await self._pull(address)
        except (EpochError, msgspec.ValidationError, ValueError, TypeError) as error:
            log.warning(
                "the progress that %(address)s made for this master is not taken back yet:"
                " %(error)s",
                {"address": address, "error": error},
            )
        else:
            log.info("the consumer offsets of %(address)s are taken back", {"address": address})

    async def _pull(self, address: str) -> None:
        content = await fetch_copy(self._peers, CopiedTable.OFFSETS, address)
        wall = self._node.clock.wall_ms()
        Merge(self._node).merge_table(CopiedTable.OFFSETS, content, wall)
