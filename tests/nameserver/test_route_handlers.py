import json

import pytest
from tests.nameserver.world import Asker, configs, header_of, text

from epochmq.wire.json_tolerant import loads

GOLDEN = {
    "brokerDatas": [
        {
            "brokerAddrs": {"0": "10.0.0.0:10911", "1": "10.0.0.1:10911"},
            "brokerName": "b",
            "cluster": "c",
            "enableActingMaster": False,
        }
    ],
    "filterServerTable": {},
    "queueDatas": [
        {
            "brokerName": "b",
            "perm": 6,
            "readQueueNums": 4,
            "topicSysFlag": 0,
            "writeQueueNums": 4,
        }
    ],
}


def registered(**options: bool) -> Asker:
    asker = Asker(**options)
    asker.register(0)
    asker.register(1)
    return asker


@pytest.mark.parametrize(
    ("version", "ext", "standard"),
    [
        (401, {}, True),
        (413, {}, True),
        (479, {}, True),
        (400, {}, False),
        (0, {}, False),
        (317, {"acceptStandardJsonOnly": "true"}, True),
        (317, {"acceptStandardJsonOnly": "false"}, False),
    ],
)
def test_the_dialect_is_what_the_client_reads(
    version: int, ext: dict[str, str], standard: bool
) -> None:
    body = text(registered().ask(105, {"topic": "A"} | ext, version=version))
    assert ('{"0":' in body) == standard
    assert ("{0:" in body) != standard
    assert loads(body) == GOLDEN


def test_a_missing_topic() -> None:
    reply = registered().ask(105, {"topic": "Z"})
    assert reply.code == 17
    assert "No topic route info" in str(reply.remark)


def test_the_zone_of_a_client() -> None:
    asker = Asker()
    asker.register(0, __ZONE_NAME="z1")
    ext = {"topic": "A", "__ZONE_MODE": "true", "__ZONE_NAME": "z1"}
    assert len(json.loads(text(asker.ask(105, ext)))["brokerDatas"]) == 1
    ext["__ZONE_NAME"] = "z2"
    assert json.loads(text(asker.ask(105, ext)))["brokerDatas"] == []
    ext["__ZONE_MODE"] = "false"
    assert len(json.loads(text(asker.ask(105, ext)))["brokerDatas"]) == 1


def test_the_order_configuration_is_shown_if_enabled() -> None:
    asker = registered()
    asker.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "A", "value": "b:4"})
    assert "orderTopicConf" not in text(asker.ask(105, {"topic": "A"}))
    asker.ask(318, body=b"orderMessageEnable=true")
    assert json.loads(text(asker.ask(105, {"topic": "A"})))["orderTopicConf"] == "b:4"
    asker.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "A", "value": "b:8"})
    assert json.loads(text(asker.ask(105, {"topic": "A"})))["orderTopicConf"] == "b:8"
    asker.ask(102, {"namespace": "ORDER_TOPIC_CONFIG", "key": "A"})
    assert "orderTopicConf" not in text(asker.ask(105, {"topic": "A"}))


def test_routes_may_wait_until_brokers_had_time_to_register() -> None:
    asker = registered(need_wait_for_service=True)
    reply = asker.ask(105, {"topic": "A"}, now=44_999)
    assert reply.code == 1
    assert str(reply.remark).startswith("name server not ready")
    assert asker.ask(105, {"topic": "A"}, now=45_000).code == 0


def test_write_permission() -> None:
    asker = registered()
    assert header_of(asker.ask(205, {"brokerName": "b"})) == {"wipeTopicCount": "2"}
    assert '"perm":4' in text(asker.ask(105, {"topic": "A"}))
    assert header_of(asker.ask(327, {"brokerName": "b"})) == {"addTopicCount": "2"}
    assert '"perm":6' in text(asker.ask(105, {"topic": "A"}))


def test_deleting_and_registering_one_topic() -> None:
    asker = registered()
    assert asker.ask(216, {"topic": "A"}).code == 0
    assert asker.ask(105, {"topic": "A"}).code == 17
    body = json.dumps(GOLDEN).encode()
    assert asker.ask(217, {"topic": "A"}, body).code == 0
    assert json.loads(text(asker.ask(105, {"topic": "A"}))) == GOLDEN
    assert asker.ask(216, {"topic": "A", "clusterName": "c"}).code == 0
    assert asker.ask(105, {"topic": "A"}).code == 17
    for bad in ("", "x" * 256):
        assert asker.ask(217, {"topic": bad}, body).code == 1


def test_an_auto_created_topic_comes_by_a_small_registration() -> None:
    asker = registered()
    asker.register(0, configs("New"), counter=2)
    assert asker.ask(105, {"topic": "New"}).code == 0
    assert asker.ask(105, {"topic": "A"}).code == 0
