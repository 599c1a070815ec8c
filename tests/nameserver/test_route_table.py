import pytest
from tests.nameserver.world import addrs, configs, perm, table, told

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import QueueData
from epochmq.nameserver.registered_brokers import HEARTBEAT_TIMEOUT_MS
from epochmq.nameserver.route_table import TOPICS_A_STEP, Registered
from epochmq.wire.bodies.topic_bodies import TopicQueueMappingInfo


def test_a_master_and_its_replica_are_in_the_route() -> None:
    it = table()
    assert it.register(told(0, ha_addr="ha:1"), 0) == Registered()
    assert it.register(told(1), 0) == Registered("ha:1", "10.0.0.0:10911")
    route = it.route("A")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["b"]
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.0:10911", 1: "10.0.0.1:10911"}
    assert route.filter_server_table == {}
    assert it.route("Z") is None


def test_a_replica_hears_of_a_living_master_only() -> None:
    it = table()
    assert it.register(told(1), 0) == Registered()
    it.register(told(0), 0)
    it.brokers.live.clear()
    assert it.register(told(1), 0) == Registered()


# The rule of exactly one topic ------------------------------------------------------------------


def test_a_newcomer_may_not_name_exactly_one_topic() -> None:
    it = table()
    with pytest.raises(Refused, match="register broker failed"):
        it.register(told(topics=configs("A")), 0)
    assert not it.brokers.groups
    assert not it.brokers.live
    it.register(told(topics={}), 0)
    it.register(told(topics=configs("A"), counter=2), 1)
    assert set(it.topics.queues) == {"A"}
    with pytest.raises(Refused):
        it.register(told(1, topics=configs("A")), 2)
    assert addrs(it) == {0: "10.0.0.0:10911"}


def test_saying_nothing_of_topics_is_allowed() -> None:
    it = table()
    told_nothing = told()
    object.__setattr__(told_nothing, "topics", None)
    it.register(told_nothing, 0)
    assert addrs(it) == {0: "10.0.0.0:10911"}
    assert it.topics.queues == {}


# Addresses and ids --------------------------------------------------------------------------------


def test_an_address_holds_one_id_only() -> None:
    it = table()
    it.register(told(1, "x"), 0)
    it.register(told(0, "x"), 1)
    assert addrs(it) == {0: "x"}


def test_without_epochs_the_last_to_register_has_the_id() -> None:
    it = table()
    it.register(told(0, "x"), 0)
    it.register(told(0, "y"), 1)
    assert addrs(it) == {0: "y"}


def test_with_acting_masters_an_id_stays_with_the_live_broker() -> None:
    """H20: two masters with one id would take it from each other at each registration."""
    it = table()
    acts = {"acting": True, "timeout_ms": 10_000}
    it.register(told(0, "x", **acts), 0)
    it.heartbeat("c", "x", 4_000)
    with pytest.raises(Refused, match="x, heard of 4999 ms ago, is broker 0 of group b; y is not"):
        it.register(told(0, "y", **acts), 8_999)
    assert addrs(it) == {0: "x"}
    assert ("c", "y") not in it.brokers.live
    it.register(told(0, "x", **acts, counter=2), 8_999)
    it.register(told(1, "y", **acts), 8_999)
    it.register(told(0, "z", **acts), 13_999)  # x is silent: this is where it moved to
    assert addrs(it) == {0: "z", 1: "y"}
    it.register(told(0, "old"), 14_000)  # one that does not act as master
    assert addrs(it) == {0: "old", 1: "y"}
    it.register(told(0, "epoch", **acts, epoch=1), 14_000)
    it.register(told(0, "newer", **acts, epoch=2), 14_000)
    assert addrs(it) == {0: "newer", 1: "y"}


def test_a_lower_epoch_is_passed_over_with_success() -> None:
    it = table()
    it.register(told(0, "new", epoch=5), 0)
    assert it.register(told(0, "old", epoch=4), 1) == Registered()
    assert addrs(it) == {0: "new"}
    assert ("c", "old") not in it.brokers.live
    it.register(told(0, "newer", epoch=6), 2)
    assert addrs(it) == {0: "newer"}


def test_a_deposed_master_stays_out_after_its_successor_died() -> None:
    it = table()
    it.register(told(0, "new", epoch=5), 0)
    it.register(told(1, "slave", epoch=5), 0)
    it.unregister("c", "b", "new")
    it.register(told(0, "old", epoch=4), 1)
    assert addrs(it) == {1: "slave"}
    it.register(told(0, "slave", epoch=6), 2)
    assert addrs(it) == {0: "slave"}


