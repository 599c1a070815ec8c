"""A batch by the native code: from the request's bytes to the log in one call.

What the native code does not take (the first batch of a queue, the end of a file, anything that may
have to be refused) is left to `send_batch`, message by message.
"""

from epochmq.broker.handlers.send_answers import refusal
from epochmq.broker.handlers.send_properties import BatchTail
from epochmq.broker.handlers.send_stage import SendStage
from epochmq.broker.handlers.send_sync import failure
from epochmq.broker.handlers.send_topics import AnySendHeader
from epochmq.store.draft import Appended, PutStatus
from epochmq.store.native.native_batch import CheckedBatch, Placed
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


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
    _answer(stage, session, command, queue_id, placed, tail.uniq_key or None, wait, now)
    return True


def _answer(
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
