"""The nouns of the replicated state."""

from epochmq.controller.controller_state import BrokerGroup, BrokerReplica


def test_a_group_knows_its_replicas_by_address_too() -> None:
    group = BrokerGroup(
        "c", "b", replicas={1: BrokerReplica(1, "h:1"), 2: BrokerReplica(2, "h:2")}, master=2
    )
    assert group.key == ("c", "b")
    assert group.by_addr("h:2") is group.replicas[2] is group.master_replica()
    assert group.by_addr("h:3") is None


def test_a_group_without_a_master() -> None:
    group = BrokerGroup("c", "b")
    assert group.master_replica() is None
    assert not group.elected
    group.epoch = 1
    assert group.elected


def test_groups_do_not_share_their_tables() -> None:
    BrokerGroup("c", "b").replicas[1] = BrokerReplica(1, "h:1")
    assert BrokerGroup("c", "d").replicas == {}
