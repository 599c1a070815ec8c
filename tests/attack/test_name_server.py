"""What strangers say to a name server: no slow turns, and nothing that outlives the connection."""

import json
import struct
import zlib
from pathlib import Path

import pytest
from tests.attack.server import Line, Server, frame, running_name_server

pytestmark = pytest.mark.process

REGISTER, ROUTE, PUT_KV, GET_KV = 103, 105, 100, 101
VERSION = {"stateVersion": 0, "timestamp": 1, "counter": 1}


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def compressed(topics: list[bytes], count: int | None = None) -> bytes:
    lines = b"".join(block(topic + b" 8 8 6 SINGLE_TAG {}") for topic in topics)
    head = block(json.dumps(VERSION).encode())
    number = struct.pack(">i", len(topics) if count is None else count)
    return zlib.compress(head + number + lines + block(b"[]") + struct.pack(">i", 0), 9)


def names(broker: str, number: int = 0, **ext: object) -> dict[str, object]:
    return {
        "brokerName": broker, "brokerAddr": f"127.0.0.1:{20_000 + number}", "clusterName": "c",
        "brokerId": number, "haServerAddr": "127.0.0.1:1", **ext,
    }  # fmt: skip


def register(line: Line, broker: str, number: int = 0, version: int = 0) -> int:
    """With two topics, as the JSON that brokers of RocketMQ 4 send."""
    topics = {
        name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        for name in ("A", "B")
    }
    wrapper = {"dataVersion": {**VERSION, "stateVersion": version}, "topicConfigTable": topics}
    body = {"topicConfigSerializeWrapper": wrapper, "filterServerList": []}
    return line.call(REGISTER, names(broker, number), json.dumps(body).encode()).code


def masters(server: Server) -> dict[str, str]:
    """Ids and addresses that clients are shown of topic A."""
    with server.line() as line:
        answer = line.call(ROUTE, {"topic": "A"})
    if answer.code != 0:
        return {}
    addrs: dict[str, str] = json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"]
    return addrs


def test_registrations_that_are_cheap_to_send(tmp_path: Path) -> None:
    bombs = {
        "more topics than there may be": compressed([b"T"] * 1_000_000),
        "larger than a first one may be": compressed([b"T" * 200] * 40_000),
        "one topic many times": compressed([b"T", b"U"] * 125_000),
        "many topics": compressed([b"Topic%d" % number for number in range(40_000)]),
        "small objects in JSON": json.dumps(
            {"topicConfigSerializeWrapper": {"topicConfigTable": {}}}
        ).encode().replace(b'Table": {}', b'Table": {' + b'"a":{},' * 500_000 + b'"b":{}}'),
    }  # fmt: skip
    with running_name_server(tmp_path) as server, server.line() as broker:
        assert register(broker, "honest") == 0
        with server.check_turns(), server.line() as stranger:
            for number, (name, body) in enumerate(bombs.items()):
                answer = stranger.call(REGISTER, names(f"b{number}", compressed="true"), body)
                served = name in ("one topic many times", "many topics")
                assert (answer.code == 0) == served, (name, answer.remark)
            assert masters(server) == {"0": "127.0.0.1:20000"}


def test_requests_behind_a_large_registration_keep_their_order(tmp_path: Path) -> None:
    topics = [b"Topic%d" % number for number in range(30_000)]
    with running_name_server(tmp_path) as server, server.line() as line:
        first = frame(REGISTER, names("b"), compressed(topics), opaque=1)
        leave = frame(104, names("b"), opaque=2)
        line.sock.sendall(first + leave)
        assert [line.read_answer().code for _ in range(2)] == [0, 0]
        assert line.call(ROUTE, {"topic": "Topic7"}).code == 17


def test_a_claimed_epoch_ends_with_the_connection_that_brought_it(tmp_path: Path) -> None:
    with running_name_server(tmp_path) as server, server.line() as master, server.line() as slave:
        assert register(master, "group", version=3) == 0
        assert register(slave, "group", number=2, version=3) == 0
        with server.line() as stranger:
            absurd = stranger.call(
                REGISTER,
                names("group", brokerAddr="127.0.0.1:666"),
                json.dumps(
                    {"topicConfigSerializeWrapper": {"dataVersion": {"stateVersion": 2**62}}}
                ).encode(),
            )
            assert (absurd.code, "not believed" in absurd.remark) == (1, True)
            assert masters(server)["0"] == "127.0.0.1:20000"
            body = json.dumps(
                {"topicConfigSerializeWrapper": {"dataVersion": {"stateVersion": 2**29}}}
            ).encode()
            spoofed = names("group", brokerAddr="127.0.0.1:666")
            assert stranger.call(REGISTER, spoofed, body).code == 0
        # He is gone; the master registers again, as it does every 30 s.
        assert register(master, "group", version=3) == 0
        wait_for_master(server, master)


def wait_for_master(server: Server, master: Line) -> None:
    """The stranger's connection is seen closed before long."""
    for _ in range(500):
        if masters(server).get("0") == "127.0.0.1:20000":
            return
        assert register(master, "group", version=3) == 0
    pytest.fail("the master stays hidden")


def test_many_puts_are_few_writes_and_bounded(tmp_path: Path) -> None:
    with running_name_server(tmp_path) as server, server.line() as line, server.check_turns():
        puts = [
            frame(PUT_KV, {"namespace": "n", "key": f"k{number}", "value": "v" * 30_000})
            for number in range(250)
        ]
        line.sock.sendall(b"".join(puts))
        codes = [line.read_answer().code for _ in puts]
        taken = codes.count(0)
        assert 30 <= taken <= 35  # 1 MiB
        assert set(codes) == {0, 1}
        assert line.call(GET_KV, {"namespace": "n", "key": "k0"}).code == 0
        saved = json.loads((tmp_path / "kvConfig.json").read_bytes())["configTable"]["n"]
        assert len(saved) == taken
