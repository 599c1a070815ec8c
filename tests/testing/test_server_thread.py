"""Servers in threads: starts that fail, pauses, and ends."""

import asyncio
import socket
import threading

import pytest

from epochmq.base.errors import PortInUse, UsageError
from epochmq.testing.server_thread import ServerThread


class Echo:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self.stopped = 0
        self.port = 0
        self.stop_error: Exception | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def stop(self) -> None:
        self.stopped += 1
        self._server.close()
        if self.stop_error is not None:
            raise self.stop_error


def client(echo: Echo) -> socket.socket:
    return socket.create_connection(("127.0.0.1", echo.port), timeout=5)


@pytest.fixture
def echo() -> Echo:
    return Echo()


def test_a_server_runs_in_its_own_thread_until_it_is_stopped(echo: Echo) -> None:
    thread = ServerThread("echo", lambda: echo)
    thread.start()
    assert thread.call(threading.current_thread).name == "epochmq-echo"
    with client(echo) as sock:
        sock.sendall(b"hello")
        assert sock.recv(100) == b"hello"
    thread.stop()
    thread.stop()
    assert echo.stopped == 1
    with pytest.raises(ConnectionRefusedError):
        client(echo)
    assert not any(each.name == "epochmq-echo" for each in threading.enumerate())


def test_a_start_that_fails_leaves_no_thread() -> None:
    def make() -> Echo:
        raise PortInUse("taken", 1)

    with pytest.raises(PortInUse):
        ServerThread("echo", make).start()
    assert not any(each.name == "epochmq-echo" for each in threading.enumerate())


def test_a_paused_server_accepts_and_answers_later(echo: Echo) -> None:
    thread = ServerThread("echo", lambda: echo)
    thread.start()
    thread.pause()
    thread.pause()
    with client(echo) as sock:
        sock.sendall(b"hello")
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(100)
        with pytest.raises(UsageError, match="echo is paused"):
            thread.call(lambda: None)
        thread.resume()
        thread.resume()
        sock.settimeout(5)
        assert sock.recv(100) == b"hello"
    thread.pause()
    thread.stop()  # a paused server can be stopped


def test_a_cut_ends_connections_and_a_mend_allows_new_ones(echo: Echo) -> None:
    thread = ServerThread("echo", lambda: echo)
    thread.start()
    with client(echo) as sock:
        sock.sendall(b"1")
        assert sock.recv(1) == b"1"
        thread.cut()
        assert sock.recv(1) == b""

        async def connect() -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", echo.port)
            writer.close()
            await writer.wait_closed()

        with pytest.raises(ConnectionRefusedError, match="the test cut this server off"):
            thread.run(connect())
        thread.mend()
        thread.run(connect())
    thread.stop()


def test_a_killed_server_is_frozen_before_it_is_closed(echo: Echo) -> None:
    order: list[str] = []
    thread = ServerThread("echo", lambda: echo, lambda: order.append(f"frozen {echo.stopped}"))
    thread.start()
    echo.stop_error = OSError("no disk")
    with client(echo) as sock:
        sock.sendall(b"1")
        assert sock.recv(1) == b"1"
        thread.kill()
        assert sock.recv(1) == b""
    thread.kill()
    assert order == ["frozen 0"]
    assert not thread.is_running


def test_a_stop_that_fails_is_an_error(echo: Echo) -> None:
    thread = ServerThread("echo", lambda: echo)
    thread.start()
    echo.stop_error = OSError("disk")
    with pytest.raises(OSError, match="disk"):
        thread.stop()
    assert not thread.is_running
