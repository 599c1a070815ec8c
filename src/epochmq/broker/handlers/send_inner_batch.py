"""A batch that is stored as one record, in topics whose attribute queue.type is BatchCQ.

It must have a UNIQ_KEY of its own; without one its messages are stored one by one, in units of one
message. Tags and keys are those of the batch: readers filter by the record.
"""

from epochmq.base.errors import Refused
from epochmq.broker.handlers.send_answers import refusal
from epochmq.broker.handlers.send_properties import Parsed, put
from epochmq.broker.handlers.send_stage import SendStage
from epochmq.broker.handlers.send_sync import failure
from epochmq.broker.handlers.send_topics import AnySendHeader, SendTopic
from epochmq.model import batch
from epochmq.model.property_names import INNER_NUM
from epochmq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from epochmq.store.batch_queue import INNER_MESSAGES_MAX
from epochmq.store.draft import Appended, Draft, PutStatus
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


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
    _answer(stage, session, command, queue_id, result, common, now)
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


def _answer(
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
