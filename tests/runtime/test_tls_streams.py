"""TLS on replication sockets: real sockets, small buffers, and links of both kinds."""

import asyncio
import hashlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.runtime.test_tls import CERT, KEY, options

from epochmq.admin.shared.certificate_files import make_files
from epochmq.base.errors import ConfigError, NotReachable
from epochmq.runtime.signals import reload
from epochmq.runtime.streams import StreamSockets
from epochmq.runtime.tls import OutgoingTls, client_tls, renew_outgoing, server_tls
from epochmq.runtime.tls_streams import TlsStreamSockets

TRUSTING = OutgoingTls(tls_enable=True, tls_client_trust_cert_path=CERT)


def made(
    *, plain_allowed: bool = False, outgoing: OutgoingTls = TRUSTING, **server: Any
) -> TlsStreamSockets:
    tls, context = server_tls(options(**server)), client_tls(outgoing)
    assert tls is not None
    assert context is not None
    return TlsStreamSockets(tls, context, plain_allowed=plain_allowed)


class Port:
    """A replication port of a master, which accepts one link."""

    def __init__(self, sockets: StreamSockets) -> None:
        self.sockets = sockets
        self.listener, self.number = sockets.listen("127.0.0.1", 0)
        self._links: list[Any] = []

    async def accepted(self) -> Any:
        await self.sockets.when_ready(self.listener, writable=False)
        found = self.sockets.accept(self.listener)
        assert found is not None
        self._links.append(found[0])
        return found[0]

    async def served(self) -> Any:
        """Accept a link and read its first byte, which completes the handshake."""
        link = await self.accepted()
        assert await read(link, 1) == b"!"
        return link

    async def linked(self, sockets: StreamSockets) -> tuple[Any, Any]:
        """Return both ends of a new link, the follower's first."""

        async def call() -> Any:
            mine = await sockets.connect("127.0.0.1", self.number, 5_000)
            self._links.append(mine)
            mine.send(b"!")
            return mine

        async with asyncio.timeout(10):
            mine, theirs = await asyncio.gather(call(), self.served())
        return mine, theirs

    def close(self) -> None:
        for link in (*self._links, self.listener):
            link.close()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    one = Port(made())
    yield one
    one.close()


async def read(link: Any, size: int, piece: int = 1 << 16) -> bytes:
    """Read exactly `size` bytes, at most `piece` at once."""
    data = b""
    while len(data) < size:
        buffer = bytearray(min(piece, size - len(data)))
        try:
            count = link.recv_into(buffer)
        except BlockingIOError:
            await StreamSockets().when_ready(link, writable=False)
            continue
        if not count:
            raise EOFError
        data += buffer[:count]
    return data


async def write_file(link: Any, file: int, size: int) -> None:
    """Write a file as a master does: what was not written is offered again."""
    at = 0
    while at < size:
        try:
            at += link.send_file(file, at, size - at)
        except BlockingIOError:
            await StreamSockets().when_ready(link, writable=True)


async def write(link: Any, data: bytes) -> None:
    while data:
        try:
            data = data[link.send(data) :]
        except BlockingIOError:
            await StreamSockets().when_ready(link, writable=True)


async def test_bytes_go_both_ways_and_are_encrypted(port: Port) -> None:
    mine, theirs = await port.linked(port.sockets)
    for one, other in ((mine, theirs), (theirs, mine)):
        assert one.sendmsg((b"head", b"", b"body")) == 8
        assert await read(other, 8) == b"headbody"
    assert mine.fileno() > 0
    assert theirs.fileno() > 0
    with pytest.raises(BlockingIOError):
        mine.recv_into(bytearray(1))
    mine.close()
    with pytest.raises(EOFError):
        await read(theirs, 1)


@pytest.mark.parametrize("piece", [1, 7_000, 16_384, 1 << 20])
async def test_large_data_in_both_directions_at_once(
    port: Port, piece: int, tmp_path: Path
) -> None:
    """Sockets are full most of the time, so that every call stops half way at some time."""
    size = 6_000_000 if piece > 1 else 100_000
    path = tmp_path / "log"
    path.write_bytes(Random(0).randbytes(size))
    data = path.read_bytes()
    mine, theirs = await port.linked(port.sockets)
    file = os.open(path, os.O_RDONLY)
    try:
        async with asyncio.timeout(60):
            _, _, here, there = await asyncio.gather(
                write_file(theirs, file, size),
                write(mine, data),
                read(mine, size, piece),
                read(theirs, size, piece),
            )
        with pytest.raises(ConnectionError, match="shorter than expected"):
            theirs.send_file(file, size, 1)
    finally:
        os.close(file)
    assert hashlib.sha256(here).digest() == hashlib.sha256(there).digest()
    assert here == data


async def test_head_and_body_when_the_socket_is_full(port: Port) -> None:
    """After a part of a call, the caller offers the head, then the body, in other pieces."""
    mine, theirs = await port.linked(port.sockets)
    sent = b""
    while True:
        head, body = b"h" * 29, os.urandom(60_000)
        try:
            count = theirs.sendmsg((head, body))
        except BlockingIOError:
            break
        sent += (head + body)[:count]
        if count < 29 + 60_000:
            break
    rest = b"" if count == 0 else (head + body)[count:]
    _, got = await asyncio.gather(write(theirs, rest), read(mine, len(sent) + len(rest)))
    assert got == sent + rest


