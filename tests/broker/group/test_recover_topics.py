"""Topics with messages but without a configuration."""

from tests.broker.broker_harness import BrokerHarness, send

from epochmq.broker.group.replicated_tables import recover_topics


def test_a_topic_whose_messages_came_before_its_configuration_is_made() -> None:
    """rocketmq-helm#33."""
    harness = BrokerHarness()
    harness.topic("T", queues=12)
    client = harness.client()
    client.ask(send(queue_id=11))
    before = harness.node.topics.get("T")
    harness.node.topics.delete("T", harness.clock.wall)
    assert recover_topics(harness.node, harness.clock.wall) == ["T"]
    after = harness.node.topics.get("T")
    assert before is not None
    assert after is not None
    assert after.read_queue_nums == 12
    assert recover_topics(harness.node, harness.clock.wall) == []


def test_it_has_the_usual_number_of_queues_at_least() -> None:
    harness = BrokerHarness(default_topic_queue_nums=8)
    harness.topic("T", queues=4)
    harness.topic("%RETRY%G", queues=1)
    client = harness.client()
    client.ask(send())
    harness.store.append([], 0)
    harness.node.topics.delete("T", harness.clock.wall)
    recover_topics(harness.node, harness.clock.wall)
    healed = harness.node.topics.get("T")
    assert healed is not None
    assert healed.write_queue_nums == 8
