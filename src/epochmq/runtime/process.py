"""Process figures for the runtime information (GET_BROKER_RUNTIME_INFO 28) of every server.

Brokers add these figures to their own. Name servers and controllers, which RocketMQ's tools do not
ask, answer with these figures alone. Every key is EpochMQ's own and starts with `epochmq`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from epochmq.runtime.descriptors import descriptor_figures, raise_limit
from epochmq.runtime.logging_setup import log_figures
from epochmq.runtime.signals import on_reload, reload_on_hangup
from epochmq.runtime.tls import renew_outgoing
from epochmq.runtime.watchdog import loop_figures, watch_loop
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


@contextmanager
def server_process() -> Iterator[None]:
    """Set up the process of a server, for the time of the block.

    Raises the file descriptor limit, watches the event loop, and reloads on SIGHUP.
    """
    raise_limit()
    forget = on_reload(renew_outgoing)
    try:
        with watch_loop(), reload_on_hangup():
            yield
    finally:
        forget()


def process_figures() -> dict[str, str]:
    """Return the figures of the running event loop and of the process."""
    return {**loop_figures(), **descriptor_figures(), **log_figures()}


def handle_process_info(command: Command, session: Session, now: int) -> Reply:
    """Answer GET_BROKER_RUNTIME_INFO 28 in a server that is not a broker."""
    return Reply(body=encode_body(KVTable(dict(sorted(process_figures().items())))))
