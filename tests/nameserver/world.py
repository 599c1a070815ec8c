"""Builders shared by the name server's tests."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from epochmq.base.errors import DiskFull
from epochmq.base.ports import Disk
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import TopicConfig
from epochmq.nameserver.kv_config import KvConfig
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.namesrv_request_table import handlers
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.route_table import Registration, RouteTable
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable
from epochmq.wire.command import Command, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.header import Header, encode_header
from epochmq.wire.session import Session


class FileDisk:
    """The verbs of `Disk` that a key-value configuration uses, in memory."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = files if files is not None else {}
        self.full = False

    def read_file(self, path: str) -> bytes | None:
        return self.files.get(path)

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        if self.full:
            raise DiskFull("no space left")
        if backup and path in self.files:
            self.files[f"{path}.bak"] = self.files[path]
        self.files[path] = data

    def remove(self, path: str) -> None:
        self.files.pop(path, None)


def configs(*names: str, perm: int = 6, queues: int = 4) -> dict[str, TopicConfig]:
    return {name: TopicConfig(name, queues, queues, perm) for name in names}


def told(
    broker_id: int = 0,
    addr: str | None = None,
    *,
    topics: Mapping[str, TopicConfig] | None = None,
    epoch: int = 0,
    counter: int = 1,
    **fields: Any,
) -> Registration:
    """A registration of broker "b" in cluster "c" with topics A and B unless said."""
    fields.setdefault("cluster", "c")
    fields.setdefault("name", "b")
    return Registration(
        broker_id=broker_id,
        addr=addr or f"10.0.0.{broker_id}:10911",
        topics=configs("A", "B") if topics is None else topics,
        version=DataVersion(epoch, counter, 1),
        **fields,
    )


def table(**options: Any) -> RouteTable:
    return RouteTable(NamesrvOptions(**options))


def addrs(table: RouteTable, name: str = "b") -> dict[int, str]:
    group = table.brokers.groups.get(name)
    return {} if group is None else group.addrs


def perm(table: RouteTable, topic: str = "A", name: str = "b") -> int:
    return table.topics.queues[topic][name].perm


class Line:
    """The transport of a session without a socket."""

    def __init__(self) -> None:
        self.reason = ""

    def wake(self) -> None: ...

    def cut(self, reason: str) -> None:
        self.reason = reason

    def after(self, delay_ms: int, call: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Asker:
    """A node and a session: `ask` gives a handler's reply as a client would see it."""

    def __init__(self, files: dict[str, bytes] | None = None, **options: Any) -> None:
        kv = KvConfig(cast(Disk, FileDisk(files)), "kv.json")
        self.node = NameServerNode(NamesrvOptions(**options), kv, started_ms=0)
        self.dispatcher = Dispatcher(handlers(self.node))
        self.line = Line()
        self.session = Session(1, self.line, peer="127.0.0.1:1")

    def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 413,
        now: int = 0,
    ) -> Reply:
        request = Command(code, ext=ext, body=body, version=version)
        reply = self.dispatcher.reply_to(self.session, request, now)
        assert isinstance(reply, Reply)
        return reply

    def register(
        self,
        broker_id: int = 0,
        topics: Mapping[str, TopicConfig] | None = None,
        *,
        version: int = 413,
        now: int = 0,
        counter: int = 1,
        **ext: str,
    ) -> Reply:
        """REGISTER_BROKER 103 of broker "b" in cluster "c", as a 5.x broker sends it."""
        body = RegisterBrokerBody(
            TopicConfigTable(
                dict(configs("A", "B") if topics is None else topics), DataVersion(0, counter, 9)
            )
        )
        return self.ask(
            103,
            broker_ext(broker_id) | {"haServerAddr": f"10.0.0.{broker_id}:10912"} | ext,
            encode_body(body),
            version=version,
            now=now,
        )


def broker_ext(broker_id: int = 0) -> dict[str, str]:
    return {
        "brokerName": "b",
        "brokerAddr": f"10.0.0.{broker_id}:10911",
        "clusterName": "c",
        "brokerId": str(broker_id),
    }


def header_of(reply: Reply) -> dict[str, str]:
    """The reply's header as it would travel."""
    return encode_header(reply.header) if isinstance(reply.header, Header) else {}


def text(reply: Reply) -> str:
    assert isinstance(reply.body, bytes)
    return reply.body.decode()