def test_a_deposed_master_loses_the_replica_id_it_had_when_it_claims_too_much() -> None:
    it = table()
    changes: list[object] = []
    it.register(told(0, "new", epoch=5), 0)
    it.register(told(1, "old", epoch=5), 0)
    it.notify_changes(changes.append)
    it.register(told(0, "old", epoch=4), 1)
    assert addrs(it) == {0: "new"}
    assert changes == [None]


def test_the_holder_itself_may_come_back_with_a_lower_epoch() -> None:
    it = table()
    it.register(told(0, epoch=5), 0)
    it.register(told(0, epoch=1), 1)
    assert addrs(it) == {0: "10.0.0.0:10911"}


def test_a_dead_holder_without_epochs_in_use_gives_way() -> None:
    it = table()
    it.register(told(0, "new", epoch=5), 0)
    it.brokers.live.clear()
    it.register(told(0, "plain", epoch=0), 1)
    assert addrs(it) == {0: "plain"}


def test_a_group_may_be_listed_in_two_clusters() -> None:
    it = table()
    it.register(told(0, cluster="c"), 0)
    it.register(told(1, cluster="d"), 0)
    assert it.brokers.clusters == {"c": {"b"}, "d": {"b"}}
    assert it.topics_of_cluster("d") == ["A", "B"]
    assert it.topics_of_cluster("none") == []
    assert it.system_topics() == (["c", "d", "b"], "10.0.0.0:10911")


def test_without_brokers_there_are_no_system_topics() -> None:
    assert table().system_topics() == ([], None)


# Topics -------------------------------------------------------------------------------------------


def test_topics_come_from_the_master_only() -> None:
    it = table()
    it.register(told(0), 0)
    it.register(told(1, topics=configs("A", "Z"), acting=True), 0)
    assert set(it.topics.queues) == {"A", "B"}
    old = table()
    old.register(told(1, acting=None), 0)
    assert old.topics.queues == {}


@pytest.mark.parametrize(("acting", "shown"), [(True, 4), (False, 6)])
def test_the_smallest_id_of_a_group_without_master_registers_its_topics(
    acting: bool, shown: int
) -> None:
    it = table()
    it.register(told(1, acting=acting), 0)
    assert perm(it) == shown
    it.register(told(2, topics=configs("A", "Z"), acting=acting), 0)
    assert set(it.topics.queues) == {"A", "B"}


def test_a_topic_changes_when_the_data_version_does() -> None:
    it = table()
    it.register(told(0), 0)
    it.register(told(0, topics=configs("A", "B", perm=4)), 1)
    assert perm(it) == 6
    it.register(told(0, topics=configs("A", "B", perm=4), counter=2), 2)
    assert perm(it) == 4


def test_a_topic_that_is_missing_here_comes_back_at_the_same_version() -> None:
    it = table()
    it.register(told(0), 0)
    it.delete_topic("A")
    it.register(told(0), 1)
    assert set(it.topics.queues) == {"A", "B"}


def test_topics_that_a_registration_does_not_name_stay_unless_told_otherwise() -> None:
    it = table()
    it.register(told(0), 0)
    it.register(told(0, topics=configs("A", "C"), counter=2), 1)
    assert set(it.topics.queues) == {"A", "B", "C"}
    it = table(delete_topic_with_broker_registration=True)
    it.register(told(0), 0)
    it.register(told(0, topics=configs("A", "C"), counter=2), 1)
    assert set(it.topics.queues) == {"A", "C"}
    it.register(told(0, topics=configs("D", "E"), counter=3, is_part=True), 2)
    assert set(it.topics.queues) == {"A", "C", "D", "E"}, "a part does not name all topics"


def test_mappings_of_static_topics_are_in_the_route() -> None:
    it = table()
    mapping = TopicQueueMappingInfo(topic="A", bname="b", total_queues=8)
    changes: list[object] = []
    it.register(told(0), 0)
    it.notify_changes(changes.append)
    it.register(told(0, mappings={"A": mapping}, counter=2), 1)
    assert changes == [["A"]]
    route = it.route("A")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"b": mapping}
    it.register(told(0, mappings={"A": mapping}, counter=3), 2)
    assert changes == [["A"]]


def test_filter_servers_are_in_the_route_until_they_are_withdrawn() -> None:
    it = table()
    it.register(told(0, filter_servers=["f:1"]), 0)
    it.register(told(0, filter_servers=None), 1)
    route = it.route("A")
    assert route is not None
    assert route.filter_server_table == {"10.0.0.0:10911": ["f:1"]}
    it.register(told(0, filter_servers=[]), 2)
    route = it.route("A")
    assert route is not None
    assert route.filter_server_table == {}


def test_a_topic_whose_groups_are_all_unknown_has_no_route() -> None:
    it = table()
    it.topics.put("A", QueueData("ghost"))
    assert it.route("A") is None


# Silence and leaving ------------------------------------------------------------------------------


