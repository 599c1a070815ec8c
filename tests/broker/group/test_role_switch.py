"""One swap of the row, and what follows from it."""

from tests.broker.broker_harness import BrokerHarness, pull, send

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster
from epochmq.broker.group.role_switch import RoleSwitch
from epochmq.broker.serving.group_position import GroupPosition
from epochmq.broker.serving.roles import Role


class Switched(BrokerHarness):
    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.node.move_to(GroupPosition(own_id=3))
        self.switch = RoleSwitch(self.node, self.count)

    def count(self) -> None:
        self.changes += 1

    def lead(self, epoch: int = 4) -> None:
        role = BecomeMaster(epoch, frozenset({2, 3}), 7)
        self.switch.lead(role, self.clock.wall)


def test_a_master_is_0_in_routes_and_versions_carry_its_epoch() -> None:
    """rocketmq#6316: routes go by the highest epoch."""
    harness = Switched()
    harness.lead(epoch=4)
    node = harness.node
    assert (node.serving.role, node.route_id) == (Role.MASTER, 0)
    assert node.topics.version.state_version == 4
    assert (
        node.group_position.epoch,
        node.group_position.members,
        node.group_position.set_epoch,
    ) == (4, {2, 3}, 7)
    node.offsets.reset("G", "T", 0, 1, harness.clock.wall)
    assert node.offsets.version.state_version == 4
    assert harness.changes == 1


def test_a_follower_has_its_own_id_in_routes() -> None:
    harness = Switched()
    harness.lead()
    harness.node.serving.grant_lease(5)
    harness.switch.follow(BecomeFollower(5, 2, "h:1", None, learner=False))
    node = harness.node
    assert (node.serving.role, node.route_id) == (Role.SLAVE, 3)
    assert node.group_position.master_address == "h:1"
    assert node.serving.lease_until_ms == FOREVER
    harness.switch.follow(BecomeFollower(5, 2, "h:1", None, learner=True))
    assert node.serving.role is Role.LEARNER


def test_fenced_it_keeps_its_id_and_forgets_the_rest() -> None:
    harness = Switched()
    harness.lead()
    harness.switch.fence()
    assert harness.node.serving.role is Role.FENCED
    assert (harness.node.group_position.own_id, harness.node.group_position.epoch) == (3, 4)
    assert not harness.node.group_position.members
    changes = harness.changes
    harness.switch.fence()
    assert harness.changes == changes


def test_delayed_messages_wait_until_the_log_before_is_confirmed() -> None:
    """What is not confirmed is not there yet: delivery would go back and repeat."""
    harness = Switched()
    harness.topic("T")
    harness.client().ask(send())
    end = harness.store.pointers.appended
    harness.store.pointers.confirmed = harness.store.pointers.dispatched = 0
    harness.lead()
    harness.switch.earlier_confirmed()
    assert not harness.node.serving.delivers
    harness.store.pointers.confirmed = harness.store.pointers.dispatched = end
    harness.switch.earlier_confirmed()
    assert harness.node.serving.delivers


def test_a_master_knows_the_topics_its_log_knows() -> None:
    harness = Switched()
    harness.topic("T")
    client = harness.client()
    client.ask(send())
    harness.node.topics.delete("T", harness.clock.wall)
    harness.lead()
    assert "T" in harness.node.topics
    assert client.ask(pull()).code == 0


def test_only_a_masters_tables_grow_in_passing() -> None:
    harness = Switched()
    harness.switch.fence()
    assert harness.node.topics.frozen
    assert harness.node.groups.frozen
    harness.lead()
    assert not harness.node.topics.frozen
    assert not harness.node.groups.frozen
