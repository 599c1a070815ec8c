"""Batches (320, or any send whose header says batch): all records or none, in one place.

The batch's own properties are added to each record's (facts/remoting.md 2.1).
"""

from epochmq.base.errors import Refused
from epochmq.base.limits import PROPERTIES_BYTES_MAX, TOPIC_LENGTH_MAX
from epochmq.broker.handlers.send import SendStage
from epochmq.broker.handlers.send_answers import refusal
from epochmq.broker.handlers.send_inner_batch import take_inner_batch
from epochmq.broker.handlers.send_lane import SendFields
from epochmq.broker.handlers.send_packed import take_packed
from epochmq.broker.handlers.send_properties import BatchTail
from epochmq.broker.handlers.send_sync import failure
from epochmq.model import batch
from epochmq.model.sys_flag import INNER_BATCH, TX_PREPARED
from epochmq.store.draft import Draft, PutStatus
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


def take_batch(
    stage: SendStage,
    session: Session,
    command: Command,
    header: SendFields,
    body: bytes | memoryview,
    now: int,
) -> None:
    """Check, append and answer one batch; raises `Refused` or `BatchError`."""
    lane = stage.lanes.get(header.topic) or stage.open_lane(header, command.version)
    if lane.retry_group is not None or len(lane.topic) > TOPIC_LENGTH_MAX:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group or long topic"
        )
    if header.sysFlag & TX_PREPARED:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be part of a transaction")
    queue_id = stage.choose_queue(lane, header.queueId, session, command.version)
    if not 0 < len(body) <= stage.body_max:
        raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
    common = stage.completer.complete(header.properties, draw=False)
    if lane.batched or header.sysFlag & INNER_BATCH:
        if take_inner_batch(stage, session, command, header, (lane, queue_id), body, common, now):
            return
    tail = BatchTail(common)
    place = (lane.topic, queue_id)
    if stage.twin is not None and take_packed(
        stage, session, command, header, place, body, tail, common.wait, now
    ):
        return
    drafts = _drafts(stage, session, header, place, body, tail)
    stage.flush(now)
    results = stage.closed() or stage.node.store.append_batch(drafts, stage.node.clock.wall_ms())
    if isinstance(results, PutStatus):
        session.answer(command, refusal(results, stage.body_max))
        return
    stage.count(header.topic, queue_id, len(results), sum(result.size for result in results))

    def settle(code: int) -> None:
        failed = failure(code)
        if failed is not None:
            session.answer(command, failed)
            return
        answer = stage.answers.header(queue_id, results, common.uniq_key or None)
        session.answer(command, Reply(code, header=answer))

    if stage.waits and common.wait:
        stage.park(results[-1], now, settle)
    else:
        settle(stage.at_once())


def _drafts(
    stage: SendStage,
    session: Session,
    header: SendFields,
    place: tuple[str, int],
    body: bytes | memoryview,
    tail: BatchTail,
) -> list[Draft]:
    topic, queue_id = place
    sys_flag, born, reconsumed = header.sysFlag, header.bornTimestamp, header.reconsumeTimes or 0
    host = session.peer_packed
    complete = tail.complete
    drafts: list[Draft] = []
    for entry in batch.decode(body):
        if not entry.body:
            raise stage.refused(PutStatus.MESSAGE_ILLEGAL)
        properties, keys, tags = complete(entry.properties)
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise stage.refused(PutStatus.PROPERTIES_SIZE_EXCEEDED)
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
    return drafts
