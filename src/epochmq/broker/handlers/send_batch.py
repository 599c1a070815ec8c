"""Batches (320, or any send whose header says batch): all records or none, in one place.

The batch's own properties are added to each record's.
"""

from typing import NamedTuple

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, TOPIC_LENGTH_MAX
from epochmq.broker.handlers.send_answers import refusal
from epochmq.broker.handlers.send_inner_batch import take_inner_batch
from epochmq.broker.handlers.send_packed import take_packed
from epochmq.broker.handlers.send_properties import BatchTail
from epochmq.broker.handlers.send_sink import appended_at, furthest, merged
from epochmq.broker.handlers.send_stage import SendStage
from epochmq.broker.handlers.send_sync import failure
from epochmq.broker.handlers.send_topics import AnySendHeader
from epochmq.model import batch
from epochmq.model.properties import decode_bytes
from epochmq.model.sink_mark import SINK_ID, SinkMark, mark_of
from epochmq.model.sys_flag import INNER_BATCH, TX_PREPARED
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

_SINK_ID = SINK_ID.encode()


def take_batch(
    stage: SendStage,
    session: Session,
    command: Command,
    header: AnySendHeader,
    body: bytes | memoryview,
    now: int,
) -> None:
    """Check, append and answer one batch; raises `Refused` or `BatchError`."""
    send_topic = stage.send_topics.get(header.topic) or stage.open_send_topic(
        header, command.version
    )
    if send_topic.retry_group is not None or len(send_topic.topic) > TOPIC_LENGTH_MAX:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group or long topic"
        )
    if header.sysFlag & TX_PREPARED:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction")
    queue_id = stage.choose_queue(send_topic, header.queueId, session, command.version)
    if not 0 < len(body) <= stage.body_max:
        raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
    common = stage.completer.complete(header.properties, draw=False)
    if send_topic.batched or header.sysFlag & INNER_BATCH:
        if take_inner_batch(
            stage, session, command, header, (send_topic, queue_id), body, common, now
        ):
            return
    tail = BatchTail(common)
    place = (send_topic.topic, queue_id)
    if stage.native is not None and take_packed(
        stage, session, command, header, place, body, tail, common.wait, now
    ):
        return
    drafts, marks = _drafts(stage, session, header, place, body, tail)
    stage.flush(now)
    if any(marks):
        stored = _append_marked(stage, queue_id, drafts, marks)
    else:
        stored = _append(stage, drafts)
    if isinstance(stored, PutStatus):
        session.answer(command, refusal(stored, stage.body_max))
        return
    added = stored.added
    stage.count(header.topic, queue_id, len(added), sum(result.size for result in added))

    def settle(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        answer = stage.answers.header(queue_id, stored.results, common.uniq_key or None)
        answer.sinkRepeats = len(stored.results) - len(added) or None
        session.answer(command, Reply(code, header=answer))

    if stored.last is not None and stage.parks(common.wait):
        stage.park(stored.last, now, settle)
    else:
        settle(stage.at_once(settled=stored.last is None))


class _Stored(NamedTuple):
    """A batch that is in the log; `results` has a place for each of its messages."""

    results: list[Appended]
    added: list[Appended]
    last: Appended | None
    """What its answer waits for; None when all of it was there for good."""


def _append(stage: SendStage, drafts: list[Draft]) -> _Stored | PutStatus:
    results = stage.closed() or stage.node.store.append_batch(drafts, stage.node.clock.wall_ms())
    if isinstance(results, PutStatus):
        return results
    return _Stored(results, results, results[-1])


def _append_marked(
    stage: SendStage, queue_id: int, drafts: list[Draft], marks: list[SinkMark | None]
) -> _Stored | PutStatus:
    """Append what of a sink's batch is not there yet, all of that or none."""
    closed = stage.closed()
    if closed is not None:
        return closed
    places = stage.sinks.places(marks)
    fresh = [n for n, place in enumerate(places) if place is None]
    added: list[Appended] = []
    if fresh:
        new = _append(stage, [drafts[n] for n in fresh])
        if isinstance(new, PutStatus):
            return new
        added = new.results
        stage.sinks.note(queue_id, [marks[n] for n in fresh], added)
    first = furthest(places)
    last = added[-1] if added else None if first is None else appended_at(first)
    return _Stored(merged(places, added), added, last)


def _drafts(
    stage: SendStage,
    session: Session,
    header: AnySendHeader,
    place: tuple[str, int],
    body: bytes | memoryview,
    tail: BatchTail,
) -> tuple[list[Draft], list[SinkMark | None]]:
    topic, queue_id = place
    sys_flag, born, reconsumed = header.sysFlag, header.bornTimestamp, header.reconsumeTimes or 0
    host = session.peer_packed
    complete = tail.complete
    drafts: list[Draft] = []
    marks: list[SinkMark | None] = []
    for entry in batch.decode(body):
        if not entry.body:
            raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
        properties, keys, tags = complete(entry.properties)
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise stage.refused(PutStatus.PROPERTIES_SIZE_EXCEEDED)
        marked = _SINK_ID in entry.properties
        marks.append(mark_of(topic, decode_bytes(entry.properties)) if marked else None)
        drafts.append(
            Draft(
                topic,
                queue_id,
                entry.body,
                properties,
                tags,
                keys,
                entry.flag,
                sys_flag,
                born,
                host,
                reconsumed,
            )
        )
    return drafts, marks
