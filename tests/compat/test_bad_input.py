"""Bad sends, pulls and offsets over the wire: code and remark are RocketMQ's.

After each case the connection serves on, the broker lives and its log has no error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from . import hostile
from .hostile import (
    QUEUES,
    TOPIC,
    V5_0,
    V5_3,
    Case,
    Line,
    batch_record,
    binary_header,
    check_case,
    each_case,
    frame,
    json_header,
    long_send_ext,
    pull_ext,
    send_ext,
)
from .peers.epochmq import EpochCluster

SEND, SEND_V2, BATCH, PULL, LITE_PULL = 10, 310, 320, 11, 361
MESSAGE_BYTES_MAX = 4 << 20
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
RECORD_HEAD_BYTES = 88
"""Of a stored record with IPv4 hosts; the body follows."""
MANY = 3_000
"""Messages of a batch whose answer has more ids than a request's header could hold."""


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    with EpochCluster(broker_config={"enablePropertyFilter": False}) as cluster:
        hostile.create_topic(cluster)
        hostile.create_topic(cluster, "WriteOnly", perm=2)
        hostile.create_topic(cluster, "ReadOnly", perm=4)
        with Line(cluster.broker_addr) as line:
            assert line.ask(200, {}, b'{"groupName":"Off","consumeEnable":false}').code == 0
            assert [line.ask(SEND_V2, send_ext(), b"x").code for _ in range(3)] == [0] * 3
        yield cluster


@pytest.fixture(autouse=True)
def _no_harm(ours: EpochCluster) -> Iterator[None]:
    yield from hostile.watched(ours)


# Sending --------------------------------------------------------------------------------------

BAD_TOPICS = {
    "out of the directory": ("../../etc/x", "forbidden character"),
    "dots": ("..", "forbidden character"),
    "slash": ("a/b", "forbidden character"),
    "blank": ("a b", "forbidden character"),
    "line end": ("a\n", "forbidden character"),
    "zero": ("a\0b", "forbidden character"),
    "other letters": ("täst", "forbidden character"),
    "empty": ("", "empty"),
    "128 characters": ("t" * 128, "127 are allowed"),
    "retry of 256": ("%RETRY%" + "g" * 249, "255 are allowed"),
}


@pytest.mark.parametrize(("version", "code"), [(V5_0, 1), (V5_3, 29)])
@pytest.mark.parametrize(("topic", "remark"), BAD_TOPICS.values(), ids=BAD_TOPICS)
def test_no_message_goes_to_a_topic_of_a_bad_name(
    ours: EpochCluster, topic: str, remark: str, version: int, code: int
) -> None:
    for request, ext in ((SEND_V2, send_ext(topic)), (SEND, long_send_ext(topic))):
        check_case(ours.broker_addr, Case("", request, ext, code, remark, b"x", version))


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "ReadOnly",
    ],
)
def test_no_message_goes_where_none_may(ours: EpochCluster, topic: str) -> None:
    check_case(ours.broker_addr, Case("", SEND_V2, send_ext(topic), 16, "forbidden", b"x"))


@each_case(
    Case("no such topic", SEND_V2, send_ext("None", c="BenchmarkTest"), 17, "not exist", b"x"),
    Case("retry of a bad group", SEND_V2, send_ext("%RETRY%" + "g" * 121), 26, "group", b"x"),
    Case("retry of nobody", SEND_V2, send_ext("%RETRY%"), 26, "group", b"x"),
    Case("queue beyond", SEND_V2, send_ext(e=QUEUES), 29, "queueId[4] is illegal", b"x"),
    Case("queue beyond, 5.0", SEND_V2, send_ext(e=QUEUES), 1, "is illegal", b"x", V5_0),
    Case("queue far beyond", SEND, long_send_ext(e=INT_MAX), 29, "is illegal", b"x"),
    Case("any queue", SEND_V2, send_ext(e=-(2**31)), 0, "", b"x"),
    Case("no body", SEND_V2, send_ext(), 13, "message is illegal"),
    Case("body too long", SEND_V2, send_ext(), 13, "illegal", bytes(MESSAGE_BYTES_MAX + 1)),
    Case("long properties", SEND_V2, send_ext(i="A\x01" + "v" * 32_766), 13, "illegal", b"x"),
    Case("zero in properties", SEND_V2, send_ext(i="A\x01v\0w"), 13, "illegal", b"x"),
    Case("number too large", SEND_V2, send_ext(e=2**31), 1, "out of range", b"x"),
    Case("no header", SEND_V2, {}, 1, "field a is missing", b"x"),
    Case("no header, long", SEND, {}, 1, "field producerGroup is missing", b"x"),
)  # fmt: skip
def test_sends(ours: EpochCluster, case: Case) -> None:
    check_case(ours.broker_addr, case)


