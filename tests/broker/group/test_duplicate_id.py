"""Whose id it is, by what name servers and brokers answer (H20)."""

from epochmq.broker.group.duplicate_id import (
    is_duplicate_id,
    problem,
    registered,
    who_are_you,
    who_is_registered,
)
from epochmq.model.topic import BrokerData
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import ClusterInfo
from epochmq.wire.command import Command
from epochmq.wire.json_tolerant import dumps_bare

OWN = ("c", "b", 0)
THERE = "10.0.0.1:10911"
CONFIG = b"brokerClusterName=c\nbrokerName=b\nbrokerId=0\nlistenPort=10911\n"


def table(cluster: str = "c", name: str = "b", number: int = 0) -> ClusterInfo:
    return ClusterInfo({name: BrokerData(cluster, name, {number: THERE})}, {cluster: [name]})


def answered(body: bytes, code: int = 0) -> Command:
    return Command(code, body=body)


def test_the_registered_broker_of_an_id_is_found() -> None:
    assert who_is_registered().code == 106
    assert registered(answered(encode_body(table())), OWN) == THERE
    assert registered(answered(dumps_bare(table())), OWN) == THERE  # as RocketMQ writes it
    for other in (table(cluster="d"), table(name="z"), table(number=1)):
        assert registered(answered(encode_body(other)), OWN) is None
    assert registered(answered(b"", 1), OWN) is None
    assert registered(answered(b"{broken"), OWN) is None


def test_a_broker_with_the_same_id_is_recognised() -> None:
    assert who_are_you().code == 26
    assert is_duplicate_id(answered(CONFIG), OWN)
    assert not is_duplicate_id(answered(CONFIG), ("c", "b", 1))
    assert not is_duplicate_id(answered(CONFIG), ("d", "b", 0))
    assert not is_duplicate_id(answered(CONFIG, 1), OWN)
    assert not is_duplicate_id(answered(b"\xff"), OWN)
    assert not is_duplicate_id(answered(b"brokerName=\\u00zz"), OWN)


def test_what_is_said() -> None:
    text = problem(THERE, OWN)
    assert text.startswith("option 'brokerId': another broker runs as id 0 of group b in c")
    assert THERE in text
