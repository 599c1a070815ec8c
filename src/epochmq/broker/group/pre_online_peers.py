"""Requests to other members for pre-online: 906, table copies, and log comparison (907,
LOG_DIGESTS)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from epochmq.base.errors import PeerError
from epochmq.base.ports import Buffer
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.metadata_sync import NEW, OPTIONAL
from epochmq.broker.group.replicated_tables import CopiedTable, decoder_of
from epochmq.model.log_blocks import blocks_of, digest
from epochmq.runtime.fetch_table import fetch_table
from epochmq.runtime.peers import Peers
from epochmq.wire.bodies.body import decode_body
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
# Whether a replica's log is a prefix of its master's: compares lengths, and digests of the last
# bytes.
#
# Plain replication has no epochs; its slaves assume that their log is a prefix of the master's. It
# is not when a master lost its tail in a power failure and wrote on, or wrote on while the slave
# was gone: then two different records begin at the same offset. All bytes after that offset differ
# as well, so comparing the last bytes that both logs have is enough (H9). No I/O here; the request
# is LOG_DIGESTS (34005).


BLOCK_BYTES = 64 * 1024
WINDOW_BYTES = 4 * BLOCK_BYTES

ADVICE = (
    "Both cannot be right, and nothing is cut by itself. Either the replica's log is to stay: stop"
    " both, exchange their brokerRole and brokerId, move the other store away and start them. Or it"
    " is to go: stop the replica, move its store away and start it again, it copies the master's"
    " log; what is in its store alone is lost then. `epochmq pipeline audit` shows the difference."
)


class CommonRange(NamedTuple):
    """The bytes `[start, end)` that both logs should have in common."""

    start: int
    end: int


def too_long(replica: str, replica_end: int, master: str, master_end: int) -> str:
    """Return the error text for a replica whose log is longer than its master's; "" when it is
    not."""
    if replica_end <= master_end:
        return ""
    return (
        f"the log of {replica} goes on to {replica_end}, that of its master {master} ends at"
        f" {master_end}: what lies between exists at the replica alone. {ADVICE}"
    )


def window(start: int, end: int, their_end: int) -> CommonRange | None:
    """Return the range to compare of a log `[start, end)`; None when no common range is certain."""
    last = min(end, their_end)
    first = max(start, last - last % BLOCK_BYTES - WINDOW_BYTES)
    return CommonRange(first, last) if first < last else None


def digests(
    compared: CommonRange, read: Callable[[int, int], Buffer]
) -> dict[tuple[int, int], str]:
    """Return the digests of the own log's blocks by (offset, bytes); `read` returns bytes up to a
    file's end."""
    found = {}
    for offset, size in blocks_of(compared.start, compared.end, BLOCK_BYTES):
        parts, at = [], offset
        while at < offset + size and len(part := read(at, offset + size - at)):
            parts.append(part)
            at += len(part)
        found[offset, size] = digest(parts)
    return found


def differs(own: dict[tuple[int, int], str], theirs: Sequence[tuple[int, int, str]]) -> int | None:
    """Return the offset of the first block that differs, or None; blocks that only one log has are
    ignored."""
    for offset, size, code in theirs:
        if own.get((offset, size), code) != code:
            return offset
    return None


def different(replica: str, master: str, offset: int) -> str:
    """Return the error text for two logs that differ in the block at `offset`."""
    return (
        f"the logs of {replica} and of its master {master} differ, at {offset} or before. {ADVICE}"
    )


# Merge ---------------------------------------------------------------------------------------
# Merges another member's tables: takes what is newer there, keeps what is newer here (H6).
#
# RocketMQ lets one side win a whole table by its stepped version, and so loses either what the
# slave did or what the slave had not copied yet. Here:
#
# - consumer offsets and delay levels: for each queue the higher value, or the later reset; but no
#   offset of a topic or group that was deleted meanwhile, and at a master none past a queue's end;
# - the timer's check point: the other one if it covers everything that ours covers, else both;
# - topics and groups: rows of a newer table replace ours; rows that only we have stay, because a
#   slave deletes nothing by itself;
# - batches of ordered POP: for each queue the later batch, and all acknowledgements of both;
# - the numbers of timer messages that wait: those with the later version;
# - request modes have no version: only rows that we lack are added.


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
"""The order of the merge: offsets of a topic follow the topic, batches follow reset offsets."""


