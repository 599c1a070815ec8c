"""Executes requests that only read: they wait for messages that are not in memory (ADR 0104)."""

from functools import partial

from epochmq.base.errors import PeerError
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.store.log_memory import NotInMemory
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.session import Session

EXECUTIONS_MAX = 64
"""A request is executed so often; the last time, its messages are read in the event loop."""


def from_memory(node: BrokerContext, handler: Handler) -> Handler:
    """Return a handler that does not wait for the device in the event loop.

    `handler` must only read. If messages are not in memory, another thread reads them, and
    `handler` is executed again from its beginning.
    """
    cold_reads, errors = node.cold_reads, Dispatcher()

    def execute(number: int, command: Command, session: Session, now: int) -> Reply | Held:
        if number == EXECUTIONS_MAX or not cold_reads.has_room:
            return handler(command, session, now)
        try:
            with node.store.reading_memory_only():
                return handler(command, session, now)
        except NotInMemory as missing:
            cold_reads.run(missing.prefetch, partial(again, number + 1, command, session))
            return HELD

    def again(number: int, command: Command, session: Session) -> None:
        if session.closed:
            return
        try:
            reply = errors.answer_by(
                partial(execute, number), session, command, node.clock.now_ms()
            )
        except PeerError as error:
            session.close(str(error))
            return
        if isinstance(reply, Reply):
            session.answer(command, reply)

    return partial(execute, 1)
