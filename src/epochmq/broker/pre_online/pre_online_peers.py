"""Asks other members: to make way by 906; for their tables; how a log fits ours, its end by 907 and
its last bytes by LOG_DIGESTS."""

import msgspec

from epochmq.base.errors import PeerError
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.pre_online import compare_logs
from epochmq.broker.pre_online.merge import TAKEN, Merge
from epochmq.broker.replica_sync.metadata_sync import NEW, OPTIONAL, CopiedTable
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.bulk_bodies import LogDigests
from epochmq.wire.bodies.ha_bodies import HARuntimeInfo
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.bulk_headers import LogDigestsHeader
from epochmq.wire.headers.ha_headers import ExchangeHAInfoHeader

TIMEOUT_MS = 3_000
"""For one request, as upstream's."""


class PreOnlineClient:
    """What a member refuses is a `PeerError`, `NotReachable` that it does not answer."""

    def __init__(self, node: BrokerNode, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def ask(self, address: str, command: Command) -> Command:
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        check(answer)
        return answer

    async def announce(self, address: str, *, hand_over: bool = True) -> Command:
        """906 with our addresses; ours step down before they answer, unless told not yet to."""
        node = self._node
        header = ExchangeHAInfoHeader(
            masterHaAddress=node.ha_address,
            masterFlushOffset=node.started_at_offset,
            masterAddress=node.address,
            handOver=None if hand_over else False,
        )
        return await self.ask(address, request(RequestCode.EXCHANGE_BROKER_HA_INFO, header))


def check(answer: Command) -> None:
    """`PeerError` unless it is a success."""
    if answer.code != ResponseCode.SUCCESS:
        raise PeerError(f"refused with {answer.code} {answer.remark or ''}".rstrip())


async def pull_tables(node: BrokerNode, peers: Peers, merge: Merge, address: str) -> None:
    """All tables are fetched before the first is taken over."""
    bodies: dict[CopiedTable, bytes] = {}
    for table in TAKEN:
        answer = await peers.invoke(address, request(table.value), TIMEOUT_MS)
        unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and table in NEW
        if unknown or (answer.code != ResponseCode.SUCCESS and table in OPTIONAL):
            continue  # a slave without a timer refuses (H11)
        check(answer)
        bodies[table] = bytes(answer.body)
    wall = node.clock.wall_ms()
    for table, body in bodies.items():
        try:
            merge.merge_table(table, body, wall)
        except (PeerError, msgspec.ValidationError, ValueError, TypeError) as error:
            raise PeerError(f"it sent no usable {table.name}: {error}") from None


class LogsAsked:
    """Compares this broker's log with those of others."""

    def __init__(self, node: BrokerNode, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def compare(
        self, address: str, *, own_is_master: bool, own_end: int | None = None
    ) -> str:
        """What is wrong with the two logs, and what to do; empty when they fit as far as known.

        `own_end`: up to where ours is to be looked at, if not to its end.

        RocketMQ's brokers know no digests: of theirs only the length is compared. `PeerError` or
        `NotReachable` when there is no usable answer.
        """
        node, pointers = self._node, self._node.store.pointers
        own = node.store.whole_end if own_end is None else own_end  # before the other end is asked
        answer = await self._ask(address, request(RequestCode.GET_BROKER_HA_STATUS))
        if answer is None:
            return ""
        info = decode_body(HARuntimeInfo, answer.body)
        if own_is_master:
            master, replica = node.address, address
            their_end = info.ha_client_runtime_info.max_offset
            trouble = compare_logs.too_long(replica, their_end, master, own)
        else:
            master, replica = address, node.address
            their_end = info.master_commit_log_max_offset
            trouble = compare_logs.too_long(replica, own, master, their_end)
        common = compare_logs.window(pointers.start, own, their_end)
        if trouble or common is None:
            return trouble
        header = LogDigestsHeader(common.start, common.end, compare_logs.BLOCK_BYTES)
        answer = await self._ask(address, request(RequestCode.LOG_DIGESTS, header))
        if answer is None:
            return ""
        ours = compare_logs.digests(common, node.store.slice)
        at = compare_logs.differs(ours, decode_body(LogDigests, answer.body).blocks)
        return "" if at is None else compare_logs.different(replica, master, at)

    async def _ask(self, address: str, command: Command) -> Command | None:
        """The answer; None from a peer that does not know the request."""
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        check(answer)
        return answer
