"""Routes: which queues may be written or read, whom to ask, and when to ask again."""

from epochmq.client.core.route_cache import RouteCache, route_of_new_topic
from epochmq.model.topic import BrokerData, MessageQueue, QueueData, TopicRouteData


def route(perm: int = 6, conf: str | None = None) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(cluster="c", broker_name="b", broker_addrs={0: "b0", 1: "b1"}),
            BrokerData(cluster="c", broker_name="a", broker_addrs={2: "a2"}),
        ],
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=1, perm=perm)
            for name in ("b", "a")
        ],
        order_topic_conf=conf,
    )


def test_publish_needs_a_master_and_subscribe_does_not() -> None:
    cache = RouteCache()
    assert cache.put("t", route(), 0)
    assert cache.publish("t") == (MessageQueue("t", "b", 0),)
    assert [q.broker_name for q in cache.subscribe("t")] == ["a", "a", "b", "b"]
    assert cache.route("t") is not None


def test_permissions_hide_queues() -> None:
    cache = RouteCache()
    cache.put("t", route(perm=4), 0)
    assert cache.publish("t") == ()
    cache.put("t", route(perm=2), 0)
    assert cache.subscribe("t") == ()


def test_an_order_configuration_wins() -> None:
    cache = RouteCache()
    cache.put("t", route(conf="a:1;b:2;;x"), 0)
    assert [(q.broker_name, q.queue_id) for q in cache.publish("t")] == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
    ]


def test_addresses_fall_back_to_another_replica() -> None:
    cache = RouteCache()
    cache.put("t", route(), 0)
    assert cache.master("a") is None
    assert cache.address("a", 0) == "a2"
    assert cache.address("b", 0) == "b0"
    assert cache.address("x", 0) is None
    assert cache.replica_id("b", "b1") == 1
    assert cache.replica_id("b", "?") == 0
    assert cache.masters() == ["b0"]
    assert cache.all_addresses() == ["a2", "b0", "b1"]


def test_only_a_change_is_a_change() -> None:
    cache = RouteCache(poll_ms=10)
    assert cache.is_stale("t", 0)
    assert cache.put("t", route(), 0)
    assert not cache.put("t", route(), 5)
    assert not cache.is_stale("t", 14)
    assert cache.is_stale("t", 15)
    cache.expire("t")
    cache.expire("unknown")
    assert cache.is_stale("t", 6)
    assert cache.route("t") is not None
    cache.forget("t")
    assert cache.publish("t") == cache.subscribe("t") == ()
    assert cache.route("t") is None


def test_a_new_topic_borrows_the_template() -> None:
    fresh = route_of_new_topic(route(), 1)
    assert {d.read_queue_nums for d in fresh.queue_datas} == {1}
    assert len(fresh.broker_datas) == 2
