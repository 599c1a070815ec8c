"""This broker's own votes in strict mode: whom it answers, and that it does not forget."""

import logging

from epochmq.base.errors import EnvironmentFault, Refused
from epochmq.broker.locks.core import Attempt
from epochmq.broker.metadata.files import save_dirty
from epochmq.broker.node import BrokerNode
from epochmq.wire.codes import ResponseCode
from epochmq.wire.headers.lock import LockBatchHeader, UnlockBatchHeader

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


def save_votes(node: BrokerNode) -> None:
    """Before an answer leaves: what was promised must survive a crash.

    `Refused` when the disk does not take it; who was to own a queue keeps others off it then, and
    is told on the next try.
    """
    try:
        save_dirty(node.disk, (node.locks,))
    except EnvironmentFault as error:
        log.error("locks cannot be saved now: %s", error)
        text = "service not available now: locks cannot be saved"
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, text) from None
