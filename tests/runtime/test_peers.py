import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.runtime.sinks import until

from epochmq.base.errors import NotReachable, Refused
from epochmq.runtime.peers import Peer, Peers
from epochmq.runtime.server import RemotingServer
from epochmq.wire.command import HELD, Command, Held, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

ECHO, SILENT, CLOSE, ASK_BACK, PUSH = 105, 106, 104, 100, 101


class Node(Dispatcher):
    """A node whose handlers do what the tests need."""

    def __init__(self) -> None:
        super().__init__(
            {
                ECHO: lambda command, session, now: Reply(0, body=command.body),
                SILENT: lambda command, session, now: HELD,
                CLOSE: self.close,
                ASK_BACK: self.ask_back,
                PUSH: self.push,
            }
        )
        self.sessions: list[Session] = []
        self.heard: list[bytes] = []

    def opened(self, session: Session) -> None:
        self.sessions.append(session)

    def close(self, command: Command, session: Session, now: int) -> Held:
        session.close("asked to")
        return HELD

    def ask_back(self, command: Command, session: Session, now: int) -> Held:
        def answered(answer: Command | None) -> None:
            assert answer is not None
            text = f"{answer.code} {answer.remark} {bytes(answer.body).decode()}"
            session.answer(command, Reply(0, text))

        session.request(request(int(command.remark or 40), body=b"?"), 5_000, answered)
        return HELD

    def push(self, command: Command, session: Session, now: int) -> Held:
        self.heard.append(bytes(command.body))
        session.oneway(request(40, body=b"news"))
        return HELD


@asynccontextmanager
async def node() -> AsyncIterator[tuple[Node, str]]:
    server, sink = RemotingServer(), Node()
    port = await server.start("127.0.0.1", 0, sink)
    try:
        yield sink, f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_ms=200)


async def test_many_requests_share_one_connection_and_get_their_own_answers() -> None:
    async with node() as (sink, addr):
        peers = Peers()
        answers = await asyncio.gather(
            *(peers.invoke(addr, request(ECHO, body=b"%d" % n), 5_000) for n in range(200))
        )
        assert [bytes(answer.body) for answer in answers] == [b"%d" % n for n in range(200)]
        assert len(sink.sessions) == 1
        await peers.close()


async def test_an_unknown_code_is_an_answer_like_any_other() -> None:
    async with node() as (_, addr):
        peers = Peers()
        assert (await peers.invoke(addr, request(-5), 5_000)).code == 3
        await peers.close()


async def test_nobody_there_is_one_clear_error() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        addr = f"127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(NotReachable, match=f"{addr}: connection refused; is it running"):
            await Peers().invoke(addr, request(ECHO), 2_000)


@pytest.mark.parametrize("addr", ["nonsense", "no.such.host.invalid:1", "127.0.0.1:99999"])
async def test_an_address_that_cannot_be(addr: str) -> None:
    with pytest.raises(NotReachable, match="cannot connect to"):
        await Peer.connect(addr)


async def test_a_connect_that_hangs_ends_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        addr = f"127.0.0.1:{full.getsockname()[1]}"
        fill = [socket.socket() for _ in range(4)]
        for client in fill:
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        with pytest.raises(NotReachable, match=f"cannot connect to {addr} within 50 ms"):
            await Peers().invoke(addr, request(ECHO), 50)
        with pytest.raises(NotReachable, match="within 60 ms"):
            await Peers(connect_timeout_ms=60).get(addr)
        for client in fill:
            client.close()


async def test_a_late_answer_keeps_a_connection_on_which_others_are_answered() -> None:
    async with node() as (sink, addr):
        peers = Peers()
        silent = asyncio.ensure_future(peers.invoke(addr, request(SILENT), 150))
        while not silent.done():
            await peers.invoke(addr, request(ECHO), 5_000)
            await asyncio.sleep(0.01)
        with pytest.raises(NotReachable, match="did not answer request 106 in"):
            await silent
        await peers.invoke(addr, request(ECHO), 5_000)
        assert len(sink.sessions) == 1
        await peers.close()


async def test_a_connection_on_which_nothing_is_heard_is_created_again() -> None:
    async with node() as (sink, addr):
        peers = Peers()
        with pytest.raises(NotReachable):
            await peers.invoke(addr, request(SILENT), 30)
        peer = peers.find(addr)
        if peer is not None:
            await asyncio.wait_for(peer.closed.wait(), 30)
        assert (await peers.invoke(addr, request(ECHO), 5_000)).code == 0
        assert len(sink.sessions) == 2
        await peers.close()


