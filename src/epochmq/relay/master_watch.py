"""Watches the brokers of one group, and tells which of them serves as master.

Each broker is asked by MASTER_STATE (34008), which it answers when its state changes. A connection
that ends says that the broker is gone. The name servers are asked for the brokers' addresses only.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from epochmq.base.errors import EpochError, PeerError
from epochmq.base.task_set import TaskSet
from epochmq.model.host import BadAddress, parse_addr
from epochmq.relay.master_tracker import MasterState, MasterTracker
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_answer
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroupBody
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.admin_headers import MasterStateHeader
from epochmq.wire.headers.namesrv_headers import GetBrokerMemberGroupHeader

log = logging.getLogger(__name__)

BROKERS_MAX = 64
"""Brokers of one group that are watched."""
MEMBERS_MS = 2_000
"""How often the name servers are asked for the brokers."""
MEMBERS_AGAIN_MS = 200
"""The same, while they list none."""
EMPTY_SAID = 10
"""After so many empty answers the log says so; brokers may register a moment later."""
MEMBERS_TIMEOUT_MS = 1_000
HOLD_MS = 5_000
"""How long a broker holds a request while its state does not change."""
STATE_TIMEOUT_MS = 2_000
"""How much later than that its answer may come."""
RETRY_MS = 50
"""Pause before a broker that is not reachable is asked again."""
REFUSED_MS = 2_000
"""Pause before a broker that answered with an error is asked again."""


class MasterWatch:
    """Watches one group from `start` to `stop`.

    Args:
        cluster: name of the cluster.
        group: name of the broker group.
        name_servers: addresses; empty when `brokers` are given.
        brokers: addresses of the brokers, instead of name servers.
        peers: connections; closed by `stop`.
        on_change: called after `tracker.master` changed.
    """

    def __init__(
        self,
        cluster: str,
        group: str,
        name_servers: Sequence[str],
        brokers: Sequence[str],
        peers: Peers,
        on_change: Callable[[], None],
    ) -> None:
        self.group = group
        self.tracker = MasterTracker()
        self._cluster = cluster
        self._name_servers = name_servers
        self._brokers = brokers
        self._peers = peers
        self._on_change = on_change
        self._tasks = TaskSet(self._failed)
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._said: dict[str, str] = {}

    def start(self) -> None:
        """Watch the given brokers, or those that the name servers list."""
        if self._brokers:
            self._watch_only(self._brokers[:BROKERS_MAX])
        else:
            self._tasks.spawn(self._list_members(), name="relay-members")

    async def stop(self) -> None:
        """End all tasks and close the connections."""
        await self._tasks.close()
        await self._peers.close()

    def _failed(self, task: asyncio.Task[None], error: BaseException) -> None:
        log.error("watching group %(group)s failed", {"group": self.group}, exc_info=error)

    # The brokers of the group -----------------------------------------------------------------

    async def _list_members(self) -> None:
        empty = 0
        while True:
            found: set[str] = set()
            answered = 0
            for server in self._name_servers:
                try:
                    found.update(await self._members_by(server))
                    answered += 1
                    self._say(server, "")
                except EpochError as error:
                    self._say(server, f"name server {server} lists no brokers: {error}")
            empty = empty + 1 if answered and not found else 0
            if empty >= EMPTY_SAID:
                self._say(
                    "",
                    f"no name server lists brokers of group {self.group} in cluster"
                    f" {self._cluster}; is its name right?",
                )
            elif found:
                self._say("", "")
                self._watch_also(sorted(found))
            await asyncio.sleep((MEMBERS_MS if found else MEMBERS_AGAIN_MS) / 1000)

    async def _members_by(self, server: str) -> list[str]:
        header = GetBrokerMemberGroupHeader(self._cluster, self.group)
        command = request(RequestCode.GET_BROKER_MEMBER_GROUP, header)
        answer = await self._peers.invoke(server, command, MEMBERS_TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise PeerError(f"it answered {answer.code} {answer.remark or ''}".rstrip())
        member = decode_answer(BrokerMemberGroupBody, answer.body).broker_member_group
        addresses = list(member.broker_addrs.values())
        for address in addresses:
            try:
                parse_addr(address)
            except BadAddress as error:
                raise PeerError(str(error)) from None
        return addresses

    def _watch_also(self, listed: Sequence[str]) -> None:
        """Watch the listed brokers too. One that is not listed any more is watched until the limit
        is reached: name servers forget a broker that is only restarted."""
        kept = [address for address in self._watched if address not in listed]
        room = max(0, BROKERS_MAX - len(listed))
        self._watch_only([*listed[:BROKERS_MAX], *kept[max(0, len(kept) - room) :]])

    def _watch_only(self, addresses: Sequence[str]) -> None:
        for gone in [address for address in self._watched if address not in addresses]:
            self._watched.pop(gone).cancel()
            self._said.pop(gone, None)
            self._note(self.tracker.lost(gone))
        for address in addresses:
            if address not in self._watched:
                watch = self._tasks.spawn(self._watch(address), name=f"relay-watch {address}")
                self._watched[address] = watch

    # The state of a broker --------------------------------------------------------------------

    async def _watch(self, address: str) -> None:
        stamp: str | None = None
        while True:
            pause_ms = RETRY_MS
            try:
                state = await self._ask(address, stamp)
            except PeerError as error:
                self._say(address, f"broker {address} cannot be used: {error}")
                stamp, pause_ms = None, REFUSED_MS
                self._note(self.tracker.lost(address))
            except EpochError as error:
                log.debug("%(address)s: %(error)s", {"address": address, "error": error})
                stamp = None
                self._note(self.tracker.lost(address))
            else:
                self._say(address, "")
                stamp, pause_ms = state.stamp, 0
                told = MasterState(state.writable, state.acting, state.epoch)
                self._note(self.tracker.told(address, told))
            await asyncio.sleep(pause_ms / 1000)

    async def _ask(self, address: str, stamp: str | None) -> MasterStateHeader:
        ext = {} if stamp is None else {"sinceStamp": stamp, "waitMillis": str(HOLD_MS)}
        command = request(RequestCode.MASTER_STATE, ext)
        wait_ms = STATE_TIMEOUT_MS if stamp is None else HOLD_MS + STATE_TIMEOUT_MS
        answer = await self._peers.invoke(address, command, wait_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise PeerError("it does not know MASTER_STATE; a relay needs brokers of EpochMQ")
        if answer.code != ResponseCode.SUCCESS:
            raise PeerError(f"it answered {answer.code} {answer.remark or ''}".rstrip())
        state = decode_header(MasterStateHeader, answer.ext)
        if state.brokerName != self.group:
            raise PeerError(f"it is a broker of group {state.brokerName[:255]!r}")
        return state

    def _note(self, changed: bool) -> None:
        if changed:
            self._on_change()

    def _say(self, who: str, problem: str) -> None:
        """Log a problem once, until it changes."""
        if problem and self._said.get(who) != problem:
            log.warning("%(problem)s", {"problem": problem})
        self._said[who] = problem
