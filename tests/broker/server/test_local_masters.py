"""Which of the brokers in one process an acting master may hand its messages to."""

import dataclasses

from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.server.container_service import ContainerNeighbours
from epochmq.broker.serving.roles import Role


def node(name: str, cluster: str = "c") -> BrokerContext:
    made = BrokerHarness().node
    made.options = dataclasses.replace(made.options, broker_name=name, broker_cluster_name=cluster)
    return made


def test_serving_masters_of_other_groups_of_the_cluster() -> None:
    own, same_group, elsewhere, other, more = (
        node("a"),
        node("a"),
        node("b", "d"),
        node("b"),
        node("e"),
    )
    become(own, Role.ACTING_MASTER)
    around = ContainerNeighbours(own, lambda: [own, same_group, elsewhere, other, more])

    def names() -> list[str]:
        return [near.name for near in around.masters()]

    assert names() == ["b", "e"]
    for role in (Role.SLAVE, Role.ACTING_MASTER, Role.PRE_ONLINE, Role.FENCED):
        become(more, role)
        assert names() == ["b"]
    other.store.fence("broken")
    assert names() == []