async def test_a_plain_link_is_refused_unless_it_is_allowed() -> None:
    for allowed in (False, True):
        port = Port(made(plain_allowed=allowed))
        mine = await StreamSockets().connect("127.0.0.1", port.number, 1_000)
        theirs = await port.accepted()
        for call, argument in ((theirs.send, b"x"), (theirs.sendmsg, (b"x",))):
            with pytest.raises(BlockingIOError):
                call(argument)
        with pytest.raises(BlockingIOError):
            theirs.recv_into(bytearray(1))
        mine.send(b"\x00plain")
        if allowed:
            assert await read(theirs, 6) == b"\x00plain"
            assert theirs.send(b"x") == 1
        else:
            with pytest.raises(ConnectionError, match="not encrypted"):
                await read(theirs, 1)
        mine.close()
        port.close()


async def test_a_follower_tries_tls_and_then_a_plain_link_if_it_may() -> None:
    for allowed in (False, True):
        port = Port(StreamSockets())  # a master of an older version

        async def hang_up(port: Port = port) -> None:
            link = await port.accepted()
            assert (await read(link, 1)) == b"\x16"
            link.close()

        sockets = made(plain_allowed=allowed)
        for _ in range(2):
            refused = asyncio.create_task(hang_up())
            with pytest.raises(NotReachable, match="with TLS"):
                await sockets.connect("127.0.0.1", port.number, 5_000)
            await refused
            if allowed:
                mine, _theirs = await port.linked(sockets)
                mine.close()
        port.close()


async def test_a_master_that_says_nothing() -> None:
    port = Port(StreamSockets())
    with pytest.raises(NotReachable, match="no answer within 50 ms"):
        await made().connect("127.0.0.1", port.number, 50)
    port.close()


@pytest.mark.parametrize("checks_name", [False, True])
async def test_a_master_whose_certificate_is_not_trusted(checks_name: bool, tmp_path: Path) -> None:
    """It is of another authority, or has another name."""
    make_files(tmp_path, "other", ("elsewhere",), 1)
    outgoing = OutgoingTls(
        tls_enable=True,
        tls_client_trust_cert_path=str(tmp_path / "ca.pem") if checks_name else CERT,
        tls_client_check_host_name=checks_name,
    )
    files = {
        "tls_cert_path": str(tmp_path / "other.pem"),
        "tls_key_path": str(tmp_path / "other.key"),
    }
    sockets = made(outgoing=outgoing, **files)
    port = Port(sockets)
    connecting = asyncio.create_task(sockets.connect("127.0.0.1", port.number, 5_000))
    link = await port.accepted()
    with pytest.raises((OSError, EOFError)):
        await read(link, 1)
    with pytest.raises(NotReachable, match="certificate verify failed"):
        await connecting
    port.close()


async def test_a_follower_without_the_demanded_certificate() -> None:
    demanding = {"tls_need_client_auth": "require", "tls_trust_cert_path": CERT}
    port = Port(made(**demanding))
    served = asyncio.create_task(port.served())
    mine = await made().connect("127.0.0.1", port.number, 5_000)
    with pytest.raises(OSError, match=r"(?i)certificate"):
        await served
    mine.close()
    with_one = OutgoingTls(
        tls_enable=True,
        tls_client_trust_cert_path=CERT,
        tls_client_cert_path=CERT,
        tls_client_key_path=KEY,
    )
    await port.linked(made(outgoing=with_one))
    port.close()


def serial(link: Any) -> str:
    """Return the number of the certificate that the other end showed."""
    found = link._sock.getpeercert()
    return str(found["serialNumber"])


async def test_new_certificates_are_used_after_a_reload(tmp_path: Path) -> None:
    """On both ends; the links that exist stay."""
    names = {"tls_cert_path": str(tmp_path / "a.pem"), "tls_key_path": str(tmp_path / "a.key")}
    authority = str(tmp_path / "ca.pem")
    make_files(tmp_path, "a", ("127.0.0.1",), 1)
    outgoing = OutgoingTls(
        tls_enable=True,
        tls_client_trust_cert_path=authority,
        tls_client_cert_path=names["tls_cert_path"],
        tls_client_key_path=names["tls_key_path"],
    )
    demanding = {"tls_need_client_auth": "require", "tls_trust_cert_path": authority}
    sockets = made(outgoing=outgoing, **names, **demanding)
    port = Port(sockets)
    mine, theirs = await port.linked(sockets)
    before = serial(mine), serial(theirs._stream)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(ConfigError, match=r"a\.pem|ca\.pem"):
        renew_outgoing()
    make_files(tmp_path, "a", ("127.0.0.1",), 1)
    assert renew_outgoing() != ""
    reload()
    after, other = await port.linked(sockets)
    assert serial(after) != before[0]
    assert serial(other._stream) == serial(after) != before[1]
    mine.send(b"x")
    assert await read(theirs, 1) == b"x"
    assert isinstance(after._sock, ssl.SSLSocket)
    port.close()
