"""END_TRANSACTION 37: commit, roll back, or say nothing yet."""

from contextlib import suppress

from epochmq.base.errors import Refused
from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.handlers.common import NodeHandler
from epochmq.broker.transaction.ending import nobody
from epochmq.store.native.native_send import StagedEnds
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.headers.fast_headers import AnyEnd
from epochmq.wire.headers.header import decode_header
from epochmq.wire.headers.transaction_headers import COMMIT, ROLLBACK, UNKNOWN, EndTransactionHeader
from epochmq.wire.session import Session


def handle_end(node: BrokerNode, command: Command, session: Session, now: int) -> Reply | Held:
    """END_TRANSACTION as the table has it."""
    header = decode_header(EndTransactionHeader, command.ext)
    return end(node, header, command, session, now)


def end(
    node: BrokerNode,
    header: AnyEnd,
    command: Command,
    session: Session,
    now: int,
) -> Reply | Held:
    """The answer comes when what follows from the end is held as the options ask.

    Refuses with 11 where another broker is master, with 2 while it is being found out which
    transactions are open; what upstream does not answer, "unknown", is a success here.
    """
    if header.commitOrRollback not in (UNKNOWN, COMMIT, ROLLBACK):
        raise Refused(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    _check_serves(node, now)
    if header.commitOrRollback == UNKNOWN:
        return Reply()
    _check_ready(node)
    if command.is_oneway:
        node.transactions.end(header, now, nobody, wanted=False)
        return HELD
    node.transactions.end(header, now, lambda reply: session.answer(command, reply), wanted=True)
    return HELD


def end_together(node: BrokerNode, ends: StagedEnds, now: int) -> None:
    """All one-way commits and rollbacks of a turn that the native code has kept; nobody is
    answered."""
    with suppress(Refused):
        _check_serves(node, now)
        _check_ready(node)
        node.transactions.end_together(ends, now)


def _check_serves(node: BrokerNode, now: int) -> None:
    if not node.transactions.serves(now) and not node.rights.writable:
        raise Refused(
            ResponseCode.SLAVE_NOT_AVAILABLE,
            "Message store is slave mode, so end transaction is forbidden. ",
        )


def _check_ready(node: BrokerNode) -> None:
    if not node.transactions.ready:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            "this broker became master just now and looks which transactions are open; end the"
            " transaction again",
        )


HANDLERS: dict[int, NodeHandler] = {RequestCode.END_TRANSACTION: handle_end}
