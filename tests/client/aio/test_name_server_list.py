"""Where the name servers are: a list, the addresses of a name, or an address server."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from epochmq import Admin, Message, Producer
from epochmq.base.errors import NotReachable, UsageError
from epochmq.client.aio import name_server_list
from epochmq.client.aio.name_server_list import (
    ANSWER_BYTES_MAX,
    FETCH_EVERY_S,
    LOOK_UP_EVERY_S,
    NameServerList,
    parse_addresses,
)
from epochmq.testing import MiniCluster


def test_addresses_are_split() -> None:
    assert parse_addresses("a:1; b:2,c:3;") == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize("text", ["", ";", "host", "host:", "host:0", "host:x", ":1", "host:70000"])
def test_an_unreadable_list_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_addresses(text)


@pytest.mark.parametrize("text", ["ftp://a/b", "file:///etc/hosts", "http://", "http:///x"])
def test_another_url_is_no_address_server(text: str) -> None:
    with pytest.raises(UsageError, match="not a URL of an address server"):
        NameServerList(text)


class AddressServer:
    """Answers each GET with `code` and `body`."""

    def __init__(self) -> None:
        self.code, self.body, self.asked = 200, b"", 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.code)
                if outer.code == 302:
                    self.send_header("Location", outer.body.decode())
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/rocketmq/nsaddr"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[AddressServer]:
    made = AddressServer()
    yield made
    made.stop()


async def test_the_list_of_an_address_server_is_asked_for_again(server: AddressServer) -> None:
    servers = NameServerList(server.url)
    assert servers.addresses == []
    server.body = b"127.0.0.1:1;127.0.0.2:1\n"
    await servers.refresh(0)
    assert servers.addresses == ["127.0.0.1:1", "127.0.0.2:1"]
    server.body = b"127.0.0.3:1"
    await servers.refresh(FETCH_EVERY_S - 1)
    assert server.asked == 1
    await servers.refresh(FETCH_EVERY_S)
    assert servers.addresses == ["127.0.0.3:1"]
    servers.look_again()
    await servers.refresh(FETCH_EVERY_S)
    assert server.asked == 3


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (200, b""),
        (200, b"<html>"),
        (200, b"\xff\xfe"),
        (200, b"127.0.0.1:1;" * ANSWER_BYTES_MAX),
        (404, b"127.0.0.1:1"),
        (302, b"file:///etc/hosts"),
    ],
)
async def test_what_is_no_list_changes_nothing(
    server: AddressServer, code: int, body: bytes
) -> None:
    servers = NameServerList(server.url)
    server.code, server.body = code, body
    with pytest.raises(NotReachable, match="gives no list"):
        await servers.refresh(0)
    server.code, server.body = 200, b"127.0.0.1:1"
    await servers.refresh(0)
    server.code, server.body = code, body
    await servers.refresh(FETCH_EVERY_S)
    assert servers.addresses == ["127.0.0.1:1"]


async def test_the_last_list_is_used_when_the_address_server_is_gone() -> None:
    server = AddressServer()
    server.body = b"127.0.0.1:1"
    servers = NameServerList(server.url)
    await servers.refresh(0)
    server.stop()
    await servers.refresh(FETCH_EVERY_S)
    assert servers.addresses == ["127.0.0.1:1"]
    with pytest.raises(NotReachable, match="address server"):
        await NameServerList(server.url).refresh(0)


async def test_each_address_of_a_name_is_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    found, is_down = ["10.0.0.1", "10.0.0.2"], False

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host == "gone" or is_down:
            raise socket.gaierror
        return [(socket.AF_INET, 1, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    servers = NameServerList("mq:9876;10.0.0.2:9876;gone:1")
    assert servers.addresses == ["mq:9876", "10.0.0.2:9876", "gone:1"]
    await servers.refresh(0)
    assert servers.addresses == ["10.0.0.1:9876", "10.0.0.2:9876", "gone:1"]
    found[0] = "10.0.0.3"
    await servers.refresh(LOOK_UP_EVERY_S - 1)
    assert servers.addresses[0] == "10.0.0.1:9876"
    await servers.refresh(LOOK_UP_EVERY_S)
    assert servers.addresses[0] == "10.0.0.3:9876"
    is_down = True
    await servers.refresh(2 * LOOK_UP_EVERY_S)
    assert servers.addresses[:2] == ["10.0.0.3:9876", "10.0.0.2:9876"]
    is_down = False
    del found[1]
    await servers.refresh(3 * LOOK_UP_EVERY_S)
    assert servers.addresses == ["mq:9876", "10.0.0.2:9876", "gone:1"]
    by_name = NameServerList("mq:9876", by_name=True)
    found.append("10.0.0.4")
    await by_name.refresh(0)
    assert by_name.addresses == ["mq:9876"]


async def test_calls_at_the_same_time_share_one_look_up(server: AddressServer) -> None:
    servers = NameServerList(server.url)
    server.body = b"127.0.0.1:1"
    await asyncio.gather(*(servers.refresh(0) for _ in range(5)))
    assert (servers.addresses, server.asked) == (["127.0.0.1:1"], 1)
    server.code = 500
    for _ in range(5):
        await servers.refresh(FETCH_EVERY_S)
    assert server.asked == 2


async def test_a_resolver_that_does_not_answer_delays_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    monkeypatch.setattr(name_server_list, "LOOK_UP_TIMEOUT_S", 0.01)
    servers = NameServerList("mq:9876")
    await servers.refresh(0)
    assert servers.addresses == ["mq:9876"]


@pytest.mark.parametrize("name", ["a..b", "x" * 300, "a b", "::1"])
async def test_a_name_that_cannot_be_looked_up_is_left_to_the_connection(name: str) -> None:
    servers = NameServerList(f"{name}:9876")
    await servers.refresh(0)
    assert servers.addresses == [f"{name}:9876"]


async def test_localhost_is_one_name_server() -> None:
    servers = NameServerList("localhost:9876")
    await servers.refresh(0)
    assert servers.addresses == ["localhost:9876"]


def test_clients_follow_the_address_server(server: AddressServer) -> None:
    async def work() -> None:
        async with Producer(server.url, "p") as producer:
            await producer.send(Message("T", b"1"))
        async with Admin(server.url) as admin:
            assert admin.name_servers == [cluster.namesrv]

    with MiniCluster() as cluster:
        server.body = cluster.namesrv.encode()
        asyncio.run(work())
        assert [message.body for message in cluster.messages("T")] == [b"1"]
