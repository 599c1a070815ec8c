"""What a broker without sockets measures after some messages."""

from typing import Any

import pytest
from tests.broker.broker_harness import BrokerHarness, send
from tests.broker.delay.timers import TimerBroker
from tests.observe.test_families import samples_of

from epochmq.broker.serving.roles import Role
from epochmq.broker.state.broker_stats import MESSAGE_TYPES
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.observe.broker_metrics import BrokerMetrics
from epochmq.observe.families import Family, write_families
from epochmq.wire.bodies.controller_bodies import HAConnectionInfo, HARuntimeInfo
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

GROUP = "G"


class Scraped:
    """The samples of a broker, by name and its own labels."""

    def __init__(self, harness: BrokerHarness) -> None:
        harness.sink.stage.count_sent()  # as each tick of the broker does
        metrics = BrokerMetrics(harness.node, lambda: (3, 4))
        self.common = metrics.common_labels()
        families = [family for family in metrics.families() if isinstance(family, Family)]
        text = b"".join(write_families(families, self.common, 10_000))
        self._samples = samples_of(text)
        self.names = {name for name, _ in self._samples}

    def value(self, name: str, **labels: str) -> float | None:
        return self._samples.get((name, tuple(sorted({**self.common, **labels}.items()))))


def pull(harness: BrokerHarness, queue_id: int, offset: int, count: int) -> None:
    ext = {
        "consumerGroup": GROUP, "topic": "T", "queueId": str(queue_id), "queueOffset": str(offset),
        "maxMsgNums": str(count), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    answer = harness.client().ask(Command(Code.PULL_MESSAGE, ext=ext))
    assert answer.code == 0, answer


def commit(harness: BrokerHarness, queue_id: int, offset: int) -> None:
    harness.node.offsets.commit(GROUP, "T", queue_id, offset, harness.clock.wall_ms())


def test_messages_and_lag() -> None:
    harness = BrokerHarness()
    harness.topic("T", 2)
    for queue_id in (0, 0, 0, 1):
        assert harness.client().ask(send(b"12345", queue_id=queue_id)).code == 0
        harness.clock.step(1_000)
    pull(harness, 0, 0, 2)
    commit(harness, 0, 1)
    commit(harness, 1, 1)
    found = Scraped(harness)
    topic = {"topic": "T", "message_type": "normal", "is_system": "false"}
    assert found.value("rocketmq_messages_in_total", **topic) == 4
    size = found.value("rocketmq_throughput_in_total", **topic)
    assert size is not None
    assert size > 4 * 91
    out = {"topic": "T", "consumer_group": GROUP, "is_system": "false"}
    assert found.value("rocketmq_messages_out_total", **out) == 2
    lag = {"topic": "T", "consumer_group": GROUP, "is_retry": "false", "is_system": "false"}
    assert found.value("rocketmq_consumer_lag_messages", **lag) == 2
    assert found.value("rocketmq_consumer_inflight_messages", **lag) == 1
    assert found.value("rocketmq_consumer_ready_messages", **lag) == 1
    assert found.value("rocketmq_consumer_lag_latency_milliseconds", **lag) == 3_000
    assert found.value("rocketmq_consumer_queueing_latency_milliseconds", **lag) == 2_000


def test_a_group_that_consumed_everything_has_no_lag() -> None:
    harness = BrokerHarness()
    harness.topic("T", 2)
    harness.client().ask(send(b"x"))
    commit(harness, 0, 1)
    lag = {"topic": "T", "consumer_group": GROUP, "is_retry": "false", "is_system": "false"}
    found = Scraped(harness)
    assert found.value("rocketmq_consumer_lag_messages", **lag) == 0
    assert found.value("rocketmq_consumer_lag_latency_milliseconds", **lag) == 0


def test_deleted_topics_and_groups_have_no_samples() -> None:
    harness = BrokerHarness()
    harness.topic("T", 2)
    harness.client().ask(send(b"x"))
    pull(harness, 0, 0, 1)
    commit(harness, 0, 0)
    for code, ext in (
        (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP, "cleanOffset": "true"}),
        (Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"}),
    ):
        harness.client().ask(Command(code, ext=ext))
    harness.client().ask(send(b"x", topic="TBW102"))
    harness.sink.stage.count_sent()
    families = [
        each
        for each in BrokerMetrics(harness.node, lambda: (3, 4)).families()
        if isinstance(each, Family)
    ]
    text = b"".join(write_families(families, {}, 10_000)).decode()
    assert 'topic="T"' not in text
    assert f'consumer_group="{GROUP}"' not in text


@pytest.mark.parametrize(
    ("properties", "message_type"),
    [
        ("", "normal"),
        ("TAGS\x01A\x02__OTHER\x01x", "normal"),
        ("TRAN_MSG\x01false", "normal"),
        ("__SHARDINGKEY\x01", "normal"),
        ("__SHARDINGKEY\x01k", "fifo"),
        ("DELAY\x013", "delay"),
        ("DELAY\x010", "delay"),
        ("TIMER_DELAY_SEC\x0160", "delay"),
        ("TIMER_DELAY_MS\x0160000", "delay"),
        ("TIMER_DELIVER_MS\x011700000000000", "delay"),
        ("__STARTDELIVERTIME\x011700000000000", "delay"),
        ("DELAY\x013\x02__SHARDINGKEY\x01k", "fifo"),
        ("TRAN_MSG\x01true\x02PGROUP\x01P\x02__SHARDINGKEY\x01k", "transaction"),
    ],
)
def test_the_type_is_what_the_sender_asked_for(properties: str, message_type: str) -> None:
    harness = TimerBroker()
    harness.topic("T", 1, attributes={"message.type": "MIXED"})
    flag = TX_PREPARED if "TRAN_MSG\x01true" in properties else 0
    text = f"UNIQ_KEY\x01K\x02{properties}"
    assert harness.client().ask(send(b"x", properties=text, sysFlag=flag)).code == 0
    found = Scraped(harness)
    for each in MESSAGE_TYPES:
        labels = {"topic": "T", "message_type": each, "is_system": "false"}
        expected = 1 if each == message_type else None
        assert found.value("rocketmq_messages_in_total", **labels) == expected
        size = found.value("rocketmq_message_size_sum", **labels)
        assert size == found.value("rocketmq_throughput_in_total", **labels)
        assert (size is None) == (expected is None)


def test_role_and_store() -> None:
    harness = BrokerHarness()
    found = Scraped(harness)
    assert found.common == {
        "cluster": "c", "node_type": "broker", "node_id": "b", "broker_id": "0"
    }  # fmt: skip
    for role in Role:
        assert found.value("epochmq_role", role=role.name.lower()) == (role is Role.MASTER)
    assert found.value("epochmq_writable") == 1
    assert found.value("epochmq_storage_fenced") == 0
    assert found.value("epochmq_storage_cut_bytes") == 0
    harness.node.disk.make_dir("cut")
    harness.node.disk.write_file("cut/2-500.log", b"x" * 700)
    assert Scraped(harness).value("epochmq_storage_cut_bytes") == 700
    store = {"storage_type": "local", "storage_medium": "disk"}
    assert found.value("rocketmq_storage_dispatch_behind_bytes", **store) == 0
    assert found.value("rocketmq_topic_number") == len(harness.node.topics.table)
    assert "rocketmq_storage_message_reserve_time_milliseconds" not in found.names
    harness.topic("T", 1)
    harness.client().ask(send(b"x"))
    harness.clock.step(5_000)
    age = Scraped(harness).value("rocketmq_storage_message_reserve_time_milliseconds", **store)
    assert age == 5_000


class Replicated:
    """The status of a group with two slaves; one has never acknowledged."""

    def ha_status(self) -> HARuntimeInfo:
        return HARuntimeInfo(
            master=True,
            ha_connection_info=[
                # It connects again, before its older connection is closed.
                HAConnectionInfo("s1:1", diff=99, in_sync=True, epochmq_broker_id=7),
                HAConnectionInfo(
                    "s1:2", diff=70, in_sync=True, epochmq_lag_ms=1_500, epochmq_broker_id=7
                ),
                HAConnectionInfo("s2", diff=90, epochmq_lag_ms=-1),
                HAConnectionInfo("s3", diff=-5),
            ],
        )

    def figures(self) -> dict[str, str]:
        return {}


def test_how_far_replicas_are_behind() -> None:
    harness = BrokerHarness()
    replica: Any = Replicated()
    harness.node.join_group(replica, harness.node.group_position, None)
    found = Scraped(harness)
    lag = {"replica": "7", "in_sync": "true"}
    assert found.value("epochmq_replica_lag_bytes", **lag) == 70
    assert found.value("epochmq_replica_lag_milliseconds", **lag) == 1_500
    behind = {"replica": "s3", "in_sync": "false"}
    assert found.value("epochmq_replica_lag_bytes", **behind) == 0
    for unknown in ("s2", "s3"):
        labels = {"replica": unknown, "in_sync": "false"}
        assert found.value("epochmq_replica_lag_milliseconds", **labels) is None
