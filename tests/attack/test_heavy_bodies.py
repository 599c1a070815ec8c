"""Bodies that are cheap to send and were expensive to read: no turn of the loop is slow."""

from pathlib import Path

import pytest
from tests.attack.server import running_broker

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


SERVED = {"not over the bound for lenient reading", "texts"}
