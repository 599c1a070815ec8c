"""SendTopics: opened by checks in order, closed by any change, counting what passes."""

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import WALL, BrokerHarness

from epochmq.base.errors import Refused
from epochmq.broker.produce.send_topics import SendTopics, check_name, invalid_code
from epochmq.broker.serving.roles import Role
from epochmq.model.topic import MULTI_TAG
from epochmq.wire.headers.fast_headers import SendFields


def fields(topic: str, queues: int = 4) -> SendFields:
    return SendFields("PID", topic, "TBW102", queues, 0, 0, WALL, 0)


def test_a_lane_knows_its_topic() -> None:
    harness = BrokerHarness()
    harness.node.topics.put(harness.topic("T", queues=3), 0)
    harness.topic("M", topic_filter_type=MULTI_TAG)
    harness.topic("%RETRY%G", queues=1)
    send_topics = SendTopics(harness.node)
    send_topic = send_topics.open(fields("T"), 401, WALL)
    assert (send_topic.topic, send_topic.queues, send_topic.write_queues) == ("T", 3, 3)
    assert (send_topic.sys_flag, send_topic.retry_group) == (0, None)
    assert send_topics.open(fields("M"), 401, WALL).sys_flag == 2
    assert send_topics.open(fields("%RETRY%G"), 401, WALL).retry_group == "G"
    assert send_topics.get("T") is send_topic
    assert send_topics.keep(harness.topic("T", queues=3)) is send_topic


def test_lanes_close_when_anything_changes() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    send_topics = SendTopics(harness.node)

    def opened() -> bool:
        if send_topics.is_outdated():
            send_topics.drop_all()
        found = send_topics.get("T") is not None
        send_topics.open(fields("T"), 401, WALL)
        return found

    assert not opened()
    assert opened()
    harness.topic("U")
    assert not opened()
    become(harness.node, Role.SLAVE)
    assert not opened()
    harness.node.adopt_options(BrokerHarness().options)
    assert not opened()
    assert opened()


def test_closing_hands_over_the_counts() -> None:
    harness = BrokerHarness()
    harness.topic("T")
    send_topics = SendTopics(harness.node)
    send_topic = send_topics.open(fields("T"), 401, WALL)
    send_topics.used.append(send_topic)
    send_topic.counts[1] += 5
    send_topic.sizes[1] += 500
    harness.topic("U")
    send_topics.count()
    send_topics.drop_all()
    stats = harness.node.stats
    assert stats.find("TOPIC_PUT_NUMS", "U") is None
    for name, key, value in (
        ("TOPIC_PUT_NUMS", "T", 5),
        ("TOPIC_PUT_SIZE", "T", 500),
        ("QUEUE_PUT_NUMS", "T@1", 5),
        ("QUEUE_PUT_SIZE", "T@1", 500),
    ):
        item = stats.find(name, key)
        assert item is not None
        assert (item.value, item.times) == (value, 5)


def test_codes_for_bad_parameters_follow_the_clients_release() -> None:
    assert [invalid_code(version) for version in (0, 401, 413, 475, 479)] == [1, 1, 1, 29, 29]
    for version, code in ((401, 1), (479, 29)):
        with pytest.raises(Refused) as refused:
            check_name("no good", version)
        assert refused.value.code == code
