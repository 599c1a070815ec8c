"""Bulk calls of data pipelines to EpochMQ brokers; a Java broker refuses them with code 3."""

from dataclasses import dataclass

from epochmq.base import limits
from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio.instance import Instance
from epochmq.client.core.pull_state import PullStatus, status_of
from epochmq.model.queue import MessageQueue
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, request
from epochmq.wire.headers.base import decode_header
from epochmq.wire.headers.bulk import BulkReadHeader, BulkReadResponseHeader

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
        broker_id: int = 0,
        address: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> BulkRead:
        """Records of `queue` from `offset` on, up to queue offset `end` (exclusive).

        One at least, else as many as fit into `max_bytes`. A topic that keeps batches as one record
        may bring messages before `offset` and behind `end` with it.
        """
        header = BulkReadHeader(
            topic=queue.topic,
            queueId=queue.queue_id,
            offset=offset,
            maxBytes=max_bytes,
            endOffset=end,
            tags=tags,
            bname=queue.broker_name,
        )
        command = request(RequestCode.BULK_READ, header)
        where = address or self._address(queue.broker_name, broker_id)
        return bulk_read(await self._instance.call(where, command, timeout_ms))

    def _address(self, broker_name: str, broker_id: int) -> str:
        address = self._instance.routes.address(broker_name, broker_id)
        if address is None:
            raise NotReachable(f"no address of broker {broker_name} is known")
        return address


def bulk_read(answer: Command) -> BulkRead:
    """The answer to a bulk read; `Refused` with whatever else the broker says."""
    status = status_of(answer.code)
    if status is None:
        raise Refused(answer.code, answer.remark or f"refused with code {answer.code}")
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
