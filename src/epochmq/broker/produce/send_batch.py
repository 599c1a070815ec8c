"""Batches (320, or any send whose header says batch): all records or none, in one place.

The batch's own properties are added to each record's.
"""

from typing import NamedTuple

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, TOPIC_LENGTH_MAX
from epochmq.broker.produce.send_answers import refusal
from epochmq.broker.produce.send_properties import BatchTail, Parsed, put
from epochmq.broker.produce.send_sink import appended_at, furthest, merged
from epochmq.broker.produce.send_stage import SendStage
from epochmq.broker.produce.send_topics import AnySendHeader, SendTopic
from epochmq.broker.serving.acknowledgement import failure
from epochmq.model import batch
from epochmq.model.properties import decode_bytes
from epochmq.model.property_names import INNER_NUM
from epochmq.model.sink_mark import SINK_ID, SinkMark, mark_of
from epochmq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP, TX_PREPARED
from epochmq.store.batch_queue import INNER_MESSAGES_MAX
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.store.native_batch import CheckedBatch, Placed
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session

# Send inner batch ----------------------------------------------------------------------------
# A batch that is stored as one record, in topics whose attribute queue.type is BatchCQ.
#
# It must have a UNIQ_KEY of its own; without one its messages are stored one by one, in units of
# one message. Tags and keys are those of the batch: readers filter by the record.


def take_inner_batch(
    stage: SendStage,
    session: Session,
    command: Command,
    header: AnySendHeader,
    place: tuple[SendTopic, int],
    body: bytes | memoryview,
    common: Parsed,
    now: int,
) -> bool:
    """Append and answer a batch for `place`; False when its messages are to be stored one by one.

    `common` is what the header says about the whole batch. Raises `Refused` or `BatchError`.
    """
    send_topic, queue_id = place
    if not stage.node.store.is_batched(send_topic.topic):
        if header.sysFlag & INNER_BATCH:
            raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
        return False
    if not common.uniq_key and not header.sysFlag & INNER_BATCH:
        return False
    messages = _messages(body)
    draft = _draft(session, header, send_topic, queue_id, body, common)
    draft.properties = put(common.text, {INNER_NUM: str(messages)}).encode()
    stage.flush(now)
    result = stage.closed() or stage.node.store.append([draft], stage.node.clock.wall_ms())[0]
    if isinstance(result, PutStatus):
        session.answer(command, refusal(result, stage.body_max))
        return True
    stage.count(send_topic.topic, queue_id, messages, result.size)
    _answer_inner(stage, session, command, queue_id, result, common, now)
    return True


def _draft(
    session: Session,
    header: AnySendHeader,
    send_topic: SendTopic,
    queue_id: int,
    body: bytes | memoryview,
    common: Parsed,
) -> Draft:
    special = common.delay > 0 or common.timer or common.transactional
    if header.sysFlag & COMPRESSED or special:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "a batch can be neither compressed nor delayed nor part of a transaction",
        )
    return Draft(
        send_topic.topic,
        queue_id,
        bytes(body),
        b"",
        common.tag_code,
        (common.uniq_key, *common.keys) if common.uniq_key else common.keys,
        header.flag,
        header.sysFlag | send_topic.sys_flag | NEED_UNWRAP | INNER_BATCH,
        header.bornTimestamp,
        session.peer_packed,
        header.reconsumeTimes or 0,
    )


def _messages(body: bytes | memoryview) -> int:
    """How many messages the batch has; `Refused` for none, an empty one or too many."""
    entries = batch.decode(body)
    if not 0 < len(entries) <= INNER_MESSAGES_MAX or not all(entry.body for entry in entries):
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"a batch must have 1 to {INNER_MESSAGES_MAX} messages, none of them empty",
        )
    return len(entries)


def _answer_inner(
    stage: SendStage,
    session: Session,
    command: Command,
    queue_id: int,
    result: Appended,
    common: Parsed,
    now: int,
) -> None:
    def settle(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        uniq_key = common.uniq_key or None
        answer = stage.answers.header(queue_id, [result], uniq_key, uniq_key)
        session.answer(command, Reply(code, header=answer))

    if stage.parks(common.wait):
        stage.park(result, now, settle)
    else:
        settle(stage.at_once())


# Send packed ---------------------------------------------------------------------------------
# A batch by the native code: from the request's bytes to the log in one call.
#
# What the native code does not take (the first batch of a queue, the end of a file, anything
# that may have to be refused) is left to `send_batch`, message by message.


def take_packed(
    stage: SendStage,
    session: Session,
    command: Command,
    header: AnySendHeader,
    place: tuple[str, int],
    body: bytes | memoryview,
    tail: BatchTail,
    wait: bool,
    now: int,
) -> bool:
    """Append and answer a checked batch; False when it is not for the native code: nothing was
    done."""
    if tail.tags or tail.keys or b"\0" in tail.whole:
        return False
    topic, queue_id = place
    batch = CheckedBatch(
        topic,
        queue_id,
        body,
        header.sysFlag,
        header.bornTimestamp,
        session.peer_packed,
        header.reconsumeTimes or 0,
        tail.without_key,
        tail.whole,
        tail.uniq_key.encode(),
    )
    stage.flush(now)
    closed = stage.closed()
    if closed is not None:
        session.answer(command, refusal(closed, stage.body_max))
        return True
    repeats = stage.repeats
    placed = stage.node.store.append_packed(batch, stage.node.clock.wall_ms(), repeats.is_new)
    if placed is None:
        return False
    if isinstance(placed, PutStatus):
        session.answer(command, refusal(placed, stage.body_max))
        return True
    if placed.run is not None:
        repeats.note_run(placed.run)
    stage.count(topic, queue_id, placed.count, placed.size)
    _answer_packed(stage, session, command, queue_id, placed, tail.uniq_key or None, wait, now)
    return True


def _answer_packed(
    stage: SendStage,
    session: Session,
    command: Command,
    queue_id: int,
    placed: Placed,
    uniq_key: str | None,
    wait: bool,
    now: int,
) -> None:
    def settle(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        answer = stage.answers.header_of(
            queue_id, placed.ids.decode(), placed.queue_offset, uniq_key
        )
        session.answer(command, Reply(code, header=answer))

    if stage.parks(wait):
        end = Appended(placed.offset, placed.size, placed.queue_offset, 0)
        stage.park(end, now, settle)
    else:
        settle(stage.at_once())


# Send batch ----------------------------------------------------------------------------------


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