@pytest.mark.parametrize("key", "abcdefgh")
def test_a_mandatory_field_is_missing(ours: EpochCluster, key: str) -> None:
    ext = {name: value for name, value in send_ext().items() if name != key}
    check_case(ours.broker_addr, Case("", SEND_V2, ext, 1, f"field {key} is missing", b"x"))


@pytest.mark.parametrize("value", ["", "x", "1.5", "0x10", "1_0", "١", "9" * 30, "-"])
@pytest.mark.parametrize("key", "degh")
def test_a_number_is_none(ours: EpochCluster, key: str, value: str) -> None:
    remark = f"field {key} is missing" if not value else f"field {key} is not an integer"
    check_case(ours.broker_addr, Case("", SEND_V2, send_ext(**{key: value}), 1, remark, b"x"))


def test_a_binary_header_is_refused_in_its_own_encoding(ours: EpochCluster) -> None:
    with Line(ours.broker_addr) as line:
        line.send(frame(binary_header(SEND, long_send_ext(e=QUEUES)), b"x", 1))
        answer = line.answer()
        assert (answer.code, "is illegal" in answer.remark) == (29, True)
        line.check_serves()


@pytest.mark.parametrize("escaped", [False, True])
def test_a_key_that_swells_in_the_answer(ours: EpochCluster, escaped: bool) -> None:
    """The answer repeats UNIQ_KEY; JSON needs six bytes for what a lax client sent as one."""
    key = b"\\u0003" * 10_850 if escaped else b"\x03" * 30_000
    header = json_header(SEND_V2, send_ext(i="@")).replace(b"@", b"UNIQ_KEY\\u0001" + key)
    with Line(ours.broker_addr) as other, Line(ours.broker_addr) as line:
        line.send(frame(header, b"x"))
        assert line.answer().code == 0
        other.check_serves()


GOOD_RECORD = batch_record(b"abc")
BAD_BATCHES = {
    "text": (b"garbage", 1),
    "zeros": (bytes(22), 1),
    "ones": (b"\xff" * 64, 1),
    "cut": (GOOD_RECORD + GOOD_RECORD[:-1], 1),
    "size lies": (struct.pack(">I", 10_000) + GOOD_RECORD[4:], 1),
    "body length lies": (GOOD_RECORD[:16] + struct.pack(">I", 2**32 - 1) + GOOD_RECORD[20:], 1),
    "properties length lies": (GOOD_RECORD[:-2] + b"\xff\xff", 1),
    "no message": (b"", 13),
    "a message without body": (GOOD_RECORD + batch_record(b""), 13),
}


