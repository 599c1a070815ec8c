import pytest
from tests.nameserver.world import table, told

from epochmq.model.topic import BrokerData, QueueData, TopicRouteData
from epochmq.nameserver.registered_brokers import (
    RegisteredGroup,
    notice_of_arrival,
    notice_of_leave,
    stand_in,
)


def route(ids: dict[int, str], acting: bool = True, perm: int = 4) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[QueueData("b", 4, 4, perm)],
        broker_datas=[BrokerData("c", "b", ids, acting)],
    )


@pytest.mark.parametrize(
    ("ids", "acting", "perm", "topic", "shown"),
    [
        ({1: "s", 2: "t"}, True, 4, "A", {0: "s", 2: "t"}),
        ({2: "t", 1: "s"}, True, 5, "A", {0: "s", 2: "t"}),
        ({1: "s"}, False, 4, "A", {1: "s"}),
        ({1: "s"}, True, 6, "A", {1: "s"}),
        ({0: "m", 1: "s"}, True, 4, "A", {0: "m", 1: "s"}),
        ({}, True, 4, "A", {}),
        ({1: "s"}, True, 4, "rmq_sys_SYNC_BROKER_MEMBER_b", {1: "s"}),
    ],
)
def test_which_broker_a_route_shows_as_master(
    ids: dict[int, str], acting: bool, perm: int, topic: str, shown: dict[int, str]
) -> None:
    data = route(ids, acting, perm)
    stand_in(topic, data)
    assert data.broker_datas[0].broker_addrs == shown


def test_an_arrival_is_told_to_the_others_or_to_the_only_one() -> None:
    notice = notice_of_arrival(RegisteredGroup("c", "b", {0: "m", 1: "s", 2: "t"}), 0, "ha")
    assert (notice.to, notice.min_id, notice.min_addr) == (("s", "t"), 0, "m")
    assert (notice.ha_addr, notice.offline_addr) == ("ha", None)
    assert notice_of_arrival(RegisteredGroup("c", "b", {1: "s"}), 1, "ha").to == ("s",)


def test_a_leave_is_sent_to_remaining_slaves_that_may_act() -> None:
    group = RegisteredGroup("c", "b", {1: "s", 2: "t"}, acting=True)
    notice = notice_of_leave(group, "m")
    assert notice is not None
    assert (notice.to, notice.min_id, notice.min_addr) == (("s", "t"), 1, "s")
    assert (notice.ha_addr, notice.offline_addr) == (None, "m")
    assert notice_of_leave(RegisteredGroup("c", "b", {1: "s"}), "m") is None
    assert notice_of_leave(RegisteredGroup("c", "b", acting=True), "m") is None


def test_a_group_whose_members_disagree_shows_no_stand_in() -> None:
    """H21: upstream believes whoever registered last."""
    routes = table(support_acting_master=True)
    routes.register(told(0, acting=True), 0)
    routes.register(told(1, acting=False), 0)
    assert not routes.brokers.groups["b"].acting
    routes.register(told(0, acting=True), 1)
    assert not routes.brokers.groups["b"].acting
    routes.unregister("c", "b", "10.0.0.1:10911")
    assert routes.brokers.groups["b"].acting
    routes.register(told(1, acting=True), 2)
    assert routes.brokers.groups["b"].acting
