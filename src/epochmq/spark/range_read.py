"""Fetches raw records of a range of one queue in chunks, from any replica that has them.

A range is planned up to an offset that a broker reported as readable, so missing records may still
arrive: a follower may lag, and a new master may still wait for its replicas. Messages count as
lost only after a master has reported so for some time.
"""

import asyncio
from dataclasses import dataclass

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.base.ports import Buffer
from epochmq.client.aio.admin_client import Admin
from epochmq.client.aio.bulk_calls import BulkCalls, BulkRead, DamageThere
from epochmq.client.core.consumer_state import PullStatus
from epochmq.client.core.route_cache import MASTER_ID
from epochmq.model import record
from epochmq.model.group import SubscriptionData, build
from epochmq.model.names import TOOLS_GROUP
from epochmq.model.topic import MessageQueue
from epochmq.spark.retry import DataLost, Lost, Retries, Retry, check_passing, is_missing
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers import pull_headers

AUTO, MASTER, FOLLOWER = "auto", "master", "follower"
READ_FROM = (AUTO, MASTER, FOLLOWER)

PULL_COUNT = 1024
"""The message count of one pull request; brokers return 32 unless they are configured otherwise."""

READ_TIMEOUT_MS = 5_000
LOSS_CERTAIN_MS = 10_000
"""A master must report for this long that a queue ends before an offset that was readable."""


@dataclass(frozen=True, slots=True)
class RawChunk:
    """Whole records in queue order; the read continues at `next_offset`. Bounds are the queue's."""

    records: Buffer
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Want:
    """A read of `queue` from `offset` to `end` (exclusive), about `max_bytes` at a time.

    `tags` is an expression such as "a || b". Brokers compare hashes, so other tags may be included.
    """

    queue: MessageQueue
    offset: int
    end: int
    tags: str | None = None
    max_bytes: int = 1 << 20
    read_from: str = AUTO
    bodies: bool = True
    """False if the broker may leave bodies out."""
    skips_damage: bool = False
    """Whether a record that stays damaged at every replica counts as lost."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """A replica's answer without records; `lost` has the messages that are gone if it stays so."""

    said: str
    lost: Lost | None = None
    certain: bool = False


class RangeReads:
    """Reads ranges of the queues of one cluster."""

    def __init__(self, admin: Admin, retries: Retries) -> None:
        self._admin = admin
        self._retries = retries
        self._bulk = BulkCalls(admin.instance)
        self._pull_only: set[str] = set()

    async def chunk(self, want: Want) -> RawChunk:
        """Return the next records of `want`, at least one offset; retry during failovers.

        Raises `DataLost` for messages that are gone, `NotReachable` when no replica returns records
        in time, and `DamageThere` when the records are damaged at the replicas that could return
        them.
        """
        retries, topic = self._retries, want.queue.topic
        retry = Retry(retries, f"reading {want.queue} from queue offset {want.offset}")
        await retries.meet()
        suspected_at: float | None = None
        while True:
            problem: Exception
            try:
                await retries.refresh(topic)
                heard = await self._from_any(want)
                if isinstance(heard, RawChunk):
                    return heard
                problem = NotReachable(heard.said)
                suspected_at = _check_loss(heard, suspected_at, retries.timeout_ms)
            except DamageThere as error:
                if not want.skips_damage:
                    raise
                problem = error  # a replica may be repairing it
                suspected_at = _check_loss(damage(want, error), suspected_at, retries.timeout_ms)
            except (NotFound, NotReachable, Refused) as error:
                if is_missing(error) and await retries.is_gone(topic):
                    why = "the topic is not there any more"
                    raise DataLost(Lost(want.queue, want.offset, want.end, why)) from None
                check_passing(error)
                problem = error
            await retry.pause(problem)
            retries.expire(topic)

    async def _from_any(self, want: Want) -> RawChunk | Nothing:
        """Return the chunk of the first replica that has it; else the answer of the master or a
        follower.
        """
        answers: dict[int, Nothing] = {}
        problem: Exception = NotReachable(f"broker {want.queue.broker_name} has no replica now")
        damaged: DamageThere | None = None
        for broker_id, address in self._places(want):
            try:
                heard = await self._read(address, want)
            except DamageThere as error:
                damaged = damaged or error
                continue
            except (NotReachable, Refused) as error:
                check_passing(error)
                problem = error
                continue
            if isinstance(heard, RawChunk):
                return heard
            answers[broker_id] = heard if broker_id == MASTER_ID else Nothing(heard.said)
        if damaged is not None:
            raise damaged
        if not answers:
            raise problem
        return answers[min(answers)]

    def _places(self, want: Want) -> list[tuple[int, str]]:
        """Return id and address of the replicas to ask, in order."""
        route = self._admin.instance.routes.route(want.queue.topic)
        addresses: dict[int, str] = {}
        for data in route.broker_datas if route is not None else ():
            if data.broker_name == want.queue.broker_name:
                addresses = dict(data.broker_addrs)
        return in_order(addresses, want.read_from, want.queue.queue_id)

    async def _read(self, address: str, want: Want) -> RawChunk | Nothing:
        """Read by bulk request if the broker supports it; other brokers are read by pull
        requests.
        """
        if address not in self._pull_only:
            try:
                return bulk_read(await self._in_bulk(address, want), want)
            except Refused as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._pull_only.add(address)
        return await self._pull(address, want)

    async def _in_bulk(self, address: str, want: Want) -> BulkRead:
        return await self._bulk.read(
            want.queue,
            want.offset,
            end=want.end,
            max_bytes=want.max_bytes,
            tags=want.tags,
            bodies=want.bodies,
            address=address,
            timeout_ms=READ_TIMEOUT_MS,
        )

    async def _pull(self, address: str, want: Want) -> RawChunk | Nothing:
        command = request(RequestCode.PULL_MESSAGE, pull_header(want))
        answer = await self._admin.instance.call(address, command, READ_TIMEOUT_MS)
        return pulled(answer, want)


