"""Thousands of legal requests in one read: other clients are served, and the memory stays small.

A stranger can put 2,600 requests into one read of 256 KiB. Some of them take milliseconds, others
have answers of hundreds of kilobytes.
"""

import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from tests.attack.server import (
    Line,
    Server,
    frame,
    running_broker,
    running_name_server,
    send_message,
)
from tests.attack.test_name_server import names
from tests.compat.peers.ports import free_port

from epochmq.broker.requests.request_routing import ROWS, Access
from epochmq.wire.codes import RequestCode as Code

pytestmark = pytest.mark.process

CERTIFICATES = Path(__file__).parents[1] / "runtime" / "testdata"
CERT, KEY = CERTIFICATES / "server.crt", CERTIFICATES / "server.key"
READ_BYTES = 256 * 1024
MEMORY_MB_MAX = 150
"""Memory that the floods of a test may need, above what the server had before."""
TOPICS = 2_000
GROUPS = 300

QUEUE = {"topic": "T", "queueId": 0}
GROUP = {"consumerGroup": "g1"}
POP = {
    **GROUP, "topic": "T", "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0,
    "bornTime": 0, "initMode": 0, "expType": "TAG", "exp": "*",
}  # fmt: skip
HEADERS: dict[Code, Mapping[str, object]] = {
    Code.PULL_MESSAGE: {
        **GROUP, **QUEUE, "queueOffset": 0, "maxMsgNums": 256, "sysFlag": 4, "commitOffset": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
    },
    Code.POP_MESSAGE: POP,
    Code.PEEK_MESSAGE: {**GROUP, **QUEUE, "maxMsgNums": 32},
    Code.BULK_READ: {**QUEUE, "offset": 0, "maxBytes": 8 << 20},
    Code.LOG_READ: {"fromOffset": 0, "maxBytes": 8 << 20},
    Code.LOG_DIGESTS: {"fromOffset": 0, "blockBytes": 4096},
    Code.QUERY_MESSAGE: {
        "topic": "T", "key": "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60
    },
    Code.KEY_PLACES: {"topic": "T", "key": "k"},
    Code.QUERY_CONSUME_QUEUE: {**QUEUE, "index": 0, "count": 1024, "consumerGroup": ""},
    Code.VIEW_MESSAGE_BY_ID: {"offset": 0},
    Code.SEARCH_OFFSET_BY_TIMESTAMP: {**QUEUE, "timestamp": 0},
    Code.GET_BROKER_CONSUME_STATS: {"isOrder": "false"},
    Code.GET_CONSUME_STATS: GROUP,
    Code.QUERY_CORRECTION_OFFSET: {"filterGroups": "", "compareGroup": "g1", "topic": "T"},
    Code.QUERY_CONSUME_TIME_SPAN: {"topic": "T", "group": "g1"},
    Code.QUERY_TOPIC_CONSUME_BY_WHO: {"topic": "T"},
    Code.GET_TOPIC_STATS_INFO: {"topic": "T"},
    Code.QUERY_TOPICS_BY_CONSUMER: {"group": "g1"},
    Code.VIEW_BROKER_STATS_DATA: {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"},
}  # fmt: skip
"""Headers of requests that need one; the others work without, or are refused."""
BROKER_CODES = [code for code, row in ROWS.items() if row.access is not Access.ELSEWHERE]
NAME_SERVER_CODES: dict[int, Mapping[str, object]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: {"topic": "T1"},
    Code.GET_BROKER_CLUSTER_INFO: {},
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {},
    Code.GET_TOPICS_BY_CLUSTER: {"cluster": "c"},
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: {},
    Code.GET_KVLIST_BY_NAMESPACE: {"namespace": "n"},
    Code.GET_BROKER_RUNTIME_INFO: {},
    Code.GET_NAMESRV_CONFIG: {},
}


class Flood:
    """A connection that sends one read full of a request, and reads no answer."""

    def __init__(self, server: Server, code: int, ext: Mapping[str, object]) -> None:
        one = frame(code, ext)
        self.count = READ_BYTES // len(one)
        self._sock = socket.socket()
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._sock.connect(("127.0.0.1", server.port))
        self._sock.sendall(one * self.count)

    def close(self) -> None:
        self._sock.close()


def peak_mb(server: Server) -> int:
    """The most memory that the server ever had (VmHWM)."""
    status = Path(f"/proc/{server.child.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


def fill_broker(broker: Server) -> None:
    configs = [
        {
            "topicName": f"a_topic_of_some_user_{n}",
            "readQueueNums": 8,
            "writeQueueNums": 8,
            "perm": 6,
        }
        for n in range(TOPICS)
    ]
    with broker.line() as line:
        body = json.dumps({"topicConfigList": configs}).encode()
        assert line.call(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, body).code == 0
        for number in range(300):
            assert (
                send_message(line, "T", b"x" * 1000, f"KEYS\x01k\x02UNIQ_KEY\x01u{number}").code
                == 0
            )
        for number in range(GROUPS):
            offset = {"consumerGroup": f"g{number}", **QUEUE, "commitOffset": 1}
            assert line.call(Code.UPDATE_CONSUMER_OFFSET, offset).code == 0


def check_neighbour(line: Line, code: int, ext: Mapping[str, object]) -> None:
    """Another client is served while the flood is."""
    for _ in range(3):
        assert line.call(code, ext).code == 0


def test_no_flood_of_requests_stops_a_broker(tmp_path: Path) -> None:
    """Of each request code, one after the other."""
    with running_broker(tmp_path) as broker:
        fill_broker(broker)
        before = peak_mb(broker)
        with broker.line() as neighbour, broker.check_turns():
            for code in BROKER_CODES:
                flood = Flood(broker, code, HEADERS.get(code, {}))
                assert flood.count > 500
                check_neighbour(neighbour, Code.GET_MAX_OFFSET, QUEUE)
                flood.close()
        assert peak_mb(broker) - before < MEMORY_MB_MAX


def test_no_floods_together_stop_a_broker(tmp_path: Path) -> None:
    """Of the requests that take longest or have the largest answers, all at once."""
    worst = [
        Code.GET_BROKER_CONSUME_STATS, Code.GET_ALL_TOPIC_CONFIG, Code.GET_BROKER_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.POP_MESSAGE, Code.QUERY_CONSUME_QUEUE,
    ]  # fmt: skip
    with running_broker(tmp_path) as broker:
        fill_broker(broker)
        with broker.line() as neighbour, broker.check_turns():
            floods = [
                Flood(broker, code, HEADERS.get(code, {})) for code in worst for _ in range(5)
            ]
            for _ in range(10):
                check_neighbour(neighbour, Code.GET_MAX_OFFSET, QUEUE)
            for flood in floods:
                flood.close()


def test_no_flood_of_health_checks_stops_a_broker(tmp_path: Path) -> None:
    """HTTP allows many requests in one read, too."""
    port = free_port()
    burst = b"GET /-/master HTTP/1.1\r\nHost: b\r\n\r\n" * 7_000
    with running_broker(tmp_path, {"healthListenPort": port}) as broker:
        assert broker.send("T").code == 0
        before = peak_mb(broker)
        with broker.line() as neighbour, broker.check_turns(), ExitStack() as floods:
            for _ in range(5):
                sock = floods.enter_context(socket.create_connection(("127.0.0.1", port)))
                sock.setblocking(False)
                assert sock.send(burst) > READ_BYTES // 2
            for _ in range(20):
                check_neighbour(neighbour, Code.GET_MAX_OFFSET, QUEUE)
        assert peak_mb(broker) - before < MEMORY_MB_MAX


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "TLS"])
def test_a_client_that_reads_gets_every_answer_in_order(tmp_path: Path, is_encrypted: bool) -> None:
    """The last bytes of its requests arrive while the first ones wait."""
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": CERT,
        "tls.server.keyPath": KEY,
    }
    codes = (Code.GET_BROKER_CONFIG, Code.GET_MAX_OFFSET, Code.GET_BROKER_RUNTIME_INFO)
    frames = [frame(codes[n % 3], QUEUE, opaque=n) for n in range(3_000)]
    with running_broker(tmp_path, settings if is_encrypted else {}) as broker:
        tls = ssl._create_unverified_context() if is_encrypted else None
        with Line(broker.port, tls=tls) as line:
            sender = Thread(target=line.sock.sendall, args=(b"".join(frames),))
            sender.start()
            answers = [line.read_answer().opaque for _ in frames]
            sender.join()
    assert answers == list(range(len(frames)))


def test_no_flood_of_requests_stops_a_name_server(tmp_path: Path) -> None:
    topics = {
        name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        for name in (f"T{number}" for number in range(TOPICS))
    }
    version = {"stateVersion": 0, "timestamp": 1, "counter": 1}
    wrapper = {"dataVersion": version, "topicConfigTable": topics}
    body = json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()
    with running_name_server(tmp_path) as server, server.line() as broker:
        assert broker.call(Code.REGISTER_BROKER, names("b"), body).code == 0
        before = peak_mb(server)
        with server.line() as neighbour, server.check_turns():
            for code, ext in NAME_SERVER_CODES.items():
                flood = Flood(server, code, ext)
                check_neighbour(neighbour, Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T2"})
                flood.close()
        assert peak_mb(server) - before < MEMORY_MB_MAX
