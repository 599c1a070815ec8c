"""Bodies that are cheap to send and were expensive to read: no turn of the loop is slow."""

import base64
from pathlib import Path

import pytest
from tests.attack.server import running_broker

from epochmq.broker.requests.request_routing import ROWS
from epochmq.wire.codes import RequestCode

pytestmark = pytest.mark.process

MIB = 1024 * 1024
HEARTBEATS = {
    "an integer key makes all of it non-standard": b'{"clientID":"a","z":['
    + b"0," * (2 * MIB - 20)
    + b"0],1:2}",
    "not over the bound for lenient reading": b'{"clientID":"a","z":['
    + b"0," * 32_000
    + b"0],1:2}",
    "an object as a key": b'{"clientID":"a","z":[' + b"0," * 32_000 + b"0],{}:2}",
    "texts": b'{"clientID":"a","z":[' + b'"",' * 20_000 + b'0],1:"\x01"}',
    "many groups": b'{"clientID":"a","consumerDataSet":['
    + b",".join([b'{"groupName":"g"}'] * 50_000)
    + b"]}",
    "many subscriptions": b'{"clientID":"a","consumerDataSet":[{"groupName":"g",'
    b'"subscriptionDataSet":['
    + b",".join(b'{"topic":"T%d","subString":"*"}' % n for n in range(30_000))
    + b"]}]}",
}


def test_heartbeats(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.line() as line, broker.check_turns():
        for name, body in HEARTBEATS.items():
            answer = line.call(int(RequestCode.HEART_BEAT), {}, body)
            assert (answer.code == 0) == (name in SERVED), (name, answer)


def rows(start: bytes, row: bytes, end: bytes, size: int, step: int = 1) -> bytes:
    """A body of about `size` bytes with numbered rows."""
    count = (size - len(start) - len(end)) // (len(row) + 7)
    return start + b",".join(row % (step * number) for number in range(count)) + end


ALL_BITS = base64.b64encode(b"\xff" * 700_000)
LAST_BIT = base64.b64encode(bytes(700_000) + b"\x80")
ACK = b'{"c":"g","t":"Attacked","r":"0","so":%d,"po":1,"it":60000,"q":0,"rq":0,"pt":1,"b":"AQ=="}'
LISTS = {
    "topics": (
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        rows(b'{"topicConfigList":[', b'{"topicName":"T%d"}', b"]}", 4 * MIB),
    ),
    "groups": (
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        rows(b'{"groupConfigList":[', b'{"groupName":"g%d"}', b"]}", 4 * MIB),
    ),
    "locks": (
        RequestCode.LOCK_BATCH_MQ,
        rows(
            b'{"consumerGroup":"g","clientId":"c","mqSet":[',
            b'{"topic":"Attacked","brokerName":"b","queueId":%d}',
            b"]}",
            4 * MIB,
        ),
    ),
    "unlocks": (
        RequestCode.UNLOCK_BATCH_MQ,
        rows(
            b'{"consumerGroup":"g","clientId":"c","mqSet":[',
            b'{"topic":"Attacked","brokerName":"b","queueId":%d}',
            b"]}",
            4 * MIB,
        ),
    ),
    "acknowledgements": (
        RequestCode.BATCH_ACK_MESSAGE,
        rows(b'{"brokerName":"b","acks":[', ACK, b"]}", MIB, 40),
    ),
    "all bits": (
        RequestCode.BATCH_ACK_MESSAGE,
        b'{"brokerName":"b","acks":[' + (ACK % 0).replace(b"AQ==", ALL_BITS) + b"]}",
    ),
    "the last bit": (
        RequestCode.BATCH_ACK_MESSAGE,
        b'{"brokerName":"b","acks":[' + (ACK % 0).replace(b"AQ==", LAST_BIT) + b"]}",
    ),
}


def test_lists(tmp_path: Path) -> None:
    """A list that would take long is refused before it is decoded."""
    with running_broker(tmp_path) as broker, broker.line() as line:
        broker.send()
        with broker.check_turns(50):
            for name, (code, body) in LISTS.items():
                answer = line.call(int(code), {}, body)
                assert answer.code != 0, name
                assert "unexpected" not in answer.remark, (name, answer)
        assert line.call(int(RequestCode.GET_TOPIC_CONFIG), {"topic": "T1"}).code != 0


@pytest.mark.parametrize("name", ["topics", "groups", "locks"])
def test_lists_of_the_allowed_length(tmp_path: Path, name: str) -> None:
    code, body = LISTS[name]
    most = ROWS[code].objects_max
    assert most is not None
    allowed = b"{".join(body.split(b"{")[: most + 1]).rstrip(b",{") + b"]}"
    with running_broker(tmp_path) as broker, broker.line() as line:
        broker.send()
        with broker.check_turns(100):
            assert line.call(int(code), {}, allowed).code == 0


SERVED = {"not over the bound for lenient reading", "texts"}
