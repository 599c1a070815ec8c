"""Asks other members: to make way by 906; for their tables; how a log fits ours, its end by 907 and
its last bytes by LOG_DIGESTS.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from epochmq.base.errors import PeerError
from epochmq.base.ports import Buffer
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.metadata_sync import NEW, OPTIONAL, CopiedTable
from epochmq.model.log_blocks import blocks_of, digest
from epochmq.runtime.peers import Peers
from epochmq.wire import json_tolerant
from epochmq.wire.bodies.body import decode_answer, decode_body
from epochmq.wire.bodies.controller_bodies import HARuntimeInfo
from epochmq.wire.bodies.group_bodies import SubscriptionGroupTable
from epochmq.wire.bodies.offset_bodies import LogDigests
from epochmq.wire.bodies.pop_bodies import MessageRequestModeTable
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.admin_headers import ExchangeHAInfoHeader
from epochmq.wire.headers.pull_headers import LogDigestsHeader

# Compare logs --------------------------------------------------------------------------------
# Whether a replica's log is a part of its master's: its length, and a digest of its last bytes.
#
# Plain replication has no epochs, and its slaves trust that their log is the master's prefix. It
# is not when a master lost its tail with the power and wrote on, or wrote on while the slave was
# gone: two records then begin at the same place. As every byte behind that place differs as
# well, the last ones that both have tell (H9). Pure; what is asked is LOG_DIGESTS (34005).


BLOCK_BYTES = 64 * 1024
WINDOW_BYTES = 4 * BLOCK_BYTES

ADVICE = (
    "Both cannot be right, and nothing is cut by itself. Either the replica's log is to stay: stop"
    " both, exchange their brokerRole and brokerId, move the other store away and start them. Or it"
    " is to go: stop the replica, move its store away and start it again, it copies the master's"
    " log; what is in its store alone is lost then. `epochmq pipeline audit` shows the difference."
)


class CommonRange(NamedTuple):
    """Bytes `[start, end)` that both logs should have in common."""

    start: int
    end: int


def too_long(replica: str, replica_end: int, master: str, master_end: int) -> str:
    """What to say of a replica that has more than its master; empty when it has not."""
    if replica_end <= master_end:
        return ""
    return (
        f"the log of {replica} goes on to {replica_end}, that of its master {master} ends at"
        f" {master_end}: what lies between exists at the replica alone. {ADVICE}"
    )


def window(start: int, end: int, their_end: int) -> CommonRange | None:
    """What to compare of a log of `[start, end)`; None when nothing is common for sure."""
    last = min(end, their_end)
    first = max(start, last - last % BLOCK_BYTES - WINDOW_BYTES)
    return CommonRange(first, last) if first < last else None


def digests(
    compared: CommonRange, read: Callable[[int, int], Buffer]
) -> dict[tuple[int, int], str]:
    """By (offset, bytes) the digests of the own log's blocks; `read` gives what is in one file."""
    found = {}
    for offset, size in blocks_of(compared.start, compared.end, BLOCK_BYTES):
        parts, at = [], offset
        while at < offset + size and len(part := read(at, offset + size - at)):
            parts.append(part)
            at += len(part)
        found[offset, size] = digest(parts)
    return found


def differs(own: dict[tuple[int, int], str], theirs: Sequence[tuple[int, int, str]]) -> int | None:
    """Where the first block begins that is not the same; blocks only one has say nothing."""
    for offset, size, code in theirs:
        if own.get((offset, size), code) != code:
            return offset
    return None


def different(replica: str, master: str, offset: int) -> str:
    """What to say of two logs that differ in the block at `offset`."""
    return (
        f"the logs of {replica} and of its master {master} differ, at {offset} or before. {ADVICE}"
    )


# Merge ---------------------------------------------------------------------------------------
# Taking over from another member what is newer there, and nothing that is newer here (H6).
#
# Upstream lets one side win a whole table by its stepped version, and so throws away either what
# the slave did or what the slave had not copied yet. Here:
#
# - consumer offsets and delay levels: queue by queue what is further, or was reset later; but no
#   offset of a topic or group that was deleted meanwhile, and at a master none past a queue's end;
# - the timer's check point: if it covers what ours covers, else both hold;
# - topics and groups: rows of a newer table over ours; rows that only we have stay, for a slave
#   deletes nothing by itself;
# - batches of ordered pops: queue by queue what was out later, and what either acknowledged;
# - how many timed messages wait: what the later version says;
# - request modes have no version: rows that we lack.


