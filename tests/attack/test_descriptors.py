"""Clients take all file descriptors they can get; the store must not notice."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.attack.server import Line, running_broker, send_message

pytestmark = pytest.mark.process

DESCRIPTORS = 256
STRANGERS = 356


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing; those that were refused are among them."""
    socks = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
    try:
        yield socks
    finally:
        for sock in socks:
            sock.close()


def test_idle_connections_do_not_keep_the_store_from_its_files(tmp_path: Path) -> None:
    with running_broker(tmp_path, descriptors=DESCRIPTORS) as broker, broker.line() as line:
        assert send_message(line, "Before").code == 0
        with broker.check_turns():
            with idle_connections(broker.port, STRANGERS):
                # Over 30 new files, and the index is made meanwhile.
                for number in range(12):
                    topic = f"Topic{number}"
                    answer = send_message(line, topic, properties="KEYS\x01key\x02")
                    assert answer.code == 0, (number, answer.remark)
                table = runtime_info(line)
            wait_until_gone(line)
        assert (table["storeFenced"], table["epochmqOutOfResources"]) == ("", "false")
        assert int(table["epochmqDescriptors"]) <= DESCRIPTORS - DESCRIPTORS // 8
        assert table["epochmqDescriptorsMax"] == str(DESCRIPTORS)
        broker.wait_for_log("a connection was refused")
        assert broker.log_text().count("a connection was refused") < 5
        assert broker.send("After").code == 0


def wait_until_gone(line: Line) -> None:
    """The server sees the strangers' connections closed."""
    for _ in range(100_000):
        if int(runtime_info(line)["epochmqDescriptors"]) < DESCRIPTORS // 2:
            return
    pytest.fail("the descriptors of closed connections are not free")


def runtime_info(line: Line) -> dict[str, str]:
    table: dict[str, str] = json.loads(line.call(28).body)["table"]
    return table


def test_silent_connections_make_room_for_clients(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, descriptors=DESCRIPTORS) as broker,
        idle_connections(broker.port, STRANGERS) as silent,
    ):
        with pytest.raises(ConnectionError):
            broker.send("Later")
        assert silent[0].recv(1) == b""  # closed, as others were refused
        assert broker.send("Later").code == 0


def test_the_replication_port_does_not_spin_without_descriptors(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        ha_port = probe.getsockname()[1]
    settings = {"brokerRole": "ASYNC_MASTER", "haListenPort": ha_port}
    with (
        running_broker(tmp_path, settings, descriptors=DESCRIPTORS) as broker,
        broker.line() as line,
        idle_connections(broker.port, STRANGERS),
        idle_connections(ha_port, 100),
    ):
        assert send_message(line, "Before").code == 0
        size = broker.log_file.stat().st_size
        for _ in range(50):
            assert send_message(line, "Before").code == 0
        assert broker.log_file.stat().st_size - size < 10_000
        assert runtime_info(line)["storeFenced"] == ""