async def test_a_closed_connection_fails_what_waits_and_is_created_again() -> None:
    gone: list[str] = []
    async with node() as (_, addr):
        peers = Peers(on_close=gone.append)
        with pytest.raises(NotReachable, match="closed the connection before it answered"):
            await peers.invoke(addr, request(CLOSE), 5_000)
        assert gone == [addr]
        assert peers.find(addr) is None
        assert (await peers.invoke(addr, request(ECHO), 5_000)).code == 0
        await peers.close()


async def test_a_request_says_why_its_connection_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without memory for an answer said that the peer had closed the connection."""
    async with node() as (_, addr):
        peers = Peers()
        await peers.invoke(addr, request(ECHO), 5_000)
        peer = peers.find(addr)
        assert peer is not None

        def receive(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(peer.sink, "receive", receive)
        why = f"the connection to {addr} ended before it answered: this process has no memory left"
        with pytest.raises(NotReachable, match=why):
            await peers.invoke(addr, request(ECHO), 5_000)
        await peers.close()


async def test_the_peer_may_ask_back_over_the_same_connection() -> None:
    def requests(command: Command, session: Session) -> Reply:
        return Reply(7, "seen", body=bytes(command.body) * 2)

    async with node() as (_, addr):
        peers = Peers(requests=requests)
        assert (await peers.invoke(addr, request(ASK_BACK), 5_000)).remark == "7 seen ??"
        await peers.close()


async def test_without_a_handler_what_the_peer_asks_is_refused() -> None:
    async with node() as (_, addr):
        peers = Peers()
        answer = await peers.invoke(addr, request(ASK_BACK), 5_000)
        assert answer.remark == "3  request type 40 not supported "
        await peers.close()


async def test_a_handler_may_refuse() -> None:
    def requests(command: Command, session: Session) -> Reply:
        raise Refused(206, "not here")

    async with node() as (_, addr):
        peers = Peers(requests=requests)
        assert (await peers.invoke(addr, request(ASK_BACK), 5_000)).remark == "206 not here "
        await peers.close()


async def test_one_way_in_both_directions() -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    async with node() as (sink, addr):
        peers = Peers(requests=lambda command, session: got.put_nowait(bytes(command.body)))
        await peers.oneway(addr, request(PUSH, body=b"hello"))
        assert await asyncio.wait_for(got.get(), 30) == b"news"
        assert sink.heard == [b"hello"]
        await peers.close()


async def test_too_many_unanswered_requests_are_refused() -> None:
    async with node() as (_, addr):
        peers = Peers(in_flight_max=2)
        waiting = [
            asyncio.ensure_future(peers.invoke(addr, request(SILENT), 5_000)) for _ in range(2)
        ]
        await until(lambda: addr in peers._peers and peers._peers[addr]._in_flight == 2)
        with pytest.raises(NotReachable, match="owes answers to 2 requests"):
            await peers.invoke(addr, request(ECHO), 5_000)
        await peers.close()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, NotReachable)


async def test_a_peer_that_takes_nothing_holds_senders_back_until_their_time_is_over() -> None:
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        peer = await Peer.connect(f"127.0.0.1:{deaf.getsockname()[1]}")
        await peer.oneway(request(ECHO, body=bytes(15_000_000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for call in (peer.oneway(request(ECHO), 30), peer.invoke(request(ECHO), 30)):
            with pytest.raises(NotReachable, match="does not take"):
                await call
        peer._connection.abort("enough")
        await peer.closed.wait()
        with pytest.raises(NotReachable, match="closed the connection"):
            await peer.oneway(request(ECHO))


async def test_senders_go_on_when_the_peer_catches_up() -> None:
    async with node() as (_, addr):
        peer = await Peer.connect(addr)
        big = bytes(15_000_000)
        first = asyncio.ensure_future(peer.invoke(request(ECHO, body=big), 20_000))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(peer.invoke(request(ECHO, body=b"2"), 20_000))
        assert len((await first).body) == len(big)
        assert (await second).body == b"2"
        peer.close()
        await peer.closed.wait()


async def test_a_dropped_connection_is_created_again_on_use() -> None:
    async with node() as (sink, addr):
        peers = Peers()
        await peers.get(addr)
        peers.drop(addr)
        peers.drop(addr)
        assert (await peers.invoke(addr, request(ECHO), 5_000)).code == 0
        assert len(sink.sessions) == 2
        await peers.close()


async def test_a_cancelled_caller_does_not_take_the_others_connect_along() -> None:
    async with node() as (_, addr):
        peers = Peers()
        first = asyncio.ensure_future(peers.get(addr))
        second = asyncio.ensure_future(peers.get(addr))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).addr == addr
        await peers.close()


async def test_close_breaks_off_a_connect() -> None:
    async with node() as (_, addr):
        peers = Peers()
        waiting = asyncio.ensure_future(peers.get(addr))
        await asyncio.sleep(0)
        await peers.close()
        with pytest.raises(NotReachable, match="closed"):
            await waiting
