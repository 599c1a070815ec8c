"""A simulated name server: the product's tables and handlers on one host, without sockets."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from epochmq.model.topic import TopicRouteData
from epochmq.nameserver.kv_config import KvConfig
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.namesrv_request_table import handlers
from epochmq.nameserver.registered_brokers import MinIdNotice
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.headers.namesrv_headers import NotifyMinBrokerIdChangeHeader
from epochmq.wire.session import Session as WireSession
from sim.kernel.host import Host
from sim.kernel.rpc import Rpc, Session
from sim.kernel.world import MS

if TYPE_CHECKING:
    from sim.locks.locks_world import LocksHistory


class _Connection:
    """The parts of a connection that the handlers use."""

    def __init__(self, session: Session) -> None:
        self.id = session.id
        self.on_close: list[Callable[[_Connection], None]] = []
        self._stream = session.stream

    def close(self, _reason: str) -> None:
        self._stream.close(1)


class NameServerProcess:
    """A name server process; after a restart it keeps only its start time."""

    def __init__(self, history: "LocksHistory", host: Host) -> None:
        self.history = history
        self.host = host
        self.rpc = Rpc(history.net, host)
        options = history.server_options
        self.node = NameServerNode(options, KvConfig(host.disk, "kv"), host.now)
        self._table = Dispatcher(handlers(self.node))
        self._connections: dict[int, _Connection] = {}
        self._scan_ms = options.scan_not_active_broker_interval
        self._scan_at = host.now + self._scan_ms

    def wake(self, now: int) -> int:
        if now >= self._scan_at:
            self._scan_at = now + self._scan_ms
            self.node.expire(now)
            self._tell_notices()
        return self._scan_at

    def next_deadline(self) -> int:
        return self._scan_at

    def state_line(self) -> str:
        groups = self.node.table.brokers.groups
        return f"knows { {name: dict(sorted(g.addrs.items())) for name, g in groups.items()} }"

    def request(self, command: Command, session: Session) -> None:
        connection = self._connections.setdefault(session.id, _Connection(session))
        reply = self._table.reply_to(cast(WireSession, connection), command, self.host.now)
        assert isinstance(reply, Reply)
        session.answer(command, reply)
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and reply.code == 0:
            route = decode_body(TopicRouteData, cast(bytes, reply.body))
            self.host.world.tell("route_shown", self.host, route, self.node.table)
        self._tell_notices()

    def session_closed(self, session: Session) -> None:
        connection = self._connections.pop(session.id, None)
        for call in connection.on_close if connection is not None else ():
            call(connection)
        self._tell_notices()

    def _tell_notices(self) -> None:
        for notice in self.node.table.pop_notices():
            self.host.world.mark("covered.notice")
            for address in notice.to:
                self.rpc.call(
                    self.history.host_at(address),
                    _told(notice),
                    300 * MS,
                    lambda _answer: None,
                    lambda _lost: None,
                )


def _told(notice: MinIdNotice) -> Command:
    header = NotifyMinBrokerIdChangeHeader(
        minBrokerId=notice.min_id,
        minBrokerAddr=notice.min_addr,
        offlineBrokerAddr=notice.offline_addr,
        haBrokerAddr=notice.ha_addr,
    )
    return request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)
