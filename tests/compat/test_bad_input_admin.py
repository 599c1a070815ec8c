"""Bad administration and bad clients: topics, groups, configuration, locks, heartbeats, all codes.

Requests shaped like RocketMQ's CVEs are refused and change nothing (facts: docs/SECURITY.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.wire.codes import RequestCode

from . import hostile
from .hostile import ONEWAY, TOPIC, Case, Line, check_case, each_case, frame, json_header, topic_ext
from .peers.epochmq import EpochCluster

CREATE, CREATE_LIST, DELETE, GET_TOPIC = 17, 18, 215, 351
GROUP, DELETE_GROUP, GET_GROUP, FORBID = 200, 207, 352, 353
UPDATE_CONFIG, GET_CONFIG = 25, 26
LOCK, UNLOCK, HEARTBEAT, CHECK_CLIENT = 41, 42, 34, 46
DEEP = b'{"a":' * 20_000
LIST_OF_ONE_BAD = b'{"topicConfigList":[{"topicName":"Good"},{"topicName":"../x"}]}'
GROUP_OF_QUEUES = b'{"groupName":"g","retryQueueNums":%b}'


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    with EpochCluster() as cluster:
        hostile.create_topic(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def _no_harm(ours: EpochCluster) -> Iterator[None]:
    yield from hostile.watched(ours)


# Topics and groups ----------------------------------------------------------------------------


@each_case(
    Case("outside", CREATE, topic_ext("../../x"), 1, "forbidden character"),
    Case("absolute", CREATE, topic_ext("/etc/passwd"), 1, "forbidden character"),
    Case("empty", CREATE, topic_ext(""), 1, "empty"),
    Case("too long", CREATE, topic_ext("t" * 128), 1, "127 are allowed"),
    Case("system", CREATE, topic_ext("TBW102"), 1, "system topic"),
    Case("system by prefix", CREATE, topic_ext("rmq_sys_x"), 1, "system topic"),
    Case("named like the broker", CREATE, topic_ext("broker-a"), 1, "system topic"),
    Case("no queue", CREATE, topic_ext(readQueueNums=0), 1, "readQueueNums 0"),
    Case("negative queues", CREATE, topic_ext(writeQueueNums=-1), 1, "writeQueueNums -1"),
    Case("many queues", CREATE, topic_ext(writeQueueNums=2**31 - 1), 1, "writeQueueNums"),
    Case("queues are no number", CREATE, topic_ext(readQueueNums="x"), 1, "not an integer"),
    Case("permission", CREATE, topic_ext(perm=99), 1, "perm 99"),
    Case("filter type", CREATE, topic_ext(topicFilterType="ALL"), 1, "topicFilterType ALL"),
    Case("attributes", CREATE, topic_ext(attributes="+a"), 1, "format is wrong"),
    Case("unknown attribute", CREATE, topic_ext(attributes="+a=b"), 1, "unsupported key"),
    Case("attribute's value", CREATE, topic_ext(attributes="+queue.type=X"), 1, "not in the set"),
    Case("no name", CREATE, topic_ext(None), 1, "topic is missing"),
    Case("list of one bad", CREATE_LIST, {}, 1, "forbidden", LIST_OF_ONE_BAD),
    Case("list is none", CREATE_LIST, {}, 1, "TopicConfigList", b"[]"),
    Case("delete outside", DELETE, {"topic": "../../x"}, 1, "forbidden character"),
    Case("delete a system topic", DELETE, {"topic": "TBW102"}, 1, "system topic"),
    Case("delete nothing", DELETE, {}, 1, "topic is missing"),
    Case("get none", GET_TOPIC, {"topic": "None"}, 17, "not exist"),
    Case("group outside", GROUP, {}, 1, "forbidden character", b'{"groupName":"../x"}'),
    Case("group without a name", GROUP, {}, 1, "empty", b"{}"),
    Case("group too long", GROUP, {}, 1, "120 are allowed", b'{"groupName":"%s"}' % (b"g" * 121)),
    Case("group, negative", GROUP, {}, 1, "retryQueueNums -1", GROUP_OF_QUEUES % b"-1"),
    Case("group, no number", GROUP, {}, 1, "retryQueueNums", GROUP_OF_QUEUES % b'"x"'),
    Case("group, deep", GROUP, {}, 1, "recursion depth", DEEP),
    Case("delete no group", DELETE_GROUP, {}, 1, "groupName is missing"),
    Case("get no group", GET_GROUP, {"group": "../x"}, 26, "does not exist"),
    Case("forbid a bad group", FORBID, {"group": "g g", "topic": TOPIC}, 1, "forbidden character"),
)  # fmt: skip
def test_topics_and_groups(ours: EpochCluster, case: Case) -> None:
    before = tables(ours)
    check_case(ours.broker_addr, case)
    assert tables(ours) == before


def tables(ours: EpochCluster) -> list[bytes]:
    """All topics and groups of the broker, with their versions."""
    with Line(ours.broker_addr) as line:
        return [line.ask(code, {}).body for code in (21, 201)]


# Configuration --------------------------------------------------------------------------------

EXPLOITS = [
    "filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch /tmp/owned;",  # CVE-2023-33246
    "configStorePath=/tmp/owned\nproductEnvName=ssh-rsa",  # CVE-2023-37582
    "rocketmqHome=/tmp/owned",
    "brokerConfigPath=/tmp/owned",
    "storePathRootDir=/tmp/owned",
    "storePathCommitLog=/tmp/owned",
    "storePathConsumeQueue=/tmp/owned",
    "storePathEpochFile=/tmp/owned",
    "namesrvAddr=192.0.2.1:9876",
    "brokerName=other",
    "brokerIP1=192.0.2.1",
    "listenPort=1",
    "bindAddress=0.0.0.0",
    "flushDiskType=SYNC_FLUSH",
    "aclEnable=false",
    "authenticationEnabled=false",
    "configBlackList=",
    "logFile=/tmp/owned",
    "traceOn=false\nlistenPort=1",  # what may change goes with what may not
    "traceOn=perhaps",
    "brokerPermission=99",
    "nosuch=1",
    "=1",
]


@pytest.mark.parametrize("text", EXPLOITS)
def test_what_may_not_change_is_refused_and_changes_nothing(ours: EpochCluster, text: str) -> None:
    before = (options(ours), digests(ours.root))
    check_case(ours.broker_addr, Case("", UPDATE_CONFIG, {}, 16, body=text.encode()))
    assert (options(ours), digests(ours.root)) == before


@each_case(
    Case("no text", UPDATE_CONFIG, {}, 1, "not a properties text", b"\xff\xfe=1"),
    Case("bad escape", UPDATE_CONFIG, {}, 1, "hexadecimal", b"traceOn=\\u12"),
    Case("too long", UPDATE_CONFIG, {}, 1, "at most 65536 bytes", b"#" * 65_537),
)
def test_texts_that_are_no_properties(ours: EpochCluster, case: Case) -> None:
    before = options(ours)
    check_case(ours.broker_addr, case)
    assert options(ours) == before


def test_thousands_of_wrong_options_do_not_hold_up_others(ours: EpochCluster) -> None:
    """Each is close to a known one, which is what makes finding that one slow."""
    text = "\n".join(f"enableMxiedMsseageType{number}=1" for number in range(2_000))
    with Line(ours.broker_addr) as line, Line(ours.broker_addr) as other:
        line.send(frame(json_header(UPDATE_CONFIG), text.encode()))
        other.socket.settimeout(5)
        other.check_serves()
        assert line.answer().code == 16


def options(ours: EpochCluster) -> bytes:
    with Line(ours.broker_addr) as line:
        return line.ask(GET_CONFIG, {}).body


def digests(root: Path) -> dict[Path, str]:
    """What every configuration file holds, the broker's own and its operator's."""
    files = [*root.glob("*.conf"), *root.glob("store/config/broker.properties*")]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# Clients --------------------------------------------------------------------------------------

GARBAGE = {
    "nothing": b"",
    "half an object": b"{",
    "an array": b"[]",
    "null": b"null",
    "no fields": b"{}",
    "no text": b"\xff\xfe\0",
    "zeros": bytes(100),
    "wrong types": b'{"consumerGroup":[],"mqSet":7,"clientID":"c","consumerDataSet":7}',
    "deep": DEEP,
    "a number too large": b'{"clientID":"c","heartbeatFingerprint":1e400}',
}  # fmt: skip


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("code", [LOCK, UNLOCK, HEARTBEAT])
def test_bodies_that_are_none(ours: EpochCluster, code: int, body: bytes) -> None:
    remark = "the body is not a" if body else "the request has no body"
    if body is DEEP and code != HEARTBEAT:
        remark = "20000 JSON objects"  # counted before the body is decoded
    check_case(ours.broker_addr, Case("", code, {}, 1, remark, body))


def test_locks(ours: EpochCluster) -> None:
    bad = b'{"consumerGroup":"../g","clientId":"c","mqSet":[]}'
    check_case(ours.broker_addr, Case("", LOCK, {}, 1, "forbidden character", bad))
    nobody = b'{"consumerGroup":"g","clientId":"","mqSet":[]}'
    check_case(ours.broker_addr, Case("", LOCK, {}, 1, "client id", nobody))
    queue = b'{"topic":"None","brokerName":"broker-a","queueId":0}'
    body = b'{"consumerGroup":"g","clientId":"c","mqSet":[%s]}' % queue
    answer = check_case(ours.broker_addr, Case("", LOCK, {}, 0, body=body))
    assert answer.json() == {"lockOKMQSet": []}


def test_a_heartbeat_of_a_bad_group_makes_no_group(ours: EpochCluster) -> None:
    before = tables(ours)
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"../../g"},{"groupName":""}]}'
    check_case(ours.broker_addr, Case("", HEARTBEAT, {}, 0, body=body))
    assert tables(ours) == before
    long_id = b'{"clientID":"%s"}' % (b"c" * 2_000)
    check_case(ours.broker_addr, Case("", HEARTBEAT, {}, 1, "too long", long_id))


def test_filters_that_are_none(ours: EpochCluster) -> None:
    """The heartbeat is taken and the pull refused, as upstream does."""
    sub = b'{"topic":"BadInput","subString":"a >","expressionType":"SQL92","subVersion":1}'
    check = b'{"clientId":"c","group":"Sql","subscriptionData":%s}' % sub
    check_case(ours.broker_addr, Case("", CHECK_CLIENT, {}, 23, "SQL92 filter", check))
    beat = b'{"clientID":"c","consumerDataSet":[{"groupName":"Sql","subscriptionDataSet":[%s]}]}'
    with Line(ours.broker_addr) as line:
        assert line.ask(HEARTBEAT, {}, beat % sub).code == 0
        registered = hostile.pull_ext(consumerGroup="Sql", sysFlag=0, subVersion=1)
        assert line.ask(11, registered).code == 27
        newer = hostile.pull_ext(consumerGroup="Sql", sysFlag=0, subVersion=2)
        assert line.ask(11, newer).code == 25
        line.check_serves()


@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [
        ("a >", "SQL92", 23),
        ("", "SQL92", 23),
        ("(" * 5_000, "SQL92", 23),
        ("a" * 20_000, "SQL92", 23),
        ("a = 1; drop table b", "SQL92", 23),
        ("__import__('os').system('id')", "SQL92", 23),
        ("a > 1", "GROOVY", 23),
    ],
)
def test_expressions(ours: EpochCluster, expression: str, kind: str, code: int) -> None:
    ext = hostile.pull_ext(subscription=expression, expressionType=kind)
    check_case(ours.broker_addr, Case("", 11, ext, code))


def test_a_client_whose_answer_swells(ours: EpochCluster) -> None:
    """What a consumer answers goes on to who asked, in another encoding."""
    beat = b'{"clientID":"c","consumerDataSet":[{"groupName":"Swell"}]}'
    with Line(ours.broker_addr) as consumer, Line(ours.broker_addr) as asker:
        assert consumer.ask(HEARTBEAT, {}, beat).code == 0
        asker.send(frame(json_header(307, {"consumerGroup": "Swell", "clientId": "c"})))
        asked = consumer.read()[0]
        while asked["code"] != 307:
            asked = consumer.read()[0]
        header = hostile.binary_header(0, {"a": "\x03" * 60_000}, flag=hostile.RESPONSE)
        consumer.send(frame(header[:5] + asked["opaque"].to_bytes(4, "big") + header[9:], b"", 1))
        assert asker.answer().ext == {"a": "\x03" * 60_000}
        consumer.check_serves()
        asker.check_serves()


def test_a_reply_that_swells(ours: EpochCluster) -> None:
    """What is replied goes on to who asked; a properties text may need six times its bytes."""
    beat = b'{"clientID":"asker","producerDataSet":[{"groupName":"Asking"}]}'
    ext = hostile.long_send_ext(i="REPLY_TO_CLIENT\x01asker\x02A\x01" + "\x03" * 30_000)
    with Line(ours.broker_addr) as asker, Line(ours.broker_addr) as replier:
        assert asker.ask(HEARTBEAT, {}, beat).code == 0
        replier.send(frame(hostile.binary_header(324, ext), b"x", 1))
        assert replier.answer().code == 1
        asker.check_serves()
        replier.check_serves()


# All requests ---------------------------------------------------------------------------------

_NAMES = (
    "topic",
    "group",
    "consumerGroup",
    "producerGroup",
    "groupName",
    "srcGroup",
    "destGroup",
    "queueId",
    "offset",
    "commitOffset",
    "timestamp",
    "maxNum",
    "key",
    "msgId",
    "clientId",
    "beginTimestamp",
    "endTimestamp",
    "statsName",
    "statsKey",
    "delayLevel",
    "isForce",
    "index",
    "count",
    "isOrder",
    "brokerName",
    "compareGroup",
    "clientID",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "j",
    "k",
    "l",
    "m",
    "n",
    "consumerId",
    "cleanOffset",
    "readable",
)
NONSENSE = {
    "no header": {},
    "control characters": dict.fromkeys(_NAMES, "\x01\x02\x00zz"),
    "paths": dict.fromkeys(_NAMES, "../../../../etc/passwd"),
    "negative": dict.fromkeys(_NAMES, "-1"),
    "smallest": dict.fromkeys(_NAMES, str(-(2**63))),
    "largest": dict.fromkeys(_NAMES, str(2**63 - 1)),
    "largest int": dict.fromkeys(_NAMES, str(2**31 - 1)),
    "long": dict.fromkeys(_NAMES, "9" * 1_000),
}
DESTRUCTIVE = {316}
"""CLEAN_UNUSED_TOPIC has no fields: it is always right."""


@pytest.mark.parametrize("ext", NONSENSE.values(), ids=NONSENSE)
def test_every_code_answers_nonsense(ours: EpochCluster, ext: dict[str, object]) -> None:
    known = {int(code) for code in RequestCode} - DESTRUCTIVE
    with Line(ours.broker_addr) as line:
        for code in sorted(known | {-(2**31), -1, 0, 12_345, 2**31 - 1}):
            for body in (b"", b"\0garbage"):
                line.ask(code, ext, body)
                line.check_serves()


@pytest.mark.parametrize("ext", NONSENSE.values(), ids=NONSENSE)
def test_no_oneway_nonsense_is_answered(ours: EpochCluster, ext: dict[str, object]) -> None:
    known = sorted({int(code) for code in RequestCode} - DESTRUCTIVE)
    with Line(ours.broker_addr) as line:
        for code in [*known, hostile.UNKNOWN_CODE]:
            line.send(frame(json_header(code, ext, ONEWAY), b"\0garbage"))
        line.check_serves()


@pytest.mark.parametrize("code", [13, 16, 39, 103, 105, 1003, 200056, hostile.UNKNOWN_CODE, -1, 0])
def test_a_code_that_is_not_served(ours: EpochCluster, code: int) -> None:
    case = Case("", code, {}, 3, f" request type {code} not supported")
    check_case(ours.broker_addr, case)


def test_messages_and_offsets_of_others_are_left_alone(ours: EpochCluster) -> None:
    """After all of the above the topic still takes and gives."""
    with Line(ours.broker_addr) as line:
        assert line.ask(310, hostile.send_ext(), b"still here").code == 0
        assert b"still here" in line.ask(11, hostile.pull_ext(consumerGroup="Last")).body
