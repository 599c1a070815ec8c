"""Bad registrations, routes, key-value entries and configuration at a real name server."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest

from epochmq.wire.codes import RequestCode

from . import hostile
from .hostile import Case, Line, check_case, each_case
from .peers.epochmq import EpochCluster

REGISTER, UNREGISTER, ROUTE, CLUSTER = 103, 104, 105, 106
PUT_KV, GET_KV, LIST_KV = 100, 101, 219
UPDATE_CONFIG, GET_CONFIG = 318, 319


def register_ext(**more: object) -> dict[str, object]:
    """REGISTER_BROKER's fields."""
    ext: dict[str, object] = {
        "brokerName": "evil", "brokerAddr": "192.0.2.1:1", "clusterName": "Evil",
        "haServerAddr": "192.0.2.1:2", "brokerId": 0, "compressed": "false", "bodyCrc32": 0,
    }  # fmt: skip
    return hostile.without_none({**ext, **more})


def topics(*names: str) -> bytes:
    """A registration's body."""
    table = {
        name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        for name in names
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1}
    wrapper = {"topicConfigTable": table, "dataVersion": version}
    return json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    with EpochCluster() as cluster:
        hostile.create_topic(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def _no_harm(ours: EpochCluster) -> Iterator[None]:
    yield from hostile.watched(ours)


def view(ours: EpochCluster) -> list[bytes]:
    """What clients are told: the cluster, a route, the options."""
    with Line(ours.namesrv_addr) as line:
        return [
            line.ask(CLUSTER, {}).body,
            line.ask(ROUTE, {"topic": hostile.TOPIC}).body,
            line.ask(GET_CONFIG, {}).body,
        ]


BOMB = zlib.compress(bytes(80 << 20), 9)
"""It would inflate to 80 MiB; 64 are allowed."""


@each_case(
    Case("one topic first", REGISTER, register_ext(), 1, "register broker failed", topics("A")),
    Case("wrong crc", REGISTER, register_ext(bodyCrc32=1), 1, "crc32 not match", topics("A", "B")),
    Case("no name", REGISTER, register_ext(brokerName=None), 1, "brokerName is missing"),
    Case("empty name", REGISTER, register_ext(brokerName=""), 1, "1 to 255 characters"),
    Case("long name", REGISTER, register_ext(brokerName="b" * 256), 1, "1 to 255 characters"),
    Case("id is not a number", REGISTER, register_ext(brokerId="x"), 1, "not an integer"),
    Case("id too large", REGISTER, register_ext(brokerId=2**63), 1, "out of range"),
    Case("body is none", REGISTER, register_ext(), 1, "the body is not a", b"garbage"),
    Case("body is deep", REGISTER, register_ext(), 1, "are too many", b'{"a":' * 20_000),
    Case("old body is none", REGISTER, register_ext(), 1, "the body is not a", b"[1]", version=1),
    Case("not compressed", REGISTER, register_ext(compressed="true"), 1, "", topics("A", "B")),
    Case("cut", REGISTER, register_ext(), 1, "", zlib.compress(topics("A", "B"), 9)[:-8]),
    Case("a bomb", REGISTER, register_ext(compressed="true"), 1, "", BOMB),
    Case("unregister nothing", UNREGISTER, {}, 1, "is missing"),
    Case("route of none", ROUTE, {"topic": "None"}, 17, "No topic route info"),
    Case("route of a path", ROUTE, {"topic": "../../x"}, 17, "No topic route info"),
    Case("route of nothing", ROUTE, {}, 1, "topic is missing"),
    Case("key without a namespace", PUT_KV, {"key": "k", "value": "v"}, 1, "namespace is missing"),
    Case("no such key", GET_KV, {"namespace": "n", "key": "k"}, 22, "No config item"),
    Case("no such namespace", LIST_KV, {"namespace": "../n"}, 22, "No config item"),
)  # fmt: skip
def test_requests(ours: EpochCluster, case: Case) -> None:
    before = view(ours)
    check_case(ours.namesrv_addr, case)
    assert view(ours) == before


def test_a_long_entry_is_not_kept(ours: EpochCluster) -> None:
    """A binary header holds more than it may; it never comes to the entry's own bound."""
    ext = {"namespace": "n", "key": "k", "value": "v" * 65_000}
    with Line(ours.namesrv_addr) as line:
        line.send(hostile.frame(hostile.binary_header(PUT_KV, ext), b"", 1))
        assert line.answer().code in (0, 1)
        line.check_serves()
        assert line.ask(102, {"namespace": "n", "key": "k"}).code == 0


@pytest.mark.parametrize(
    "text",
    [
        "kvConfigPath=/tmp/owned",  # CVE-2023-37582
        "configStorePath=/tmp/owned\nproductEnvName=ssh-rsa",
        "configStorePathName=configStorePath",
        "rocketmqHome=/tmp/owned",
        "configBlackList=",
        "listenPort=1",
        "bindAddress=0.0.0.0",
        "logFile=/tmp/owned",
        "enableTopicList=false\nkvConfigPath=/tmp/owned",
        "nosuch=1",
    ],
)
def test_what_may_not_change_is_refused_and_changes_nothing(ours: EpochCluster, text: str) -> None:
    before = (view(ours), sorted(ours.root.rglob("*")))
    check_case(ours.namesrv_addr, Case("", UPDATE_CONFIG, {}, 16, body=text.encode()))
    assert (view(ours), sorted(ours.root.rglob("*"))) == before


@pytest.mark.parametrize(
    "body", [b"enableTopicList=perhaps", b"\xff\xfe=1", b"a=\\u12", b"#" * (256 * 1024 + 1)]
)
def test_texts_that_are_no_change(ours: EpochCluster, body: bytes) -> None:
    before = view(ours)
    check_case(ours.namesrv_addr, Case("", UPDATE_CONFIG, {}, 1, body=body))
    assert view(ours) == before


_NAMES = (
    "topic",
    "brokerName",
    "brokerAddr",
    "clusterName",
    "cluster",
    "haServerAddr",
    "brokerId",
    "namespace",
    "bodyCrc32",
    "compressed",
    "heartbeatTimeoutMillis",
    "acceptStandardJsonOnly",
)
NONSENSE = {
    "no header": {},
    "control characters": dict.fromkeys(_NAMES, "\x01\x02\x00zz"),
    "negative": dict.fromkeys(_NAMES, "-1"),
    "largest": dict.fromkeys(_NAMES, str(2**63 - 1)),
}


@pytest.mark.parametrize("ext", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("flag", [0, hostile.ONEWAY])
def test_every_code_takes_nonsense(ours: EpochCluster, ext: dict[str, object], flag: int) -> None:
    with Line(ours.namesrv_addr) as line:
        for code in sorted(int(code) for code in RequestCode):
            for body in (b"", b"\0garbage"):
                line.send(hostile.frame(hostile.json_header(code, ext, flag), body))
                if not flag:
                    line.answer()
        line.check_serves()


@pytest.mark.parametrize("code", [10, 11, 34, 310, 1003, 200050, hostile.UNKNOWN_CODE])
def test_a_code_that_is_not_served(ours: EpochCluster, code: int) -> None:
    case = Case("", code, {}, 3, f" request type {code} not supported")
    check_case(ours.namesrv_addr, case)
