"""Executes requests that read messages: they wait for messages that are not in memory.

A request that only reads is executed again (ADR 0104). Of one that also changes something, only the
reads are executed again (`after_reading`, ADR 0108).
"""

from collections.abc import Callable
from functools import partial

from epochmq.base.errors import HeaderError, PeerError, Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.store.log_memory import NotInMemory
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher, Handler
from epochmq.wire.session import Session

EXECUTIONS_MAX = 64
"""A request is executed so often; the last time, its messages are read in the event loop."""

MessageReads = Callable[[BrokerContext, Command], object]
"""Reads the messages that a request needs, changes nothing, and returns anything."""


def from_memory(node: BrokerContext, handler: Handler) -> Handler:
    """Return a handler that does not wait for the device in the event loop.

    `handler` must only read. If messages are not in memory, another thread reads them, and
    `handler` is executed again from its beginning.
    """

    def execute(command: Command, session: Session, now: int) -> Reply | Held:
        with node.store.reading_memory_only():
            return handler(command, session, now)

    return _repeated(node, execute, handler)


def after_reading(node: BrokerContext, reads: MessageReads, handler: Handler) -> Handler:
    """Return a handler that executes `handler` once what `reads` needs is in memory.

    `handler` is executed once: it may change something.
    """

    def execute(command: Command, session: Session, now: int) -> Reply | Held:
        try:
            with node.store.reading_memory_only():
                reads(node, command)
        except (Refused, HeaderError):
            pass  # `handler` finds it too
        return handler(command, session, now)

    return _repeated(node, execute, handler)


def _repeated(node: BrokerContext, attempt: Handler, in_loop: Handler) -> Handler:
    """Return a handler that repeats `attempt` until it does not raise `NotInMemory`.

    It executes `in_loop` instead, which may wait for the device, after too many attempts and when
    too many requests wait.
    """
    cold_reads, errors = node.cold_reads, Dispatcher()

    def execute(number: int, command: Command, session: Session, now: int) -> Reply | Held:
        if number == EXECUTIONS_MAX or not cold_reads.has_room:
            return in_loop(command, session, now)
        try:
            return attempt(command, session, now)
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