def test_a_broker_is_gone_after_its_own_time_of_silence() -> None:
    it = table()
    it.register(told(0, timeout_ms=1_000), 0)
    it.register(told(1), 0)
    assert it.expire(1_000) == []
    it.heartbeat("c", "10.0.0.0:10911", 500)
    it.heartbeat("c", "stranger", 500)
    assert it.expire(1_500) == []
    assert [live.addr for live in it.expire(1_501)] == ["10.0.0.0:10911"]
    assert addrs(it) == {1: "10.0.0.1:10911"}
    assert it.expire(HEARTBEAT_TIMEOUT_MS) == []
    assert len(it.expire(HEARTBEAT_TIMEOUT_MS + 1)) == 1
    assert it.brokers.groups == {}
    assert it.brokers.clusters == {}
    assert it.topics.queues == {}


def test_a_heartbeat_cannot_bring_a_registration_back() -> None:
    it = table()
    it.heartbeat("c", "10.0.0.0:10911", 0)
    assert it.query_version("c", "10.0.0.0:10911", DataVersion(), 0) == (True, None)
    assert it.brokers.live == {}


def test_asking_for_the_version_is_a_heartbeat() -> None:
    it = table()
    it.register(told(0, timeout_ms=1_000), 0)
    known = DataVersion(0, 1, 1)
    assert it.query_version("c", "10.0.0.0:10911", known, 900) == (False, known)
    assert it.query_version("c", "10.0.0.0:10911", DataVersion(), 950) == (True, known)
    assert it.expire(1_950) == []


def test_closing_the_connection_takes_its_brokers_out() -> None:
    it = table()
    it.register(told(0, session_id=7), 0)
    it.register(told(0, name="b2", addr="z:1", session_id=7), 0)
    it.register(told(0, name="b3", addr="y:1", session_id=8), 0)
    it.session_closed(7)
    assert set(it.brokers.groups) == {"b3"}


def test_the_end_of_an_old_connection_does_not_hurt_a_broker_that_has_a_new_one() -> None:
    it = table()
    it.register(told(0, session_id=7), 0)
    it.register(told(0, session_id=8), 1)
    it.session_closed(7)
    assert addrs(it) == {0: "10.0.0.0:10911"}


def test_a_farewell_over_an_old_connection_is_late() -> None:
    """rocketmq#11043: of the process before, which had the same address."""
    it = table()
    it.register(told(0, session_id=7), 0)
    for session_id in (8, 8):
        it.register(told(0, session_id=session_id), 1)
    it.leaves("c", "b", "10.0.0.0:10911", 7)
    assert addrs(it) == {0: "10.0.0.0:10911"}
    it.leaves("c", "b", "10.0.0.0:10911", 8)
    assert addrs(it) == {}
    it.register(told(0, session_id=9), 2)
    it.leaves("c", "b", "10.0.0.0:10911", 33)  # a tool's
    assert addrs(it) == {}
    it.leaves("c", "b", "10.0.0.0:10911", 9)


def test_leaving_is_matched_by_address_and_needs_to_be_known() -> None:
    it = table()
    changes: list[object] = []
    it.register(told(0, "x"), 0)
    it.register(told(0, "y"), 1)
    it.notify_changes(changes.append)
    it.unregister("c", "b", "x")  # its id went to y (rocketmq#5374)
    it.unregister("c", "nobody", "x")
    assert addrs(it) == {0: "y"}
    assert changes == []
    it.unregister("c", "b", "y")
    assert changes == [None]


def test_a_group_of_acting_replicas_becomes_read_only_when_its_master_leaves() -> None:
    it = table()
    it.register(told(0, acting=True), 0)
    it.register(told(1, acting=True), 0)
    it.unregister("c", "b", "10.0.0.0:10911")
    assert perm(it) == 4
    it.register(told(0, acting=True), 1)
    assert perm(it) == 6


def test_other_groups_keep_their_permissions_without_a_master() -> None:
    it = table()
    it.register(told(0), 0)
    it.register(told(1), 0)
    it.unregister("c", "b", "10.0.0.0:10911")
    assert perm(it) == 6


def test_the_smallest_replica_is_shown_as_master_where_that_is_supported() -> None:
    it = table(support_acting_master=True)
    it.register(told(0, acting=True), 0)
    it.register(told(1, acting=True), 0)
    it.unregister("c", "b", "10.0.0.0:10911")
    route = it.route("A")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert addrs(it) == {1: "10.0.0.1:10911"}


