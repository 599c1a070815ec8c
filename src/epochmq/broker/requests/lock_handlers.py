"""Queue locks: LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42, from clients and from group members.

Without lockInStrictMode, this broker alone gives a lock. With it, a lock needs the votes of a
majority of the group (`broker/group`); every member votes, slaves too.
"""

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.lock_ballot import attempt_of, check_same_rules, quorum_of, save_votes
from epochmq.broker.requests.common import NodeHandler, ok
from epochmq.model import names
from epochmq.wire.bodies.body import decode_body, encode_body
from epochmq.wire.bodies.group_bodies import LockBatchRequest, LockBatchResponse
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers.group_headers import LockBatchHeader, UnlockBatchHeader
from epochmq.wire.session import Session


def handle_lock(node: BrokerContext, command: Command, session: Session, now: int) -> Reply | Held:
    """Lock queues for a client (LOCK_BATCH_MQ 41); answers the queues that the client holds.

    With `onlyThisBroker` the request is another member's request for a vote. Raises `Refused`.
    """
    body = _request(command)
    if body.only_this_broker:
        return _vote(node, command, session, body, now)
    _check_may_lock(node)
    queues = [queue for queue in body.mq_set if queue.topic in node.topics]
    options = node.options
    votes = node.lock_votes
    if options.lock_in_strict_mode and quorum_of(options.total_replicas) > 1 and votes is not None:
        votes.lock(body, queues, lambda reply: session.answer(command, reply))
        return HELD
    held = node.locks.lock(body.consumer_group, queues, body.client_id, now)
    return _kept(node, command, session, ok(LockBatchResponse(held)))


def _kept(node: BrokerContext, command: Command, session: Session, reply: Reply) -> Reply | Held:
    """Answer `reply`, in strict mode after the locks are saved."""
    if not node.options.lock_in_strict_mode:
        return reply

    def saved(error: Refused | None) -> None:
        session.answer(command, reply if error is None else Reply(error.code, error.remark))

    save_votes(node, saved)
    return HELD


def _vote(
    node: BrokerContext, command: Command, session: Session, body: LockBatchRequest, now: int
) -> Reply | Held:
    """Answer another member with this broker's vote, whatever its role."""
    header = decode_header(LockBatchHeader, command.ext)
    attempt = attempt_of(header)
    if attempt is not None:
        check_same_rules(node, header)
    held = node.locks.lock(body.consumer_group, body.mq_set, body.client_id, now, attempt)
    reply = Reply(header=header, body=encode_body(LockBatchResponse(held)))
    return _kept(node, command, session, reply)


def handle_unlock(node: BrokerContext, command: Command, session: Session, now: int) -> Reply:
    """Unlock queues (UNLOCK_BATCH_MQ 42), usually one-way."""
    body = _request(command)
    votes = node.lock_votes
    if not body.only_this_broker and votes is not None and node.options.lock_in_strict_mode:
        votes.unlock(body)
        return Reply()
    header = decode_header(UnlockBatchHeader, command.ext)
    attempt = attempt_of(header)
    if header.lockUndo and attempt is not None:
        node.locks.undo_locks(body.consumer_group, body.mq_set, body.client_id, attempt)
    else:
        node.locks.unlock(body.consumer_group, body.mq_set, body.client_id, attempt)
    return Reply()


def _check_may_lock(node: BrokerContext) -> None:
    """Raise `Refused` unless this broker is the master or an acting master."""
    rights = node.serving.rights
    if rights.consumes:
        return
    raise Refused(
        ResponseCode.SERVICE_NOT_AVAILABLE if rights.writable else ResponseCode.SYSTEM_ERROR,
        "this broker gives no locks now: it is not the master of its group, or hears no controller;"
        " ask for the route again",
    )


def _request(command: Command) -> LockBatchRequest:
    body = decode_body(LockBatchRequest, command.body)
    names.check_group(body.consumer_group)
    if not 0 < len(body.client_id) <= limits.CLIENT_ID_LENGTH_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the client id is empty or too long")
    return body


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.LOCK_BATCH_MQ: handle_lock,
    RequestCode.UNLOCK_BATCH_MQ: handle_unlock,
}