TAKEN = (
    CopiedTable.TOPICS,
    CopiedTable.GROUPS,
    CopiedTable.MODES,
    CopiedTable.OFFSETS,
    CopiedTable.ORDERS,
    CopiedTable.DELAYS,
    CopiedTable.TIMER,
    CopiedTable.TIMER_METRICS,
)
"""In this order: offsets of a topic come after the topic, batches after what was reset."""


class Merge:
    """Into one node's tables; only while nothing is delivered there."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        self._taking: Mapping[CopiedTable, Callable[[bytes, int], None]] = {
            CopiedTable.TOPICS: self._topics,
            CopiedTable.GROUPS: self._groups,
            CopiedTable.MODES: self._modes,
            CopiedTable.OFFSETS: self._offsets,
            CopiedTable.DELAYS: self._delays,
            CopiedTable.TIMER: self._timer,
            CopiedTable.TIMER_METRICS: self._timer_metrics,
            CopiedTable.ORDERS: self._orders,
        }

    def merge_table(self, table: CopiedTable, body: bytes, wall: int) -> None:
        """`ValueError`, `PeerError` or `msgspec.ValidationError` for a body that is no table."""
        self._taking[table](body, wall)

    def _topics(self, body: bytes, wall: int) -> None:
        told = decode_answer(TopicConfigTable, body)
        topics = self._node.topics
        if told.data_version > topics.version:
            merged = {**topics.table, **told.topic_config_table}
            topics.adopt(merged, told.data_version.next_version(wall))

    def _groups(self, body: bytes, wall: int) -> None:
        told = decode_answer(SubscriptionGroupTable, body)
        groups = self._node.groups
        if told.data_version > groups.version:
            merged = {**groups.table, **told.subscription_group_table}
            forbidden = {**groups.forbidden_table, **told.forbidden_table}
            groups.adopt(merged, forbidden, told.data_version.next_version(wall))

    def _modes(self, body: bytes, wall: int) -> None:
        told = decode_answer(MessageRequestModeTable, body).message_request_mode_map
        ours = self._node.request_modes.table
        lacking = {
            topic: {group: row for group, row in rows.items() if group not in ours.get(topic, {})}
            for topic, rows in told.items()
        }
        self._node.request_modes.adopt({topic: rows for topic, rows in lacking.items() if rows})

    def _offsets(self, body: bytes, wall: int) -> None:
        """A master's log has every message of which there is an offset; a slave's may lag."""
        end = self._end if self._node.options.broker_id == 0 else None
        self._node.offsets.merge(_object(body), wall, end)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._node.store.queue_bounds(topic, queue_id)[1]

    def _delays(self, body: bytes, wall: int) -> None:
        if self._node.delay_offsets.merge(_object(body), wall):
            self._node.delivery.clamp()

    def _timer(self, body: bytes, wall: int) -> None:
        if self._node.timer is not None:
            self._node.timer.progress.adopt(body)

    def _timer_metrics(self, body: bytes, wall: int) -> None:
        content = _object(body)
        if self._node.timer is not None:
            self._node.timer.driver.metrics.merge(content, wall)

    def _orders(self, body: bytes, wall: int) -> None:
        content, pop = _object(body), self._node.pop
        now = self._node.clock.now_ms()
        # A batch that a reset ended does not win against a new one.
        pop.apply_committed_orders(now, wall)
        pop.orders.merge(content, now, wall)
        pop.apply_committed_orders(now, wall)  # nor does their batch of a topic deleted here


def _object(body: bytes) -> dict[str, Any]:
    content = json_tolerant.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


# Pre online peers ----------------------------------------------------------------------------


TIMEOUT_MS = 3_000
"""For one request, as upstream's."""


class PreOnlineClient:
    """What a member refuses is a `PeerError`, `NotReachable` that it does not answer."""

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
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


async def pull_tables(node: BrokerContext, peers: Peers, merge: Merge, address: str) -> None:
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

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
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
            trouble = too_long(replica, their_end, master, own)
        else:
            master, replica = address, node.address
            their_end = info.master_commit_log_max_offset
            trouble = too_long(replica, own, master, their_end)
        common = window(pointers.start, own, their_end)
        if trouble or common is None:
            return trouble
        header = LogDigestsHeader(common.start, common.end, BLOCK_BYTES)
        answer = await self._ask(address, request(RequestCode.LOG_DIGESTS, header))
        if answer is None:
            return ""
        ours = digests(common, node.store.slice)
        at = differs(ours, decode_body(LogDigests, answer.body).blocks)
        return "" if at is None else different(replica, master, at)

    async def _ask(self, address: str, command: Command) -> Command | None:
        """The answer; None from a peer that does not know the request."""
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        check(answer)
        return answer
