"""This broker's own votes in strict mode: whom it answers, what it keeps, what they guard."""

import logging
from collections.abc import Callable
from functools import partial

from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.locks.queue_locks import Attempt
from epochmq.broker.metadata.saved_files import encode_file
from epochmq.model.queue import MessageQueue
from epochmq.wire.codes import ResponseCode
from epochmq.wire.headers.lock_headers import LockBatchHeader, UnlockBatchHeader
from epochmq.wire.session import Session

log = logging.getLogger(__name__)


def attempt_of(header: LockBatchHeader | UnlockBatchHeader) -> Attempt | None:
    """Which member's question it is; None for a client's, and for a Java member's."""
    if header.lockAsker is None or header.lockNumber is None:
        return None
    return Attempt(header.lockAsker, header.lockNumber)


def check_same_rules(node: BrokerNode, header: LockBatchHeader) -> None:
    """`Refused` for a member that counts votes otherwise: majorities might not meet."""
    options = node.options
    if not options.lock_in_strict_mode:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            "lockInStrictMode is off at this member: it gives no votes, for it forgets them when it"
            " is restarted",
        )
    if header.totalReplicas != options.total_replicas:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"totalReplicas is {options.total_replicas} at this member, not"
            f" {header.totalReplicas}; it must be the same at all",
        )


def save_votes(node: BrokerNode, done: Callable[[Refused | None], None]) -> None:
    """Before an answer leaves: what was promised must survive a crash. It is written beside the
    loop, then `done` is called.

    With a `Refused` when the disk does not take it; who was to own a queue keeps others off it
    then, and is told on the next try.
    """
    table = node.locks
    if table.dirty:
        data, table.dirty = encode_file(table), False
        write: Callable[[], None] = partial(node.disk.write_file, table.file, data, backup=True)
    else:
        write = _nothing  # in its turn: an earlier promise may be on its way to the disk

    def written(error: EnvironmentFault | None) -> None:
        if error is None:
            done(None)
            return
        table.dirty = True
        log.error("locks cannot be saved now: %s", error)
        text = "service not available now: locks cannot be saved"
        done(Refused(ResponseCode.SERVICE_NOT_AVAILABLE, text))

    node.write_in_background(write, written)


def _nothing() -> None:
    """Only waits."""


def another_holds(
    node: BrokerNode, session: Session, group: str, topic: str, queue_id: int, now: int
) -> bool:
    """In strict mode, whether somebody else has the queue than the consumer that asks.

    One that was away for longer than its lock lives finds another in its place; what it commits
    then would put that one's progress back (INV-31). Who is no member of the group may commit.
    """
    if not node.options.lock_in_strict_mode:
        return False
    members = node.consumers.groups.get(group)
    member = None if members is None else members.members.get(session.id)
    if member is None:
        return False
    queue = MessageQueue(topic, node.options.broker_name, queue_id)
    return node.locks.another_holds(group, queue, member.client_id, now)
