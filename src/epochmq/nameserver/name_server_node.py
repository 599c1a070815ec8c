"""The state that the request handlers of a name server work on."""

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
    """Run all steps of a request at once; used without a service."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            session.answer(command, done.value)
            return


class NameServerNode:
    """Options, tables and connections of brokers; `started_ms` is monotonic."""

    def __init__(self, options: NamesrvOptions, kv: KvConfig, started_ms: int) -> None:
        self._options = options
        self.kv = kv
        self.started_ms = started_ms
        self.save_kv: Callable[[Session, Command], Reply | Held] = self._save_kv_now
        """Saves changes and answers after that."""
        self.table = RouteTable(options)
        self.routes = Routes(self.table, self._order_conf)
        self.broker_sessions: dict[int, Session] = {}
        self.go_on: GoOn = _at_once
        """Continues a request that takes several steps."""

    def save_kv_by(self, save_kv: Callable[[Session, Command], Reply | Held]) -> None:
        """Save by a function that does not block."""
        self.save_kv = save_kv

    def continue_by(self, go_on: GoOn) -> None:
        """Continue requests of several steps by `go_on`, not at once."""
        self.go_on = go_on

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
        """Whether routes may be answered: brokers had time to register, if needWaitForService is
        set.
        """
        wait_ms = self.options.wait_seconds_for_service * 1000
        return not self.options.need_wait_for_service or now - self.started_ms >= wait_ms

    def watch(self, session: Session) -> None:
        """Note that a broker registered over `session`; the broker is removed when it is closed."""
        if session.id not in self.broker_sessions:
            self.broker_sessions[session.id] = session
            session.on_close.append(self._closed)

    def _closed(self, session: Session) -> None:
        del self.broker_sessions[session.id]
        self.table.session_closed(session.id)

    def expire(self, now: int) -> None:
        """Remove silent brokers, and close the connections over which they registered.

        A connection stays open if living brokers registered over it as well: the brokers of a
        container share one (H27).
        """
        for live in self.table.expire(now):
            session = self.broker_sessions.get(live.session_id)
            if session is not None and not self.table.brokers.of_session(live.session_id):
                session.close(f"broker {live.name} {live.addr} is silent")

    def _order_conf(self, topic: str) -> str | None:
        if not self.options.order_message_enable:
            return None
        return self.kv.get(ORDER_TOPIC_CONFIG, topic)