@pytest.mark.parametrize(("body", "code"), BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_batches(ours: EpochCluster, body: bytes, code: int) -> None:
    before = queue_end(ours, 1)
    check_case(ours.broker_addr, Case("", BATCH, send_ext(e=1, m="true"), code, "", body))
    assert queue_end(ours, 1) == before, "a part of a bad batch was stored"


def test_a_batch_for_a_retry_topic_is_illegal(ours: EpochCluster) -> None:
    ext = send_ext("%RETRY%BadConsumer", m="true")
    check_case(ours.broker_addr, Case("", BATCH, ext, 13, "retry group", GOOD_RECORD))


def test_a_batch_of_thousands_is_no_bad_input(ours: EpochCluster) -> None:
    case = Case("", BATCH, send_ext(e=2, m="true"), 0, "", GOOD_RECORD * MANY)
    answer = check_case(ours.broker_addr, case)
    assert len(set(answer.ext["msgId"].split(","))) == MANY


def queue_end(ours: EpochCluster, queue_id: int) -> str:
    with Line(ours.broker_addr) as line:
        return line.ask(30, {"topic": TOPIC, "queueId": queue_id}).ext["offset"]


def test_a_record_inside_a_message_is_none(ours: EpochCluster) -> None:
    """33 and 36 take any place of the log, so what lies there must be a record indeed."""
    with Line(ours.broker_addr) as line:
        first, second = (send_at(line, bytes(300)) for _ in range(2))
        inside = second + (second - first) + RECORD_HEAD_BYTES
        # It would end within the next message.
        fake = struct.pack(">IIIiiqqi", 400, 0xDAA320A7, 0, 0, 0, 0, inside, 0)
        assert send_at(line, fake.ljust(300, b"\0")) + RECORD_HEAD_BYTES == inside
        send_at(line, bytes(300))
        assert line.ask(33, {"offset": inside}).code == 1
        back = {"offset": inside, "group": "BadConsumer", "delayLevel": 0}
        assert line.ask(36, back).code == 1
        line.check_serves()


def send_at(line: Line, body: bytes) -> int:
    """Where in the log the body's record begins."""
    return int(line.ask(SEND_V2, send_ext(), body).ext["msgId"][16:], 16)


# Pulling --------------------------------------------------------------------------------------

FOUND, NOT_FOUND, MOVED = 0, 19, 21
SQL = {"expressionType": "SQL92"}


@each_case(
    Case("no such topic", PULL, pull_ext(topic="None"), 17, "not exist"),
    Case("bad topic", PULL, pull_ext(topic="../x"), 17, "not exist"),
    Case("bad group", PULL, pull_ext(consumerGroup="../x"), 26, "does not exist"),
    Case("long group", PULL, pull_ext(consumerGroup="g" * 121), 26, "does not exist"),
    Case("no group", PULL, pull_ext(consumerGroup=""), 26, "does not exist"),
    Case("group is off", PULL, pull_ext(consumerGroup="Off"), 16, fields={"forbiddenType": "2"}),
    Case("unreadable", PULL, pull_ext(topic="WriteOnly"), 16, fields={"forbiddenType": "3"}),
    Case("queue beyond", PULL, pull_ext(queueId=QUEUES), 29, "is illegal"),
    Case("queue beyond, 5.0", PULL, pull_ext(queueId=QUEUES), 1, "is illegal", version=V5_0),
    Case("queue below", PULL, pull_ext(queueId=-1), 29, "is illegal"),
    Case("offset below", PULL, pull_ext(queueOffset=-1), MOVED, fields={"nextBeginOffset": "0"}),
    Case("offset far below", PULL, pull_ext(queueOffset=-(2**63)), MOVED, "OFFSET_TOO_SMALL"),
    Case("offset far beyond", PULL, pull_ext(queueOffset=LONG_MAX), MOVED, "OFFSET_OVERFLOW_BADLY"),
    Case("an empty queue", PULL, pull_ext(queueId=3), NOT_FOUND, "NO_"),
    Case("an empty queue, beyond", PULL, pull_ext(queueId=3, queueOffset=7), MOVED, "NO_"),
    Case("nothing registered", PULL, pull_ext(sysFlag=0), 24, "group info not exist"),
    Case("SQL92 is off", PULL, pull_ext(subscription="a > 1", **SQL), 1, "does not support"),
    Case("no topic", PULL, pull_ext(topic=None), 1, "field topic is missing"),
    Case("no header", LITE_PULL, {}, 1, "field consumerGroup is missing"),
    Case("no number", PULL, pull_ext(queueId="x"), 1, "field queueId is not an integer"),
    Case("number too large", PULL, pull_ext(queueOffset=2**63), 1, "out of range"),
)  # fmt: skip
def test_pulls(ours: EpochCluster, case: Case) -> None:
    check_case(ours.broker_addr, case)


@pytest.mark.parametrize(("asked", "most"), [(INT_MAX, 32), (0, 1), (-5, 1)])
def test_a_pull_never_brings_more_than_the_broker_allows(
    ours: EpochCluster, asked: int, most: int
) -> None:
    case = Case("", PULL, pull_ext(maxMsgNums=asked), FOUND)
    answer = check_case(ours.broker_addr, case)
    assert 1 <= int(answer.ext["nextBeginOffset"]) <= most


def test_a_pull_on_the_fast_port_is_not_supported(ours: EpochCluster) -> None:
    fast = f"127.0.0.1:{ours.broker_port - 2}"
    check_case(fast, Case("", PULL, pull_ext(), 3, f" request type {PULL} not supported"))
    check_case(fast, Case("", SEND_V2, send_ext("None", c="BenchmarkTest"), 17, "", b"x"))


# Offsets --------------------------------------------------------------------------------------

QUERY, UPDATE, SEARCH, MAX, MIN, EARLIEST = 14, 15, 29, 30, 31, 32


def place(**more: object) -> dict[str, object]:
    """A queue of the topic, a group, and what the six requests want besides."""
    ext: dict[str, object] = {
        "consumerGroup": "BadConsumer", "topic": TOPIC, "queueId": 0, "commitOffset": 1,
        "timestamp": 0,
    }  # fmt: skip
    return hostile.without_none({**ext, **more})


@each_case(
    Case("commit, no topic", UPDATE, place(topic="None"), 17, "not exist"),
    Case("commit, bad topic", UPDATE, place(topic="../x"), 17, "not exist"),
    Case("commit, bad group", UPDATE, place(consumerGroup="../x"), 26, "does not exist"),
    Case("commit, bad queue", UPDATE, place(queueId=-1), 1, "queueId -1"),
    Case("commit, far queue", UPDATE, place(queueId=INT_MAX), 1, "queueId"),
    Case("commit, negative", UPDATE, place(commitOffset=-1), 1, "negative"),
    Case("commit, nothing", UPDATE, place(commitOffset=None), 1, "commitOffset is missing"),
    Case("query, told", QUERY, place(topic="None", setZeroIfNotFound="false"), 22, "ot found"),
    Case("query, no number", QUERY, place(queueId="x"), 1, "queueId is not an integer"),
    Case("search, no topic", SEARCH, place(topic="None"), 0, fields={"offset": "0"}),
    Case("search, long ago", SEARCH, place(timestamp=-(2**63)), 0, fields={"offset": "0"}),
    Case("search, no side", SEARCH, place(boundaryType="SIDE"), 1, "boundaryType"),
    Case("max, no topic", MAX, place(topic="None"), 0, fields={"offset": "0"}),
    Case("max, no queue", MAX, place(queueId=INT_MAX), 0, fields={"offset": "0"}),
    Case("min, no topic", MIN, place(topic="../x"), 0, fields={"offset": "-1"}),
    Case("earliest, no topic", EARLIEST, place(topic="None"), 0, fields={"timestamp": "-1"}),
)  # fmt: skip
def test_offsets(ours: EpochCluster, case: Case) -> None:
    check_case(ours.broker_addr, case)


@pytest.mark.parametrize("code", [QUERY, UPDATE, SEARCH, MAX, MIN, EARLIEST])
def test_a_queue_must_be_named(ours: EpochCluster, code: int) -> None:
    for name in ("topic", "queueId"):
        ext = place(**{name: None})
        check_case(ours.broker_addr, Case("", code, ext, 1, f"field {name} is missing"))


def test_a_pull_commits_no_negative_offset(ours: EpochCluster) -> None:
    with Line(ours.broker_addr) as line:
        pulled = line.ask(PULL, pull_ext(consumerGroup="Negative", sysFlag=5, commitOffset=-7))
        assert pulled.code == FOUND
        assert line.ask(QUERY, place(consumerGroup="Negative")).ext["offset"] == "0"
