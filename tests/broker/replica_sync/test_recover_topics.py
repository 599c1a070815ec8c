"""Topics with messages but without a configuration."""

from tests.broker.desk import Desk, send

from epochmq.broker.replica_sync.recover_topics import recover_topics


def test_a_topic_whose_messages_came_before_its_configuration_is_made() -> None:
    """rocketmq-helm#33."""
    desk = Desk()
    desk.topic("T", queues=12)
    client = desk.client()
    client.ask(send(queue_id=11))
    before = desk.node.topics.get("T")
    desk.node.topics.delete("T", desk.clock.wall)
    assert recover_topics(desk.node, desk.clock.wall) == ["T"]
    after = desk.node.topics.get("T")
    assert before is not None
    assert after is not None
    assert after.read_queue_nums == 12
    assert recover_topics(desk.node, desk.clock.wall) == []


def test_it_has_the_usual_number_of_queues_at_least() -> None:
    desk = Desk(default_topic_queue_nums=8)
    desk.topic("T", queues=4)
    desk.topic("%RETRY%G", queues=1)
    client = desk.client()
    client.ask(send())
    desk.store.append([], 0)
    desk.node.topics.delete("T", desk.clock.wall)
    recover_topics(desk.node, desk.clock.wall)
    healed = desk.node.topics.get("T")
    assert healed is not None
    assert healed.write_queue_nums == 8
