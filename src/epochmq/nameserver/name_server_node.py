"""Everything a name server's handlers work on, in one plain object."""

from collections.abc import Callable, Generator

from epochmq.base.errors import Refused
from epochmq.nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.route_table import RouteTable
from epochmq.nameserver.routes import Routes
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.session import Session

GoOn = Callable[[Session, Command, Generator[None, None, Reply]], None]


def _at_once(session: Session, command: Command, steps: Generator[None, None, Reply]) -> None:
    """Without a service: all steps here and now."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            session.answer(command, done.value)
            return


class NameServerNode:
    """Options, tables and the connections of brokers; `started_ms` is monotonic."""

    def __init__(self, options: NamesrvOptions, kv: KvConfig, started_ms: int) -> None:
        self._options = options
        self.kv = kv
        self.started_ms = started_ms
        self.save_kv: Callable[[Session, Command], Reply | Held] = self._save_kv_now
        """Saves what was changed and answers then; the service sets one that does not block."""
        self.table = RouteTable(options)
        self.routes = Routes(self.table, self._order_conf)
        self.broker_sessions: dict[int, Session] = {}
        self.go_on: GoOn = _at_once
        """Carries on with a request that takes several steps; the service sets it."""

    def _save_kv_now(self, session: Session, command: Command) -> Reply:
        try:
            self.kv.save()
        except Refused:
            self.routes.forget()
            raise
        return Reply()

    @property
    def options(self) -> NamesrvOptions:
        return self._options

    @options.setter
    def options(self, options: NamesrvOptions) -> None:
        self._options = self.table.options = options
        self.routes.forget()

    def ready(self, now: int) -> bool:
        """Whether brokers had the time to register since the start, where that is asked for."""
        wait_ms = self.options.wait_seconds_for_service * 1000
        return not self.options.need_wait_for_service or now - self.started_ms >= wait_ms

    def watch(self, session: Session) -> None:
        """A broker registered over `session`: when that closes the broker is gone."""
        if session.id not in self.broker_sessions:
            self.broker_sessions[session.id] = session
            session.on_close.append(self._closed)

    def _closed(self, session: Session) -> None:
        del self.broker_sessions[session.id]
        self.table.session_closed(session.id)

    def expire(self, now: int) -> None:
        """Forget silent brokers and close the connections they registered over.

        But not one over which others registered that are alive: the brokers of a container share
        one (H27).
        """
        for live in self.table.expire(now):
            session = self.broker_sessions.get(live.session_id)
            if session is not None and not self.table.brokers.of_session(live.session_id):
                session.close(f"broker {live.name} {live.addr} is silent")

    def _order_conf(self, topic: str) -> str | None:
        if not self.options.order_message_enable:
            return None
        return self.kv.get(ORDER_TOPIC_CONFIG, topic)
