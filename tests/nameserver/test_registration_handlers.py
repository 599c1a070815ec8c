import json
import zlib

import pytest
from tests.nameserver.world import Asker, broker_ext, configs, header_of, text
from tests.wire.bodies.compressed_registration import encode_compressed

from epochmq.base import limits
from epochmq.model.crc import crc32
from epochmq.model.data_version import DataVersion
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.bodies.topic_bodies import TopicConfigTable

EXT = broker_ext() | {"haServerAddr": "10.0.0.0:10912"}

# A body as a Java 5.0 broker writes it: keys in alphabetical order, fastjson's bare integer keys.
JAVA_BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":2,'
    b'"stateVersion":0,"timestamp":1663545600000},"mappingDataVersion":{"counter":0,"stateVersion"'
    b':0,"timestamp":1663545600000},"topicConfigTable":{"TBW102":{"attributes":{},"order":false,'
    b'"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TBW102","topicSysFlag"'
    b':0,"writeQueueNums":8},"S":{"attributes":{"+queue.type":"SimpleCQ"},"order":false,"perm":6,'
    b'"readQueueNums":1,"topicFilterType":"SINGLE_TAG","topicName":"S","topicSysFlag":0,'
    b'"writeQueueNums":1}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{"S":{"bname"'
    b':"b","currIdMap":{0:0,1:1},"dirty":false,"epoch":1,"scope":"__global__","topic":"S",'
    b'"totalQueues":2}}}}'
)
TABLE_4_9 = (
    b'{"dataVersion":{"counter":1,"timestamp":5},"topicConfigTable":{"A":{"order":false,"perm":6,'
    b'"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"A","topicSysFlag":0,'
    b'"writeQueueNums":4},"B":{"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"B","topicSysFlag":0,"writeQueueNums":4}}}'
)


def test_a_java_5_registration() -> None:
    asker = Asker()
    ext = EXT | {"enableActingMaster": "false", "compressed": "false", "bodyCrc32": "0"}
    ext["bodyCrc32"] = str(crc32(JAVA_BODY))
    assert asker.ask(103, ext, JAVA_BODY).code == 0
    route = json.loads(text(asker.ask(105, {"topic": "S"})))
    assert route["queueDatas"][0]["readQueueNums"] == 1
    assert route["topicQueueMappingByBroker"]["b"]["currIdMap"] == {"0": 0, "1": 1}
    (live,) = asker.node.table.brokers.live.values()
    assert live.version == DataVersion(0, 2, 1663545600000)
    assert live.timeout_ms == 120_000


def test_a_java_4_9_registration_has_no_5_x_fields() -> None:
    asker = Asker()
    body = b'{"filterServerList":[],"topicConfigSerializeWrapper":' + TABLE_4_9 + b"}"
    assert asker.ask(103, EXT, body, version=401).code == 0
    assert asker.ask(105, {"topic": "B"}).code == 0


def test_a_very_old_broker_sends_the_bare_table() -> None:
    asker = Asker()
    assert asker.ask(103, EXT, TABLE_4_9, version=36).code == 0
    assert asker.ask(105, {"topic": "B"}).code == 0


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_compressed_body_is_read_whether_or_not_the_header_owns_up(compressed: str) -> None:
    asker = Asker()
    body = encode_compressed(RegisterBrokerBody(TopicConfigTable(configs("A", "B"))))
    assert asker.ask(103, EXT | {"compressed": compressed}, body).code == 0
    assert asker.ask(105, {"topic": "A"}).code == 0


def test_a_damaged_body_is_refused() -> None:
    asker = Asker()
    reply = asker.ask(103, EXT | {"bodyCrc32": "5"}, JAVA_BODY)
    assert reply.code == 1
    assert "crc32 not match" in str(reply.remark)
    reply = asker.ask(103, EXT | {"compressed": "true"}, zlib.compress(b"\0", 9))
    assert reply.code == 1


