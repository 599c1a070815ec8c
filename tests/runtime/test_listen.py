import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from epochmq.base.errors import EnvironmentFault, PortInUse
from epochmq.runtime import listen as module
from epochmq.runtime.listen import is_held_by, listen, name_holder


def test_it_listens_with_the_options_that_accepted_sockets_inherit() -> None:
    with listen("127.0.0.1", 0) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        assert sock.getblocking() is False
        with socket.create_connection(sock.getsockname()):
            sock.setblocking(True)
            accepted, _ = sock.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@pytest.fixture
def port_in_use(monkeypatch: pytest.MonkeyPatch) -> Iterator[PortInUse]:
    """The error of a port that this process listens on; /proc is not read for it."""
    with listen("127.0.0.1", 0) as sock, monkeypatch.context() as patched:
        patched.setattr(module, "describe_holder", None)
        with pytest.raises(PortInUse) as error:
            listen("127.0.0.1", sock.getsockname()[1])
        patched.undo()
        yield error.value


def test_a_taken_port_says_what_to_do_and_names_its_holder(port_in_use: PortInUse) -> None:
    text = str(port_in_use)
    assert f"127.0.0.1:{port_in_use.port}" in text
    assert "another listenPort" in text
    assert name_holder(port_in_use).startswith(f"{text}; it is taken by process {os.getpid()} (")


def test_a_taken_port_of_an_unknown_holder(
    port_in_use: PortInUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "describe_holder", lambda port: "")
    assert name_holder(port_in_use) == str(port_in_use)


def test_whether_a_process_listens_on_a_port() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert is_held_by(os.getpid(), port) is True
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            assert is_held_by(other.pid, port) is False
            other.communicate(b"\n")
    assert is_held_by(os.getpid(), port) is False
    assert is_held_by(os.getpid(), port, "/no/such/proc") is None


def test_an_error_about_several_ports_has_no_holder() -> None:
    assert name_holder(PortInUse("no free block")) == "no free block"


def test_an_address_of_another_machine() -> None:
    with pytest.raises(EnvironmentFault, match="no such address"):
        listen("192.0.2.1", 0)


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(EnvironmentFault, match="does not resolve"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize(
    ("code", "text"),
    [(errno.EACCES, "privileges"), (errno.ENOBUFS, "No buffer space")],
)
def test_other_faults_are_one_clear_line(
    code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sock: socket.socket) -> None:
        raise OSError(code, "No buffer space")

    monkeypatch.setattr(module, "tune", fail)
    with pytest.raises(EnvironmentFault, match=text) as error:
        listen("127.0.0.1", 0)
    assert "\n" not in str(error.value)


def test_ipv6_works_where_the_machine_has_it() -> None:
    try:
        sock = listen("::1", 0)
    except EnvironmentFault as error:
        pytest.skip(str(error))
    with sock:
        assert sock.family == socket.AF_INET6


def test_an_option_that_a_system_does_not_know_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    listen("127.0.0.1", 0).close()
