"""What this process tells of itself: GET_BROKER_RUNTIME_INFO 28 of every server.

Brokers add these figures to their own; name servers and controllers, which RocketMQ does not ask,
answer with these alone. Every key is ours and starts with `epochmq`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from epochmq.runtime.descriptors import descriptor_figures, raise_limit
from epochmq.runtime.logging_setup import log_figures
from epochmq.runtime.signals import reload_on_hangup
from epochmq.runtime.watchdog import loop_figures, watch_loop
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.command import Command, Reply
from epochmq.wire.session import Session


@contextmanager
def server_process() -> Iterator[None]:
    """What every server does around its service: use all descriptors there are, watch the loop,
    read again what may have changed when SIGHUP asks for it."""
    raise_limit()
    with watch_loop(), reload_on_hangup():
        yield


def process_figures() -> dict[str, str]:
    """Figures of the running loop and of the process."""
    return {**loop_figures(), **descriptor_figures(), **log_figures()}


def handle_process_info(command: Command, session: Session, now: int) -> Reply:
    """28 at a server that is no broker."""
    return Reply(body=encode_body(KVTable(dict(sorted(process_figures().items())))))
