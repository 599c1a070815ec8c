"""A relay with real sockets, between real connections and brokers of `brokers.py`."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import pytest
from tests.relay.brokers import GROUP, FakeBroker, FakeNameServer, log_lines

from epochmq.base.errors import NotReachable, PortInUse
from epochmq.relay.options import load_options
from epochmq.relay.relay_server import Relay
from epochmq.runtime.peers import Peer
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, encode_frame, request

WITHIN_S = 20


def run_async(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **given: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(WITHIN_S):
                await test(*args, **given)

        asyncio.run(limited())

    return run


class World:
    """A relay, its brokers, and one client."""

    def __init__(self, relay: Relay, brokers: list[FakeBroker]) -> None:
        self.relay = relay
        self.first, self.second = brokers
        self.group = relay.groups[0]

    async def connect(self) -> Peer:
        return await Peer.connect(f"127.0.0.1:{self.group.port}")


@asynccontextmanager
async def world(**options: str) -> AsyncIterator[World]:
    brokers = [await FakeBroker("first").start(), await FakeBroker("second").start()]
    given = {
        "relayGroups": f"{GROUP}:0",
        "brokerAddrs": ";".join(broker.address for broker in brokers),
        **options,
    }
    relay = Relay(load_options(given))
    await relay.start()
    made = World(relay, brokers)
    try:
        for broker in brokers:
            await broker.watched.wait()
        yield made
    finally:
        await relay.stop(0)
        for broker in brokers:
            await broker.die()


def send(body: bytes = b"m") -> Command:
    return request(RequestCode.SEND_MESSAGE_V2, {}, body)


@run_async
async def test_a_request_goes_to_the_master_and_its_answer_comes_back() -> None:
    async with world() as it:
        it.second.become(writable=True, epoch=2)
        client = await it.connect()
        answers = await asyncio.gather(*(client.invoke(send(b"%d" % n), 5_000) for n in range(50)))
        assert {bytes(answer.body) for answer in answers} == {b"second"}
        assert it.second.sends == [b"%d" % n for n in range(50)]
        assert it.first.sends == []
        client.close()


@run_async
async def test_frames_arrive_in_pieces() -> None:
    """The Go client writes a frame in four pieces; a network cuts anywhere."""
    async with world() as it:
        it.second.become(writable=True, epoch=2)
        client = await it.connect()
        frames = b"".join(
            encode_frame(Command(RequestCode.SEND_MESSAGE_V2, opaque=n, ext={}, body=b"%d" % n))
            for n in range(400)
        )
        pieces = random.Random(1)
        while frames:
            size = pieces.choice((1, 4, 30, 200, 700))
            client.session.send(frames[:size])
            frames = frames[size:]
            if pieces.random() < 0.5:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        while len(it.second.sends) < 400:
            await it.second.sent.wait()
            it.second.sent.clear()
        assert it.second.sends == [b"%d" % n for n in range(400)]
        client.close()


@run_async
async def test_a_request_waits_for_a_master() -> None:
    async with world() as it:
        client = await it.connect()
        answer = asyncio.create_task(client.invoke(send(), 5_000))
        other = await it.connect()
        await other.oneway(send(b"oneway"))
        it.first.become(writable=True, epoch=1)
        assert bytes((await answer).body) == b"first"
        while len(it.first.sends) < 2:
            await it.first.sent.wait()
            it.first.sent.clear()
        assert sorted(it.first.sends) == [b"m", b"oneway"]
        client.close(), other.close()


@run_async
async def test_a_client_keeps_its_connection_when_the_master_dies() -> None:
    async with world() as it:
        it.first.become(writable=True, epoch=1)
        client = await it.connect()
        await client.invoke(request(RequestCode.HEART_BEAT, {}, b"beat"), 5_000)
        it.first.mute = True
        it.first.sent.clear()
        answer = asyncio.create_task(client.invoke(send(b"in flight"), 5_000))
        await it.first.sent.wait()
        with log_lines() as log:
            await it.first.die()
            await log.until("no master; 1 clients wait")
            it.second.become(writable=True, epoch=2)
            await log.until("(epoch 2) after")
        assert bytes((await answer).body) == b"second"
        assert it.second.sends == [b"beat", b"in flight"]
        assert not client.closed.is_set()
        client.close()


@run_async
async def test_a_paused_master_is_left_for_one_of_a_higher_epoch() -> None:
    async with world() as it:
        it.first.become(writable=True, epoch=1)
        it.first.mute = True
        client = await it.connect()
        answer = asyncio.create_task(client.invoke(send(), 5_000))
        await it.first.sent.wait()
        (old,) = it.first.clients
        left = asyncio.Event()
        old.on_close.append(lambda _session: left.set())
        it.second.become(writable=True, epoch=2)
        assert bytes((await answer).body) == b"second"
        await left.wait()
        client.close()


@run_async
async def test_a_client_that_the_master_refuses_is_disconnected() -> None:
    async with world() as it:
        it.first.become(writable=True, epoch=1)
        it.first.closes = True
        client = await it.connect()
        with pytest.raises(NotReachable, match="closed the connection"):
            await client.invoke(send(), 5_000)
        assert len(it.first.sends) == 1, "a master that cuts a client gets no request again"


@run_async
async def test_garbage_ends_the_connection_of_its_sender_only() -> None:
    async with world() as it:
        it.first.become(writable=True, epoch=1)
        client, stranger = await it.connect(), await it.connect()
        stranger.session.send(b"GET / HTTP/1.1\r\n\r\n")
        await stranger.closed.wait()
        assert bytes((await client.invoke(send(), 5_000)).body) == b"first"
        client.close()


@run_async
async def test_a_request_that_waits_for_too_long_is_refused() -> None:
    async with world(holdTimeoutMillis="100") as it:
        client = await it.connect()
        answer = await client.invoke(send(), 5_000)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert answer.remark == "no master for 100 ms"
        client.close()


@run_async
async def test_a_master_that_returns_at_once_gets_its_clients_back() -> None:
    async with world() as it:
        it.first.become(writable=True, epoch=1)
        client = await it.connect()
        await client.invoke(send(), 5_000)
        await it.first.die()
        await it.first.start()
        assert bytes((await client.invoke(send(), 5_000)).body) == b"first"
        client.close()


@run_async
async def test_the_name_servers_say_where_the_brokers_are() -> None:
    names = await FakeNameServer().start()
    broker = await FakeBroker("named").start()
    stranger = await FakeBroker("stranger", group="another").start()
    stranger.become(writable=True, epoch=9)
    names.members = {0: broker.address, 1: stranger.address}
    broker.become(writable=True, epoch=1)
    options = {"relayGroups": f"{GROUP}:0", "namesrvAddr": f"127.0.0.1:1;127.0.0.1:{names.port}"}
    relay = Relay(load_options(options))
    await relay.start()
    client = await Peer.connect(f"127.0.0.1:{relay.groups[0].port}")
    assert bytes((await client.invoke(send(), 5_000)).body) == b"named"
    assert stranger.sends == []
    client.close()
    await relay.stop(0)
    for each in (broker, stranger):
        await each.die()
    await names.stop()


@run_async
async def test_a_port_in_use_is_an_error() -> None:
    async with world() as it:
        options = {"relayGroups": f"b:{it.group.port}", "brokerAddrs": "127.0.0.1:1"}
        with pytest.raises(PortInUse, match="relayGroups"):
            await Relay(load_options(options)).start()