@pytest.mark.parametrize("compressed", [True, False])
def test_only_registered_brokers_may_send_large_tables(
    monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    """A few kilobytes inflate to sixty megabytes, and a connection costs a stranger nothing."""
    monkeypatch.setattr(limits, "REGISTER_FIRST_BYTES_MAX", 2_000)
    asker, stranger = Asker(), Asker()
    large = RegisterBrokerBody(TopicConfigTable(configs(*(f"T{n}" for n in range(100)))))
    body = encode_compressed(large) if compressed else encode_body(large)
    reply = stranger.ask(103, EXT, body)
    assert reply.code == 1
    assert "2000" in str(reply.remark)
    small = encode_compressed(RegisterBrokerBody(TopicConfigTable(configs("T0", "T1"))))
    assert asker.ask(103, EXT, small).code == 0
    assert asker.ask(103, EXT, body).code == (0 if compressed else 1), "others must compress"


def test_a_registration_without_a_body_says_nothing_of_topics() -> None:
    asker = Asker()
    assert asker.ask(103, EXT).code == 0
    assert asker.node.table.topics.queues == {}


@pytest.mark.parametrize("name", ["brokerName", "clusterName", "brokerAddr"])
def test_names_are_mandatory_and_bounded(name: str) -> None:
    asker = Asker()
    for bad in ("", "x" * 256, "x\n2026-01-01 CRITICAL"):
        assert asker.ask(103, EXT | {name: bad}, JAVA_BODY).code == 1
    missing = {key: value for key, value in EXT.items() if key != name}
    reply = asker.ask(103, missing, JAVA_BODY)
    assert (reply.code, name in str(reply.remark)) == (1, True)


def test_a_replica_is_told_its_master_and_the_order_configuration() -> None:
    asker = Asker()
    asker.register(0)
    reply = asker.register(1)
    assert header_of(reply) == {"haServerAddr": "10.0.0.0:10912", "masterAddr": "10.0.0.0:10911"}
    assert reply.body == b""
    asker.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "A", "value": "b:4"})
    assert text(asker.register(1)) == '{"table":{"A":"b:4"}}'
    assert header_of(asker.register(0)) == {}
    asker.ask(318, body=b"returnOrderTopicConfigToBroker=false")
    assert asker.register(1).body == b""


def test_the_timeout_of_a_broker_that_may_act_as_master() -> None:
    asker = Asker()
    asker.register(0, heartbeatTimeoutMillis="10000", enableActingMaster="true")
    asker.ask(904, broker_ext(), now=5_000)
    asker.node.expire(15_000)
    assert asker.ask(105, {"topic": "A"}).code == 0
    asker.node.expire(15_001)
    assert asker.ask(105, {"topic": "A"}).code == 17
    assert asker.line.reason == "broker b 10.0.0.0:10911 is silent"


def test_unregistering() -> None:
    asker = Asker()
    asker.register(0)
    assert asker.ask(104, broker_ext()).code == 0
    assert asker.ask(105, {"topic": "A"}).code == 17
    assert asker.ask(104, broker_ext()).code == 0


def test_the_data_version_of_a_broker() -> None:
    asker = Asker()
    body = encode_body(DataVersion(0, 1, 9))
    reply = asker.ask(322, broker_ext(), body)
    assert (header_of(reply), reply.body) == ({"changed": "true"}, b"")
    asker.register(0)
    reply = asker.ask(322, broker_ext(), body)
    assert header_of(reply) == {"changed": "false"}
    assert json.loads(text(reply)) == {"stateVersion": 0, "counter": 1, "timestamp": 9}
    reply = asker.ask(322, broker_ext(), b'{"counter":3,"timestamp":9}')
    assert header_of(reply) == {"changed": "true"}


def test_the_members_of_a_group_with_bare_ids_as_upstream_writes_them() -> None:
    asker = Asker()
    asker.register(1)
    asker.register(0)
    ask = {"clusterName": "c", "brokerName": "b"}
    assert text(asker.ask(901, ask)) == (
        '{"brokerMemberGroup":{"cluster":"c","brokerName":"b",'
        '"brokerAddrs":{0:"10.0.0.0:10911",1:"10.0.0.1:10911"}}}'
    )
    assert text(asker.ask(901, ask | {"brokerName": "x"})) == (
        '{"brokerMemberGroup":{"cluster":"c","brokerName":"x","brokerAddrs":{}}}'
    )


def test_the_cluster_with_bare_ids_as_upstream_writes_them() -> None:
    asker = Asker()
    asker.register(1)
    asker.register(0)
    assert text(asker.ask(106)) == (
        '{"brokerAddrTable":{"b":{"cluster":"c","brokerName":"b","brokerAddrs":'
        '{0:"10.0.0.0:10911",1:"10.0.0.1:10911"},"enableActingMaster":false}},'
        '"clusterAddrTable":{"c":["b"]}}'
    )


def test_closing_the_connection_unregisters() -> None:
    asker = Asker()
    asker.register(0)
    asker.register(0, counter=2)
    asker.session.lost()
    assert asker.ask(105, {"topic": "A"}).code == 17
    assert asker.node.broker_sessions == {}