def in_order(addresses: dict[int, str], read_from: str, spread: int) -> list[tuple[int, str]]:
    """Return the replicas in the order in which to ask them; `spread` selects the first
    follower.
    """
    master = [(MASTER_ID, addresses[MASTER_ID])] if MASTER_ID in addresses else []
    followers = [(n, addresses[n]) for n in sorted(addresses) if n != MASTER_ID]
    if read_from == MASTER:
        return master
    if read_from == FOLLOWER and followers:
        at = spread % len(followers)
        return followers[at:] + followers[:at] + master
    return master + followers


def pull_header(want: Want) -> pull_headers.PullHeader:
    """Return the header of a pull request, for a group that every broker knows, with its own
    filter.
    """
    data = filter_of(want)
    return pull_headers.PullHeader(
        consumerGroup=TOOLS_GROUP,
        topic=want.queue.topic,
        queueId=want.queue.queue_id,
        queueOffset=want.offset,
        maxMsgNums=min(PULL_COUNT, want.end - want.offset),
        sysFlag=pull_headers.SUBSCRIPTION,
        commitOffset=0,
        suspendTimeoutMillis=0,
        subVersion=data.sub_version,
        subscription=data.sub_string,
        expressionType=data.expression_type,
        bname=want.queue.broker_name,
    )


def filter_of(want: Want) -> SubscriptionData:
    return build(want.queue.topic, want.tags or "*")


def bulk_read(found: BulkRead, want: Want) -> RawChunk | Nothing:
    """Convert the answer to a bulk read of `want`."""
    low, high = found.min_offset, found.max_offset
    if found.status is PullStatus.FOUND and found.next_offset > want.offset:
        return RawChunk(found.records, min(found.next_offset, want.end), low, high)
    return nothing(want, low, high)


def pulled(answer: Command, want: Want) -> RawChunk | Nothing:
    """Convert the answer to a pull of `want`; raises `Refused` for an error code."""
    code = answer.code
    if code not in _PULL_CODES:
        raise Refused(code, answer.remark or f"refused with code {code}")
    header = decode_header(pull_headers.PullResponseHeader, answer.ext)
    low, high, following = header.minOffset, header.maxOffset, header.nextBeginOffset
    if code == ResponseCode.SUCCESS:
        records = before(answer.body, want.end)
        return RawChunk(records, min(following, want.end), low, high)
    skips = want.tags is not None and low <= want.offset < following <= high
    if code == ResponseCode.PULL_RETRY_IMMEDIATELY and skips:
        return RawChunk(b"", min(following, want.end), low, high)
    return nothing(want, low, high)


_PULL_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def nothing(want: Want, low: int, high: int) -> Nothing:
    """Return the reason why a queue that has `low` to `high` returned no record, and what is
    lost.
    """
    queue, offset, end = want.queue, want.offset, want.end
    if offset < low:
        why = f"the queue begins at {low} now, older messages were deleted"
        return Nothing(why, Lost(queue, offset, min(low, end), why), certain=True)
    said = f"{queue} ends at queue offset {high} there, {offset} is wanted"
    if offset < high:
        return Nothing(f"{queue} gave no message at queue offset {offset}")
    why = f"the queue ends at {high}, so the topic was created again or its log was cut"
    return Nothing(said, Lost(queue, offset, end, why))


def damage(want: Want, there: DamageThere) -> Nothing:
    """Return the reason and the loss when the next record is damaged at each available replica."""
    stop = max(min(there.stop, want.end), want.offset + 1)
    return Nothing(there.remark, Lost(want.queue, want.offset, stop, there.remark))


def _check_loss(heard: Nothing, suspected_at: float | None, timeout_ms: int) -> float | None:
    """Raise `DataLost` for a certain loss; else return since when it is suspected (loop
    seconds).
    """
    if heard.lost is None:
        return None
    now = asyncio.get_running_loop().time()
    if suspected_at is None:
        suspected_at = now
    wait_ms = min(LOSS_CERTAIN_MS, timeout_ms // 2)  # report a loss before the timeout of the call
    if heard.certain or (now - suspected_at) * 1000 >= wait_ms:
        raise DataLost(heard.lost)
    return suspected_at


def before(records: Buffer, end: int) -> Buffer:
    """Return the records whose queue offset is below `end`; a filtered pull may return more."""
    at, size = 0, len(records)
    while at + record.OFFSET_AT <= size:
        if record.queue_offset_at(records, at) >= end:
            return memoryview(records)[:at]
        at += max(record.size_at(records, at), record.OFFSET_AT)
    return records
