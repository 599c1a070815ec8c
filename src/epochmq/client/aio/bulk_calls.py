"""Bulk calls of data pipelines to EpochMQ brokers; a Java broker refuses them with code 3."""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.aio.name_servers import checked
from epochmq.client.core.consumer_state import PullStatus, status_of
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.offset_bodies import EpochOffsets, LogDigests
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, request
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pull_headers import (
    BulkReadHeader,
    BulkReadResponseHeader,
    EpochOffsetsHeader,
    LogDigestsHeader,
    LogReadHeader,
    LogReadResponseHeader,
)

TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class BulkRead:
    """What a bulk read brought; `next_offset` is where to go on, whatever the status."""

    status: PullStatus
    """FOUND (with no record where the filter wanted none), NO_NEW_MSG or OFFSET_ILLEGAL."""
    records: bytes
    """Whole records, one after the other, in the queue's order."""
    count: int
    next_offset: int
    min_offset: int
    max_offset: int
    epoch: int | None
    """The master's epoch as that broker knows it; None without a controller."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a broker's log up to `next_offset`; what it has is `[start, confirmed)`."""

    data: bytes
    next_offset: int
    start: int
    confirmed: int


class DamageThere(Refused):
    """That replica's log is damaged from queue offset `start` up to `stop` (exclusive)."""

    def __init__(self, code: int, remark: str, start: int, stop: int) -> None:
        super().__init__(code, remark)
        self.start = start
        self.stop = stop


class BulkCalls:
    """Asks the replica that is wanted, by number (0 the master) or by address."""

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
        """Records of `queue` from `offset` on, up to queue offset `end` (exclusive).

        One at least, else as many as fit into `max_bytes`. A topic that keeps batches as one record
        may bring messages before `offset` and behind `end` with it. Without `bodies` a broker that
        can leaves them out; others send them all the same.
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
        """By queue id the first queue offset that the master of `epoch`, or a later one, wrote."""
        header = EpochOffsetsHeader(topic=topic, epoch=epoch, bname=broker_name)
        command = request(RequestCode.EPOCH_OFFSETS, header)
        where = self._address(broker_name, broker_id)
        answer = checked(await self._instance.call(where, command, TIMEOUT_MS))
        offsets = decode_body(EpochOffsets, answer.body).offsets
        return {int(queue_id): offset for queue_id, offset in offsets.items()}

    async def digests(
        self,
        address: str,
        start: int,
        end: int | None = None,
        *,
        block_bytes: int = limits.DIGEST_BLOCK_BYTES,
    ) -> LogDigests:
        """Digests of the log's blocks between two log offsets, at the broker at `address`.

        One answer covers 64 MiB at most: go on behind its last block. No block ends behind what
        that broker calls confirmed.
        """
        header = LogDigestsHeader(fromOffset=start, toOffset=end, blockBytes=block_bytes)
        command = request(RequestCode.LOG_DIGESTS, header)
        answer = checked(await self._instance.call(address, command, TIMEOUT_MS))
        return decode_body(LogDigests, answer.body)

    async def log(
        self, address: str, offset: int, max_bytes: int = limits.BULK_READ_BYTES
    ) -> LogPart:
        """Confirmed bytes of the log from `offset` on, those of one log file at most; none at the
        confirmed end. `Refused` 21 outside the log."""
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
    """The answer to a bulk read; `Refused` with whatever else the broker says."""
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
