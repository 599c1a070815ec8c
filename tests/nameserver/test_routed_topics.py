from epochmq.model.topic import QueueData, TopicConfig
from epochmq.nameserver.routed_topics import UNIT, UNIT_SUB, RoutedTopics, queues_of
from epochmq.wire.bodies.topic_bodies import TopicQueueMappingInfo


def queues(name: str, perm: int = 6, flag: int = 0) -> QueueData:
    return QueueData(name, 4, 4, perm, flag)


def filled() -> RoutedTopics:
    topics = RoutedTopics()
    for topic, name in (("A", "b1"), ("A", "b2"), ("B", "b1"), ("C", "b2")):
        topics.put(topic, queues(name))
    return topics


def test_only_what_differs_is_news() -> None:
    topics = RoutedTopics()
    assert topics.put("A", queues("b"))
    assert not topics.put("A", queues("b"))
    assert topics.put("A", queues("b", perm=4))
    info = TopicQueueMappingInfo(topic="A", bname="b", epoch=1)
    assert topics.put_mapping("A", "b", info)
    assert not topics.put_mapping("A", "b", info)


def test_topics_by_group_and_by_cluster() -> None:
    topics = filled()
    assert topics.of_broker("b1") == ["A", "B"]
    assert topics.of_brokers(["b2"]) == ["A", "C"]
    assert topics.of_brokers(["b1", "b2", "b3"]) == ["A", "B", "C"]
    assert topics.of_brokers([]) == []
    assert topics.has("A", "b1")
    assert not topics.has("B", "b2")
    assert not topics.has("Z", "b2")


def test_a_topic_goes_with_its_last_group() -> None:
    topics = filled()
    topics.put_mapping("A", "b1", TopicQueueMappingInfo())
    assert topics.drop("A", ["b1"])
    assert topics.mappings["A"] == {}
    assert not topics.drop("A", ["b1"])
    assert topics.drop("A", ["b2"])
    assert "A" not in topics.queues
    assert "A" not in topics.mappings
    assert not topics.drop("A", ["b2"])
    assert topics.drop_topic("B")
    assert not topics.drop_topic("B")


def test_all_topics_of_a_group_go_with_it() -> None:
    topics = filled()
    assert topics.drop_broker("b1") == ["A", "B"]
    assert set(topics.queues) == {"A", "C"}


def test_write_permission_is_taken_and_given() -> None:
    topics = filled()
    topics.put("B", queues("b1", perm=7))
    assert topics.wipe_write("b1") == ["A", "B"]
    assert [topics.queues[topic]["b1"].perm for topic in "AB"] == [4, 5]
    assert topics.queues["A"]["b2"].perm == 6
    assert topics.wipe_write("b1") == ["A", "B"]
    assert topics.add_write("b1") == ["A", "B"]
    assert [topics.queues[topic]["b1"].perm for topic in "AB"] == [6, 6]
    assert topics.add_write("nobody") == []


def test_unit_topics_by_their_flags() -> None:
    topics = RoutedTopics()
    for number, name in enumerate(("plain", "unit", "sub", "both")):
        topics.put(name, queues("b", flag=number))
    assert topics.units(UNIT) == ["unit", "both"]
    assert topics.units(UNIT_SUB) == ["sub", "both"]
    assert topics.units(UNIT_SUB, UNIT) == ["sub"]


def test_a_replica_offers_reading_only() -> None:
    config = TopicConfig("A", 3, 5, 7, topic_sys_flag=1)
    assert queues_of(config, "b", read_only=False) == QueueData("b", 3, 5, 7, 1)
    assert queues_of(config, "b", read_only=True) == QueueData("b", 3, 5, 5, 1)
