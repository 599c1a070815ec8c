"""Requests of data pipelines to EpochMQ brokers: bulk reads, digests, log bytes.

RocketMQ's brokers refuse them with code 3.
"""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core.consumer_state import PullStatus, status_of
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import EpochOffsets, KeyPlacesBody, LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pull_headers import (
    BulkReadHeader,
    BulkReadResponseHeader,
    EpochOffsetsHeader,
    KeyPlacesHeader,
    LogDigestsHeader,
    LogReadHeader,
    LogReadResponseHeader,
)

TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class BulkRead:
    """The answer to a bulk read. `next_offset` is the offset of the next read, whatever
    the status.
    """

    status: PullStatus
    """FOUND (possibly without records, if the filter matched none), NO_NEW_MSG or
    OFFSET_ILLEGAL."""
    records: bytes
    """Whole records as in the commit log, one after the other, in the order of the queue."""
    count: int
    next_offset: int
    min_offset: int
    max_offset: int
    epoch: int | None
    """The master's epoch as that broker knows it; None without a controller."""


@dataclass(frozen=True, slots=True)
class QueuePlaces:
    """Where a queue may have messages with a key: among the queue offsets from `start` to `stop`
    (exclusive) only at `offsets`.
    """

    start: int
    stop: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a broker's commit log; offsets are bytes.

    Attributes:
        data: the bytes that end at `next_offset`.
        next_offset: offset of the next read.
        start: first offset of the broker's log.
        confirmed: end of the confirmed log (exclusive).
    """

    data: bytes
    next_offset: int
    start: int
    confirmed: int


class DamageThere(Refused):
    """The log of the replica is damaged from queue offset `start` up to `stop` (exclusive)."""

    def __init__(self, code: int, remark: str, start: int, stop: int) -> None:
        super().__init__(code, remark)
        self.start = start
        self.stop = stop


class BulkCalls:
    """Bulk requests to one replica, chosen by broker id (0 is the master) or by address."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        end: int | None = None,
        max_bytes: int = limits.BULK_READ_BYTES,
        tags: str | None = None,
        bodies: bool = True,
        broker_id: int = 0,
        address: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> BulkRead:
        """Read records of `queue` from queue offset `offset` on.

        The answer has at least one record if there is one, and otherwise as many as fit into
        `max_bytes`. In a topic that stores batches as one record, the answer may hold messages
        before `offset` and behind `end`.

        Args:
            queue: the queue to read.
            offset: queue offset of the first message wanted.
            end: queue offset to stop at (exclusive); None means the end of the queue.
            max_bytes: bytes of records in the answer.
            tags: only messages with these tags, as "a || b"; None means all.
            bodies: False asks the broker to leave bodies out; some brokers send them all the same.
            broker_id: the replica to ask if `address` is None; 0 is the master.
            address: address of the replica to ask.
            timeout_ms: milliseconds for the request.

        Raises:
            DamageThere: the log of that replica is damaged at `offset`.
            Refused: any other error code.
            NotReachable: no address is known, or no answer in time.
        """
        header = BulkReadHeader(
            topic=queue.topic,
            queueId=queue.queue_id,
            offset=offset,
            maxBytes=max_bytes,
            endOffset=end,
            tags=tags,
            withoutBodies=None if bodies else True,
            bname=queue.broker_name,
        )
        command = request(RequestCode.BULK_READ, header)
        where = address or self._address(queue.broker_name, broker_id)
        return bulk_read(await self._instance.call(where, command, timeout_ms))

    async def epoch_offsets(
        self, topic: str, broker_name: str, epoch: int, *, broker_id: int = 0
    ) -> dict[int, int]:
        """Return, by queue id, the first queue offset that the master of `epoch` or a later one
        wrote.
        """
        header = EpochOffsetsHeader(topic=topic, epoch=epoch, bname=broker_name)
        command = request(RequestCode.EPOCH_OFFSETS, header)
        where = self._address(broker_name, broker_id)
        answer = checked(await self._instance.call(where, command, TIMEOUT_MS))
        offsets = decode_body(EpochOffsets, answer.body).offsets
        return {int(queue_id): offset for queue_id, offset in offsets.items()}

    async def key_places(self, topic: str, key: str, address: str) -> dict[int, QueuePlaces]:
        """Return, by queue id, where the messages of `topic` with `key` are.

        Args:
            topic: the topic.
            key: one of the keys of a message, or its unique key; the comparison is exact.
            address: address of the broker.

        Returns:
            Nothing for a queue whose messages the index does not have completely, and for more than
            10,000 messages: only a reader of the queue finds them.
        """
        command = request(RequestCode.KEY_PLACES, KeyPlacesHeader(topic=topic, key=key))
        answer = checked(await self._instance.call(address, command, TIMEOUT_MS))
        queues = decode_body(KeyPlacesBody, answer.body).queues
        return {
            int(queue_id): QueuePlaces(start, stop, tuple(offsets))
            for queue_id, (start, stop, offsets) in queues.items()
        }

    async def digests(
        self,
        address: str,
        start: int,
        end: int | None = None,
        *,
        block_bytes: int = limits.DIGEST_BLOCK_BYTES,
    ) -> LogDigests:
        """Return digests of the blocks of a log between two offsets, at the broker at `address`.

        One answer covers at most 64 MiB; the next request begins behind its last block. No block
        ends behind the confirmed offset of the broker.

        Args:
            address: address of the broker.
            start: first commit log offset in bytes.
            end: last commit log offset in bytes (exclusive); None means the confirmed offset.
            block_bytes: size of a block.
        """
        header = LogDigestsHeader(fromOffset=start, toOffset=end, blockBytes=block_bytes)
        command = request(RequestCode.LOG_DIGESTS, header)
        answer = checked(await self._instance.call(address, command, TIMEOUT_MS))
        return decode_body(LogDigests, answer.body)

    async def log(
        self, address: str, offset: int, max_bytes: int = limits.BULK_READ_BYTES
    ) -> LogPart:
        """Read confirmed bytes of the log from `offset` on.

        Args:
            address: address of the broker.
            offset: commit log offset in bytes.
            max_bytes: bytes in the answer at most; an answer never crosses the end of a log file.

        Returns:
            The bytes; empty at the confirmed end.

        Raises:
            Refused: `offset` is outside the log (21).
        """
        command = request(
            RequestCode.LOG_READ, LogReadHeader(fromOffset=offset, maxBytes=max_bytes)
        )
        answer = await self._instance.call(address, command, TIMEOUT_MS)
        if answer.code != ResponseCode.PULL_NOT_FOUND:
            checked(answer)
        found = decode_header(LogReadResponseHeader, answer.ext)
        return LogPart(bytes(answer.body), found.nextOffset, found.start, found.confirmed)

    def _address(self, broker_name: str, broker_id: int) -> str:
        address = self._instance.routes.address(broker_name, broker_id)
        if address is None:
            raise NotReachable(f"no address of broker {broker_name} is known")
        return address


def bulk_read(answer: Command) -> BulkRead:
    """Decode the answer to a bulk read. Raises `DamageThere` or `Refused` for an error code."""
    status = status_of(answer.code)
    if status is None:
        remark = answer.remark or f"refused with code {answer.code}"
        if answer.code == ResponseCode.SYSTEM_ERROR and "behindDamage" in (answer.ext or {}):
            there = decode_header(BulkReadResponseHeader, answer.ext)
            raise DamageThere(answer.code, remark, there.nextOffset, there.behindDamage or 0)
        raise Refused(answer.code, remark)
    header = decode_header(BulkReadResponseHeader, answer.ext)
    return BulkRead(
        status,
        bytes(answer.body),
        header.count,
        header.nextOffset,
        header.minOffset,
        header.maxOffset,
        header.brokerEpoch,
    )
