from epochmq.model.data_version import DataVersion
from epochmq.nameserver.registered_brokers import Brokers, LiveBroker, RegisteredGroup


def live(addr: str, session: int = 1, last: int = 0) -> LiveBroker:
    return LiveBroker("c", "b", addr, last, 100, DataVersion(), session)


def test_a_group_knows_its_smallest_id_and_whether_it_lacks_a_master() -> None:
    group = RegisteredGroup("c", "b")
    assert group.min_id is None
    assert not group.headless
    group.addrs = {2: "y", 1: "x"}
    assert group.min_id == 1
    assert group.headless
    group.addrs[0] = "m"
    assert not group.headless


def test_an_address_is_dropped_under_every_other_id() -> None:
    group = RegisteredGroup("c", "b", {0: "x", 1: "x", 2: "y"})
    assert group.drop_addr("x", but_id=0) == [1]
    assert group.addrs == {0: "x", 2: "y"}
    assert group.drop_addr("x") == [0]


def test_what_routes_show_is_a_copy_in_order_of_ids() -> None:
    group = RegisteredGroup("c", "b", {1: "s", 0: "m"}, acting=True, zone="z")
    data = group.as_data()
    assert list(data.broker_addrs) == [0, 1]
    assert (data.cluster, data.broker_name, data.enable_acting_master) == ("c", "b", True)
    assert data.zone_name == "z"
    data.broker_addrs.clear()
    assert group.addrs == {1: "s", 0: "m"}
    assert not RegisteredGroup("c", "b").as_data().zone_name


def test_a_group_leaves_its_clusters_with_its_last_member() -> None:
    brokers = Brokers()
    brokers.join("c", "b").addrs = {0: "m", 1: "s"}
    brokers.join("c2", "b")
    brokers.join("c", "other").addrs = {0: "o"}
    assert brokers.leave("nobody", "m") is None
    left = brokers.leave("b", "m")
    assert left is not None
    assert left.addrs == {1: "s"}
    assert brokers.clusters == {"c": {"b", "other"}, "c2": {"b"}}
    brokers.leave("b", "s")
    assert brokers.clusters == {"c": {"other"}}
    assert list(brokers.groups) == ["other"]


def test_the_living_holder_of_an_id() -> None:
    brokers = Brokers()
    group = brokers.join("c", "b")
    assert brokers.live_at(group, 0) is None
    group.addrs[0] = "m"
    assert brokers.live_at(group, 0) is None
    brokers.live["c", "m"] = live("m")
    assert brokers.live_at(group, 0) is brokers.live["c", "m"]


def test_heartbeats_silence_and_sessions() -> None:
    brokers = Brokers()
    one, two = live("x", session=1), live("y", session=2)
    brokers.live = {("c", "x"): one, ("c", "y"): two}
    brokers.heard(("c", "x"), 50)
    brokers.heard(("c", "stranger"), 50)
    assert len(brokers.live) == 2
    assert brokers.expired(100) == []
    assert brokers.expired(101) == [two]
    assert brokers.expired(151) == [one, two]
    assert brokers.of_session(2) == [two]
