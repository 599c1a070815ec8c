"""Frames that are announced and not sent, headers of every size, and other protocols."""

import json
import socket
import struct
from pathlib import Path

import pytest
from tests.attack.server import Server, running_broker, send_message

pytestmark = pytest.mark.process

MIB = 1024 * 1024
MESSAGE_ILLEGAL = 13


def memory_bytes(server: Server) -> int:
    """Resident memory of the process."""
    pages = Path(f"/proc/{server.child.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def test_an_announced_frame_costs_what_was_sent_of_it(tmp_path: Path) -> None:
    sent = struct.pack(">ii", 16 * MIB - 4, 100) + bytes(131 * 1024)
    with running_broker(tmp_path) as broker, broker.line() as line:
        assert send_message(line, "T").code == 0
        before = memory_bytes(broker)
        with broker.check_turns():
            socks = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(100)]
            for sock in socks:
                sock.sendall(sent)
            # What came before this request on other connections is read by then.
            for _ in range(20):
                assert send_message(line, "T").code == 0
            assert memory_bytes(broker) - before < 100 * MIB
            for sock in socks:
                sock.close()
            assert send_message(line, "T").code == 0


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("\x02".join(f"k{number}\x01v" for number in range(4_000)), 0),
        ("p\x01" + '"' * 32_600, 0),
        ("p\x01" + "\x03" * 32_600, 0),
        ("p\x01" + "x" * 33_000, MESSAGE_ILLEGAL),
        ("p\x01" + "\u4e2d" * 32_769, MESSAGE_ILLEGAL),
        ("p\x01" + "x" * 200_000, MESSAGE_ILLEGAL),
        ("p\x01" + "x" * 300_000, MESSAGE_ILLEGAL),
        ("p\x01" + "x" * 4_000_000, MESSAGE_ILLEGAL),
    ],
    ids=[
        "4,000 pairs",
        "quotation marks",
        "control characters",
        "33 KB",
        "Chinese",
        "200 KB",
        "more than a header may have",
        "4 MB",
    ],
)
def test_headers_that_properties_may_need(broker: Server, properties: str, code: int) -> None:
    with broker.line() as line:
        answer = send_message(line, "Properties", properties=properties)
        assert answer.code == code, answer.remark
        assert send_message(line, "Properties").code == 0  # the connection is still there


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with running_broker(tmp_path_factory.mktemp("broker")) as server:
        yield server


def say_until_logged(broker: Server, said: bytes, text: str) -> None:
    """Each time the connection is closed; one line a second tells why."""
    for _ in range(10_000):
        with broker.line() as line:
            line.sock.sendall(said)
            assert line.is_closed()
        if text in broker.log_text():
            return
    pytest.fail(f"{text!r} is not in the log: {broker.log_tail()}")


@pytest.mark.parametrize(
    ("said", "name"),
    [(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 (gRPC)"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1")],
)
def test_another_protocol_is_named_in_the_log(broker: Server, said: bytes, name: str) -> None:
    say_until_logged(broker, said, f"the peer speaks {name} here")


def test_properties_come_back_whole(broker: Server) -> None:
    properties = "\x02".join(f"k{number}\x01v" for number in range(4_000))
    with broker.line() as line:
        assert send_message(line, "Whole", properties=properties).code == 0
        ext = {
            "consumerGroup": "g", "topic": "Whole", "queueId": 0, "queueOffset": 0,
            "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0, "expressionType": "TAG",
        }  # fmt: skip
        answer = line.call(11, ext)
    assert answer.code == 0, json.dumps(answer.remark)
    assert all(f"k{number}\x01v".encode() in answer.body for number in range(4_000))
