"""Brokers and a name server for tests of the relay: real sockets, and the requests they need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from epochmq.runtime.server import RemotingServer
from epochmq.wire.bodies.namesrv_bodies import BrokerMemberGroup, BrokerMemberGroupBody
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.headers.admin_headers import MasterStateHeader
from epochmq.wire.json_tolerant import dumps_bare
from epochmq.wire.session import Session

GROUP = "broker-a"


class Lines(logging.Handler):
    """The log of the relay, on which a test can wait."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"
        self._more.set()

    async def until(self, *wanted: str) -> None:
        """Wait until the log has all these texts."""
        while not all(text in self.text for text in wanted):
            await self._more.wait()
            self._more.clear()


@contextmanager
def log_lines() -> Iterator[Lines]:
    """Collect the log of the relay from now on."""
    logger, lines = logging.getLogger("epochmq.relay"), Lines()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before)


class FakeBroker:
    """A broker that says what `state` says; it answers sends with its name, or not while `mute`."""

    def __init__(self, name: str, group: str = GROUP) -> None:
        self.name = name
        self.group = group
        self.mute = False
        self.closes = False
        self.writable = self.acting = False
        self.epoch = 0
        self.sends: list[bytes] = []
        self.sent = asyncio.Event()
        self.watched = asyncio.Event()
        """A relay waits for a change."""
        self.clients: list[Session] = []
        self.port = 0
        self._held: list[tuple[Session, Command]] = []
        self._server = RemotingServer()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> FakeBroker:
        table = {
            RequestCode.MASTER_STATE: self._state,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.HEART_BEAT: self._send,
        }
        self.port = await self._server.start("127.0.0.1", self.port, Dispatcher(dict(table)))
        return self

    async def die(self) -> None:
        """Close everything at once, as a killed process does."""
        await self._server.stop(0)
        self._held.clear()
        self._server = RemotingServer()

    def become(self, *, writable: bool, epoch: int, acting: bool = False) -> None:
        self.writable, self.acting, self.epoch = writable, acting, epoch
        held, self._held = self._held, []
        for session, command in held:
            session.answer(command, Reply(header=self._header()))

    def _header(self) -> MasterStateHeader:
        stamp = f"{self.epoch}.{self.writable}.{self.acting}"
        return MasterStateHeader(stamp, self.writable, self.acting, self.epoch, self.group)

    def _state(self, command: Command, session: Session, now: int) -> Reply | Held:
        if (command.ext or {}).get("sinceStamp") == self._header().stamp:
            self._held.append((session, command))
            self.watched.set()
            return HELD
        return Reply(header=self._header())

    def _send(self, command: Command, session: Session, now: int) -> Reply | Held:
        self.sends.append(bytes(command.body))
        self.sent.set()
        if self.closes:
            session.close("I do not like it")
            return HELD
        if session not in self.clients:
            self.clients.append(session)
        return HELD if self.mute else Reply(body=self.name.encode())


class FakeNameServer:
    """A name server that lists `members`."""

    def __init__(self) -> None:
        self.members: dict[int, str] = {}
        self.asked = asyncio.Event()
        self.port = 0
        self._server = RemotingServer()

    async def start(self) -> FakeNameServer:
        table = {RequestCode.GET_BROKER_MEMBER_GROUP: self._list}
        self.port = await self._server.start("127.0.0.1", 0, Dispatcher(dict(table)))
        return self

    async def stop(self) -> None:
        await self._server.stop(0)

    def _list(self, command: Command, session: Session, now: int) -> Reply:
        self.asked.set()
        found = BrokerMemberGroup("DefaultCluster", GROUP, self.members)
        return Reply(body=dumps_bare(BrokerMemberGroupBody(found)))