def test_changes_of_the_smallest_id_are_noted_where_asked_for() -> None:
    it = table(notify_min_broker_id_changed=True)
    it.register(told(1, acting=True), 0)
    assert it.pop_notices() == []
    it.register(told(0, acting=True, ha_addr="ha"), 0)
    (notice,) = it.pop_notices()
    assert (notice.to, notice.min_id, notice.ha_addr) == (("10.0.0.1:10911",), 0, "ha")
    it.unregister("c", "b", "10.0.0.0:10911")
    (notice,) = it.pop_notices()
    assert (notice.min_id, notice.offline_addr) == (1, "10.0.0.0:10911")
    it.register(told(2, acting=True), 0)
    it.unregister("c", "b", "10.0.0.2:10911")
    assert it.pop_notices() == []


def test_nothing_is_noted_by_default() -> None:
    it = table()
    it.register(told(1, acting=True), 0)
    it.register(told(0, acting=True), 0)
    assert it.notices == []


# Administration -----------------------------------------------------------------------------------


def test_write_permission_by_hand_lasts_until_a_new_version() -> None:
    it = table()
    it.register(told(0), 0)
    assert it.wipe_write("b") == 2
    assert perm(it) == 4
    it.register(told(0), 1)
    assert perm(it) == 4
    assert it.add_write("b") == 2
    assert perm(it) == 6
    assert it.wipe_write("nobody") == 0
    it.wipe_write("b")
    it.register(told(0, counter=2), 2)
    assert perm(it) == 6


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    it = table()
    it.register(told(0), 0)
    it.register(told(0, name="b2", addr="z:1", cluster="d"), 0)
    it.delete_topic("A", "d")
    assert set(it.topics.queues["A"]) == {"b"}
    it.delete_topic("A", "none")
    assert set(it.topics.queues["A"]) == {"b"}
    it.delete_topic("A")
    assert "A" not in it.topics.queues


def test_a_topic_is_registered_by_hand_on_known_groups() -> None:
    it = table()
    it.register(told(0), 0)
    it.register_topic("N", [QueueData("b", 2, 2, 6), QueueData("ghost", 2, 2, 6)])
    assert set(it.topics.queues["N"]) == {"b"}
    it.register_topic("N", [QueueData("b", 3, 3, 6)])
    assert it.topics.queues["N"]["b"].read_queue_nums == 3
    it.register_topic("M", [QueueData("ghost")])
    assert "M" not in it.topics.queues


# Bounds -----------------------------------------------------------------------------------


def test_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTE_TOPICS_MAX", 2)
    it = table()
    it.register(told(0), 0)
    it.register(told(0), 1)
    with pytest.raises(Refused, match="more than 2 topics"):
        it.register(told(0, topics=configs("A", "C"), counter=2), 2)
    with pytest.raises(Refused, match="more than 2 topics"):
        it.register_topic("C", [QueueData("b")])
    it.register_topic("A", [QueueData("b")])


def test_brokers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTE_BROKERS_MAX", 1)
    it = table()
    it.register(told(0), 0)
    with pytest.raises(Refused, match="more than 1 brokers"):
        it.register(told(1), 0)
    it.register(told(0), 1)


def test_an_epoch_is_forgotten_with_the_connection_that_brought_it() -> None:
    routes = table()
    routes.register(told(epoch=3, session_id=1), 0)
    routes.register(told(addr="9.9.9.9:1", epoch=2**29, session_id=2), 0)
    routes.register(told(epoch=3, session_id=1), 0)
    assert addrs(routes) == {0: "9.9.9.9:1"}
    routes.session_closed(2)
    routes.register(told(epoch=3, session_id=1), 0)
    assert addrs(routes) == {0: "10.0.0.0:10911"}


def test_an_older_master_stays_out_while_the_newer_one_is_connected() -> None:
    routes = table()
    routes.register(told(2, epoch=3, session_id=3), 0)
    routes.register(told(epoch=3, session_id=1), 0)
    routes.unregister("c", "b", "10.0.0.0:10911")
    routes.register(told(addr="10.0.0.9:10911", epoch=2, session_id=2), 0)
    assert 0 not in addrs(routes)


def test_an_epoch_that_cannot_be_is_refused() -> None:
    with pytest.raises(Refused, match="not believed"):
        table().register(told(epoch=limits.EPOCH_MAX + 1), 0)
    table().register(told(epoch=limits.EPOCH_MAX), 0)


def test_a_large_registration_is_taken_in_over_several_steps_while_the_broker_is_there() -> None:
    topics = configs(*(f"T{number}" for number in range(3 * TOPICS_A_STEP)))
    routes = table()
    steps = routes.register_steps(told(topics=topics, session_id=1), 0)
    next(steps)
    assert len(routes.topics.queues) == TOPICS_A_STEP
    routes.session_closed(1)
    assert list(steps) == []
    assert routes.topics.queues == {}
    assert len(list(routes.register_steps(told(topics=topics, session_id=2), 0))) == 2
    assert len(routes.topics.queues) == len(topics)
