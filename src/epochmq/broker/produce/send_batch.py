"""Batch sends (SEND_BATCH_MESSAGE 320, or any send with `batch` in its header).

All messages of a batch are stored, contiguous in the log, or none. The properties of the batch are
added to those of each message.
"""

from typing import NamedTuple

from epochmq.base.errors import Refused
from epochmq.base.limits import (
    PROPERTIES_BYTES_MAX,
    TOPIC_LENGTH_MAX,
    TRANSACTION_ID_LENGTH_MAX,
)
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

HOT_IDS_BYTES_MAX = 16 * 1024
"""The fast encoder makes answers with message ids of up to so many bytes: of 496 messages."""

# Send inner batch ----------------------------------------------------------------------------
# An inner batch is stored as one record, in topics whose attribute queue.type is BatchCQ.
#
# The batch must have its own UNIQ_KEY. Without one, each of its messages becomes a record with a
# queue unit of one message. Tags and keys are those of the batch, because readers filter records.


def append_inner_batch(
    stage: SendStage,
    session: Session,
    command: Command,
    header: AnySendHeader,
    place: tuple[SendTopic, int],
    body: bytes | memoryview,
    common: Parsed,
    now: int,
) -> bool:
    """Append a batch as one record and answer it.

    Returns False when each message is to be stored as its own record. `place` is the topic and the
    queue id; `common` is what the header says about the whole batch. Raises `Refused` or
    `BatchError`.
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
        session.answer(command, refusal(result, stage.node.options))
        return True
    stage.count(send_topic.topic, queue_id, messages, result.size, common)
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
    """Return the number of messages in the batch.

    Raises `Refused` when there are none or too many, or when one is empty.
    """
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
    def acknowledge(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        uniq_key = common.uniq_key or None
        answer = stage.answers.header(queue_id, [result], uniq_key, uniq_key)
        session.answer(command, Reply(code, header=answer))

    if stage.parks(common.wait):
        stage.park(result, now, acknowledge)
    else:
        acknowledge(stage.at_once())


# Send packed ---------------------------------------------------------------------------------
# The native code appends a batch in one call, from the bytes of the request to the log.
#
# Some batches are not for the native code: the first batch of a queue, one at the end of a log
# file, and any that may have to be refused. `handle_batch` appends them in Python, as drafts.


def append_packed_batch(
    stage: SendStage,
    session: Session,
    command: Command,
    header: AnySendHeader,
    place: tuple[str, int],
    body: bytes | memoryview,
    tail: BatchTail,
    common: Parsed,
    now: int,
) -> bool:
    """Append a checked batch with the native code and answer it.

    Returns False, with nothing done, when the native code cannot append this batch.
    """
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
        session.answer(command, refusal(closed, stage.node.options))
        return True
    repeats = stage.repeats
    placed = stage.node.store.append_packed(batch, stage.node.clock.wall_ms(), repeats.is_new)
    if placed is None:
        return False
    if isinstance(placed, PutStatus):
        session.answer(command, refusal(placed, stage.node.options))
        return True
    if placed.run is not None:
        repeats.note_run(placed.run)
    stage.count(topic, queue_id, placed.count, placed.size, common)
    _answer_packed(stage, session, command, queue_id, placed, tail.uniq_key, common.wait, now)
    return True


def _answer_packed(
    stage: SendStage,
    session: Session,
    command: Command,
    queue_id: int,
    placed: Placed,
    uniq_key: str,
    wait: bool,
    now: int,
) -> None:
    answers = stage.answers
    is_usual = not (command.binary or command.is_oneway)

    def acknowledge(code: int) -> None:
        ids, queue_offset = placed.ids, placed.queue_offset
        if code == ResponseCode.SUCCESS and is_usual and len(ids) <= HOT_IDS_BYTES_MAX:
            stage.node.request_times.count(command.code, code, command.arrived_ms)
            key = uniq_key[:TRANSACTION_ID_LENGTH_MAX].encode() if uniq_key else None
            session.send_one(answers.reply(command.opaque, ids, queue_id, queue_offset, key))
        elif (failed := failure(code)) is not None:
            session.answer(command, failed)
        else:
            header = answers.header_of(queue_id, ids.decode(), queue_offset, uniq_key or None)
            session.answer(command, Reply(code, header=header))

    if stage.parks(wait):
        end = Appended(placed.offset, placed.size, placed.queue_offset, 0)
        stage.park(end, now, acknowledge)
    else:
        acknowledge(stage.at_once())


# Send batch ----------------------------------------------------------------------------------


_SINK_ID = SINK_ID.encode()


def handle_batch(
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
        if append_inner_batch(
            stage, session, command, header, (send_topic, queue_id), body, common, now
        ):
            return
    tail = BatchTail(common)
    place = (send_topic.topic, queue_id)
    if stage.native is not None and append_packed_batch(
        stage, session, command, header, place, body, tail, common, now
    ):
        return
    drafts, marks = _drafts(stage, session, header, place, body, tail)
    stage.flush(now)
    if any(marks):
        stored = _append_marked(stage, queue_id, drafts, marks)
    else:
        stored = _append(stage, drafts)
    if isinstance(stored, PutStatus):
        session.answer(command, refusal(stored, stage.node.options))
        return
    added = stored.added
    stage.count(header.topic, queue_id, len(added), sum(result.size for result in added), common)

    def acknowledge(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        answer = stage.answers.header(queue_id, stored.results, common.uniq_key or None)
        answer.sinkRepeats = len(stored.results) - len(added) or None
        session.answer(command, Reply(code, header=answer))

    if stored.last is not None and stage.parks(common.wait):
        stage.park(stored.last, now, acknowledge)
    else:
        acknowledge(stage.at_once(settled=stored.last is None))


class _Stored(NamedTuple):
    """A batch that is in the log; `results` has one entry per message.

    `added` has an entry only for messages that were new.
    """

    results: list[Appended]
    added: list[Appended]
    last: Appended | None
    """The answer waits until the log is kept up to here; None when nothing is to be waited for."""


def _append(stage: SendStage, drafts: list[Draft]) -> _Stored | PutStatus:
    results = stage.closed() or stage.node.store.append_batch(drafts, stage.node.clock.wall_ms())
    if isinstance(results, PutStatus):
        return results
    return _Stored(results, results, results[-1])


def _append_marked(
    stage: SendStage, queue_id: int, drafts: list[Draft], marks: list[SinkMark | None]
) -> _Stored | PutStatus:
    """Append the new messages of a sink's batch, all of them or none; leave out the repeats."""
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
