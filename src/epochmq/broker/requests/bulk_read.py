"""BULK_READ 34003: read the stored records of a queue, megabytes per answer (ADR 0035).

A pull returns few messages (32 by default); BULK_READ is for readers of whole queues. It has no
consumer group, no long polling and no offset commits. The permissions are those of pulls: role and
topic are checked by `pull_gate`. No record beyond the readable end is returned (INV-23).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.ports import Buffer
from epochmq.base.unbounded import UNLIMITED
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler, check_unsent
from epochmq.broker.requests.pull_gate import check_broker, readable_topic
from epochmq.broker.requests.pull_handler import code_of
from epochmq.model import properties as props
from epochmq.model import record
from epochmq.model.property_names import TAGS
from epochmq.model.tags import java_hash, split_expression
from epochmq.native import library
from epochmq.native.library import Bare
from epochmq.store.read import Accept, GetStatus, ReadResult, Verify
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pull_headers import BulkReadHeader, BulkReadResponseHeader
from epochmq.wire.session import Session

READER = "BULK_READ"
"""Name of these readers in the broker's statistics, instead of a consumer group."""

STEP_UNITS = 1024
"""Consume queue units that one call of the store reads."""

_TAGS = TAGS.encode()
_PASSED = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL})
"""Read results without records here, where later units may have some."""


class BulkFilter(NamedTuple):
    """Filter on tags: `accept` compares the hash in the unit, `verify` the tag in the record.

    Different tags can have the same hash.
    """

    accept: Accept | None = None
    verify: Verify | None = None


EVERYTHING = BulkFilter()


def handle_bulk_read(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Answer the records from `offset` on (BULK_READ 34003); raises `Refused`.

    The code is 0, without records when the filter matched none, 19 when there is no record yet, 21
    when the offset is outside the queue.
    """
    header = decode_header(BulkReadHeader, command.ext)
    check_broker(node)
    topic = readable_topic(node, header.topic)
    if not 0 <= header.queueId < topic.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queueId}] is illegal, topic:[{header.topic}]"
            f" topicConfig.readQueueNums:[{topic.read_queue_nums}]",
        )
    size = _wanted_bytes(header.maxBytes)
    check_unsent(session, size)
    found = gather(node, header, size, filter_of(header.tags))
    _count(node, header.topic, header.queueId, found)
    answer = BulkReadResponseHeader(
        found.next_offset,
        found.min_offset,
        found.max_offset,
        found.count,
        node.group_position.epoch if node.options.enable_controller_mode else None,
    )
    if found.status is GetStatus.DAMAGED:
        place = header.topic, header.queueId, found.next_offset
        answer.behindDamage = node.store.behind_damage(*place)
    body: Buffer | Sequence[Buffer] = found.chunks
    if header.withoutBodies and (bare := _bare()) is not None:
        body = bare.of(found.chunks)
    remark = found.reason or found.status.name
    return Reply(_code(found, header.offset), remark, answer, body)


@cache
def _bare() -> Bare | None:
    """Return the encoder that omits bodies; None without native code, which sends the bodies."""
    native = library.library()
    return Bare(native) if native else None


def _wanted_bytes(asked: int | None) -> int:
    if asked is None:
        return limits.BULK_READ_BYTES
    if asked <= 0:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"maxBytes {asked} must be at least 1, at most {limits.BULK_READ_BYTES_MAX}",
        )
    return min(asked, limits.BULK_READ_BYTES_MAX)


def filter_of(tags: str | None) -> BulkFilter:
    """Return the filter for a tag expression; raises `Refused` 23 for one without a tag."""
    wanted = split_expression(tags)
    if wanted is None:
        return EVERYTHING
    names = frozenset(tag.encode() for tag in wanted)
    codes = frozenset(map(java_hash, wanted))

    def verify(raw: memoryview) -> bool:
        return props.find(record.properties_at(raw, 0), _TAGS) in names

    return BulkFilter(codes.__contains__, verify)


def gather(
    node: BrokerContext,
    header: BulkReadHeader,
    size: int,
    wanted: BulkFilter,
) -> ReadResult:
    """Read records of up to `size` bytes in total, at least one if there is one.

    The answer ends before records that are not in memory, except the first ones.
    """
    stop = UNLIMITED if header.endOffset is None else header.endOffset
    at, last = header.offset, header.offset + limits.BULK_READ_RECORDS_MAX

    def read(offset: int, room: int) -> ReadResult:
        return node.store.read_queue(
            header.topic,
            header.queueId,
            offset,
            min(STEP_UNITS, stop - offset),
            room,
            *wanted,
            stop=stop,
            from_memory=offset > at and node.cold_reads.has_room,
        )

    if at >= stop:
        return _nothing(node, header)
    return _joined(read, at, min(stop, last), size)


def _joined(read: Callable[[int, int], ReadResult], at: int, last: int, size: int) -> ReadResult:
    """Join as many reads as needed into one result."""
    found = more = read(at, size)
    chunks, count, total = list(found.chunks), found.count, found.size
    while total < size and more.next_offset < min(last, more.max_offset):
        if more.status is not GetStatus.FOUND and more.status not in _PASSED:
            break
        more = read(more.next_offset, size - total)
        if more.prefetch is not None:
            break
        if more.status is GetStatus.FOUND and more.size > size - total:
            break  # the record is larger than the remaining space; the next answer begins with it
        found = more
        chunks += more.chunks
        count += more.count
        total += more.size
    bounds = found.min_offset, found.max_offset
    if not chunks and more.status is GetStatus.DAMAGED:
        found = more
    status, reason = (GetStatus.FOUND, "") if chunks else (found.status, found.reason)
    return ReadResult(status, chunks, count, found.next_offset, *bounds, total, reason)


def _nothing(node: BrokerContext, header: BulkReadHeader) -> ReadResult:
    """Return the result for an empty range."""
    low, high = node.store.queue_bounds(header.topic, header.queueId)
    return ReadResult(GetStatus.NO_MATCHED_MESSAGE, [], 0, header.offset, low, high, 0)


def _code(found: ReadResult, asked: int) -> ResponseCode:
    """Return the code as for a pull, but SUCCESS when the read only skipped units."""
    if found.status in _PASSED:
        return ResponseCode.SUCCESS
    return code_of(found, asked)


def _count(node: BrokerContext, topic: str, queue_id: int, found: ReadResult) -> None:
    if found.count:
        node.stats.read(
            topic, queue_id, READER, found.count, found.size, next_offset=found.next_offset
        )


HANDLERS: dict[int, NodeHandler] = {RequestCode.BULK_READ: handle_bulk_read}