class Merge:
    """Merges into one node's tables; use it only while nothing is delivered there, or for
    offsets."""

    def __init__(self, node: BrokerContext) -> None:
        self._node = node
        self._taking: Mapping[CopiedTable, Callable[[Any, int], None]] = {
            CopiedTable.TOPICS: self._topics,
            CopiedTable.GROUPS: self._groups,
            CopiedTable.MODES: self._modes,
            CopiedTable.OFFSETS: self._offsets,
            CopiedTable.DELAYS: self._delays,
            CopiedTable.TIMER: self._timer,
            CopiedTable.TIMER_METRICS: self._timer_metrics,
            CopiedTable.ORDERS: self._orders,
        }

    def merge_table(self, table: CopiedTable, content: Any, wall: int) -> None:
        """Merge the table that `decoder_of` decoded; raises `ValueError`, `PeerError` or
        `msgspec.ValidationError` when it is invalid."""
        self._taking[table](content, wall)

    def _topics(self, told: TopicConfigTable, wall: int) -> None:
        topics = self._node.topics
        if told.data_version > topics.version:
            merged = {**topics.table, **told.topic_config_table}
            topics.adopt(merged, told.data_version.next_version(wall))

    def _groups(self, told: SubscriptionGroupTable, wall: int) -> None:
        groups = self._node.groups
        if told.data_version > groups.version:
            merged = {**groups.table, **told.subscription_group_table}
            forbidden = {**groups.forbidden_table, **told.forbidden_table}
            groups.adopt(merged, forbidden, told.data_version.next_version(wall))

    def _modes(self, told: MessageRequestModeTable, wall: int) -> None:
        ours = self._node.request_modes.table
        lacking = {
            topic: {group: row for group, row in rows.items() if group not in ours.get(topic, {})}
            for topic, rows in told.message_request_mode_map.items()
        }
        self._node.request_modes.adopt({topic: rows for topic, rows in lacking.items() if rows})

    def _offsets(self, told: dict[str, Any], wall: int) -> None:
        """Merge offsets. A master's log has every message that an offset refers to; a slave's may
        lag."""
        end = self._end if self._node.options.broker_id == 0 else None
        self._node.offsets.merge(told, wall, end)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._node.store.queue_bounds(topic, queue_id)[1]

    def _delays(self, told: dict[str, Any], wall: int) -> None:
        if self._node.delay_offsets.merge(told, wall):
            self._node.delivery.clamp()

    def _timer(self, told: bytes, wall: int) -> None:
        if self._node.timer is not None:
            self._node.timer.progress.adopt(told)

    def _timer_metrics(self, told: dict[str, Any], wall: int) -> None:
        if self._node.timer is not None:
            self._node.timer.driver.metrics.merge(told, wall)

    def _orders(self, told: dict[str, Any], wall: int) -> None:
        pop, now = self._node.pop, self._node.clock.now_ms()
        # A batch that a reset ended must not win against a new one.
        pop.apply_committed_orders(now, wall)
        pop.orders.merge(told, now, wall)
        pop.apply_committed_orders(now, wall)  # nor may their batch of a topic deleted here


# Pre online peers ----------------------------------------------------------------------------


TIMEOUT_MS = 3_000
"""For one request, in ms, as in RocketMQ."""


class PreOnlineClient:
    """Sends requests to members. Raises `PeerError` for a refusal, `NotReachable` without an
    answer."""

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def ask(self, address: str, command: Command) -> Command:
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        check(answer)
        return answer

    async def announce(self, address: str, *, hand_over: bool = True) -> Command:
        """Send a 906 with this broker's addresses. An EpochMQ member steps down before it answers,
        unless `hand_over` is False."""
        node = self._node
        header = ExchangeHAInfoHeader(
            masterHaAddress=node.ha_address,
            masterFlushOffset=node.started_at_offset,
            masterAddress=node.address,
            handOver=None if hand_over else False,
        )
        return await self.ask(address, request(RequestCode.EXCHANGE_BROKER_HA_INFO, header))


def check(answer: Command) -> None:
    """Raise `PeerError` unless the answer's code is SUCCESS."""
    if answer.code != ResponseCode.SUCCESS:
        raise PeerError(f"refused with {answer.code} {answer.remark or ''}".rstrip())


async def pull_tables(node: BrokerContext, peers: Peers, merge: Merge, address: str) -> None:
    """Fetch all tables from the member at `address`, and only then merge them."""
    tables: dict[CopiedTable, Any] = {}
    for table in TAKEN:
        content = await fetch_copy(peers, table, address)
        if content is not None:
            tables[table] = content
    wall = node.clock.wall_ms()
    for table, content in tables.items():
        try:
            merge.merge_table(table, content, wall)
        except (PeerError, msgspec.ValidationError, ValueError, TypeError) as error:
            raise PeerError(f"it sent no usable {table.name}: {error}") from None


async def fetch_copy(peers: Peers, table: CopiedTable, address: str) -> Any | None:
    """Return the whole table of the member at `address`, decoded; None if it has no such table."""

    async def ask(command: Command) -> Command | None:
        answer = await peers.invoke(address, command, TIMEOUT_MS)
        unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and table in NEW
        if unknown or (answer.code != ResponseCode.SUCCESS and table in OPTIONAL):
            return None  # a slave without a timer refuses (H11)
        check(answer)
        return answer

    return await fetch_table(table.value, decoder_of(table), ask)


class LogsAsked:
    """Compares this broker's log with those of other members."""

    def __init__(self, node: BrokerContext, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def compare(
        self, address: str, *, own_is_master: bool, own_end: int | None = None
    ) -> str:
        """Return what is wrong with the two logs, and what to do; "" when no difference is known.

        `own_end`: compare the own log only up to this offset instead of its end.

        RocketMQ's brokers know no digests: only the length of their logs is compared. Raises
        `PeerError` or `NotReachable` when there is no usable answer.
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
        """Return the answer; None from a peer that does not know the request."""
        answer = await self._peers.invoke(address, command, TIMEOUT_MS)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        check(answer)
        return answer
