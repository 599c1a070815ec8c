"""Parses POP requests and answers for checkers: which message belongs to which check point."""

from typing import NamedTuple

from epochmq.base.limits import POP_ACKS_PER_REQUEST_MAX
from epochmq.client.core.pop_state import parse, retry_topic_of
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.pop_bodies import BatchAckBody
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command
from epochmq.wire.header import decode_header
from epochmq.wire.headers.pop_headers import AckHeader, ChangeInvisibleTimeHeader


class Place(NamedTuple):
    """The place of one message in a queue."""

    topic: str
    queue_id: int
    offset: int


class Ticket(NamedTuple):
    """One message of a check point, or of a batch that was popped in order."""

    place: Place
    start: int
    pop_time: int


def acked_by(request: Command, group: str) -> list[Ticket]:
    """Return the messages that a request acknowledges for `group`; empty for other requests."""
    if request.code == RequestCode.ACK_MESSAGE:
        header = decode_header(AckHeader, request.ext)
        return [ticket_of(header)] if header.consumerGroup == group else []
    if request.code != RequestCode.BATCH_ACK_MESSAGE:
        return []
    return [
        Ticket(
            Place(retry_topic_of(one.topic, group, one.retry), one.queue_id, offset),
            one.start_offset,
            one.pop_time,
        )
        for one in decode_body(BatchAckBody, request.body).acks
        if one.consumer_group == group
        for offset in one.offsets(POP_ACKS_PER_REQUEST_MAX) or ()
    ]


def ticket_of(header: AckHeader | ChangeInvisibleTimeHeader) -> Ticket:
    handle = parse(header.extraInfo)
    place = Place(header.topic, header.queueId, header.offset)
    return Ticket(place, handle.ck_offset, handle.pop_wall_ms)


def entries(text: str | None) -> list[tuple[tuple[str, str], str]]:
    """Parse `startOffsetInfo` or `msgOffsetInfo` to ((mark, queue), value)."""
    found = [entry.split(" ") for entry in (text or "").split(";") if entry]
    return [((mark, queue), value) for mark, queue, value in found]
