import asyncio
from contextlib import suppress

import pytest

from epochmq.base.errors import NotReachable, PortInUse
from epochmq.runtime.streams import StreamSockets


async def test_a_connection_both_ways() -> None:
    sockets = StreamSockets()
    listener, port = sockets.listen("127.0.0.1", 0)
    assert sockets.accept(listener) is None
    mine = await sockets.connect("127.0.0.1", port, 1000)
    accepted = sockets.accept(listener)
    assert accepted is not None
    theirs, peer = accepted
    assert peer == f"127.0.0.1:{mine.getsockname()[1]}"
    assert theirs.gettimeout() == mine.gettimeout() == 0.0
    mine.send(b"hello")
    assert await asyncio.get_running_loop().sock_recv(theirs, 10) == b"hello"
    for sock in (mine, theirs, listener):
        sock.close()


async def test_a_port_is_taken() -> None:
    sockets = StreamSockets()
    listener, port = sockets.listen("127.0.0.1", 0)
    with pytest.raises(PortInUse):
        sockets.listen("127.0.0.1", port)
    listener.close()


async def test_nobody_listens() -> None:
    sockets = StreamSockets()
    listener, port = sockets.listen("127.0.0.1", 0)
    listener.close()
    with pytest.raises(NotReachable, match=str(port)):
        await sockets.connect("127.0.0.1", port, 1000)


async def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(NotReachable):
        await StreamSockets().connect("no-such-host.invalid", 1, 2000)


async def test_nobody_answers() -> None:
    sockets = StreamSockets()
    listener, port = sockets.listen("127.0.0.1", 0)
    listener.listen(0)
    waiting = [await sockets.connect("127.0.0.1", port, 1000)]
    with suppress(NotReachable):
        for _ in range(10):
            waiting.append(await sockets.connect("127.0.0.1", port, 50))
    with pytest.raises(NotReachable, match="within 50 ms"):
        await sockets.connect("127.0.0.1", port, 50)
    for sock in (*waiting, listener):
        sock.close()
