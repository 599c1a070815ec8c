"""The proxy between a client and a server."""

import socket
import time
from collections.abc import Iterator

import pytest
from tests.testing.test_server_thread import Echo

from epochmq.testing.fault_proxy import FaultProxy
from epochmq.testing.server_thread import ServerThread


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    thread = ServerThread("echo", lambda: server)
    thread.start()
    yield server
    thread.stop()


def connect(proxy: FaultProxy) -> socket.socket:
    host, port = proxy.address.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_data_passes_in_both_directions(echo: Echo) -> None:
    with FaultProxy(f"127.0.0.1:{echo.port}") as proxy, connect(proxy) as sock:
        data = bytes(range(256)) * 1_000
        sock.sendall(data)
        found = b""
        while len(found) < len(data):
            found += sock.recv(65_536)
        assert found == data
        assert proxy.connections == 1


def test_a_stall_holds_everything_until_it_is_mended(echo: Echo) -> None:
    with FaultProxy(f"127.0.0.1:{echo.port}") as proxy, connect(proxy) as sock:
        sock.sendall(b"1")
        assert sock.recv(1) == b"1"
        proxy.stall()
        sock.sendall(b"2")
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        proxy.mend()
        sock.settimeout(5)
        assert sock.recv(1) == b"2"


def test_a_delay_is_added_in_each_direction(echo: Echo) -> None:
    with FaultProxy(f"127.0.0.1:{echo.port}") as proxy, connect(proxy) as sock:
        proxy.delay(0.1)
        began = time.monotonic()
        sock.sendall(b"1")
        assert sock.recv(1) == b"1"
        assert time.monotonic() - began >= 0.2


def test_a_reset_ends_connections_and_a_cut_refuses_new_ones(echo: Echo) -> None:
    with FaultProxy(f"127.0.0.1:{echo.port}") as proxy:
        for fault in (proxy.reset, proxy.cut):
            with connect(proxy) as sock:
                sock.sendall(b"1")
                assert sock.recv(1) == b"1"
                fault()
                assert is_closed(sock)
        with connect(proxy) as sock:
            assert is_closed(sock)
        proxy.mend()
        with connect(proxy) as sock:
            sock.sendall(b"1")
            assert sock.recv(1) == b"1"


def test_without_a_server_the_connection_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with FaultProxy(f"127.0.0.1:{port}") as proxy, connect(proxy) as sock:
        assert is_closed(sock)
