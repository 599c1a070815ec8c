"""One swap of the row, and what follows from it."""

from tests.broker.desk import Desk, pull, send

from epochmq.broker.membership.membership_effects import BecomeFollower, BecomeMaster
from epochmq.broker.membership.switch import RoleSwitch
from epochmq.broker.place import FOREVER
from epochmq.broker.roles import Role


class Switched(Desk):
    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.node.place.own_id = 3
        self.switch = RoleSwitch(self.node, self.count)

    def count(self) -> None:
        self.changes += 1

    def lead(self, epoch: int = 4) -> None:
        role = BecomeMaster(epoch, frozenset({2, 3}), 7)
        self.switch.lead(role, self.clock.wall)


def test_a_master_is_0_in_routes_and_versions_carry_its_epoch() -> None:
    """rocketmq#6316: routes go by the highest epoch."""
    desk = Switched()
    desk.lead(epoch=4)
    node = desk.node
    assert (node.role, node.route_id) == (Role.MASTER, 0)
    assert node.topics.version.state_version == 4
    assert (node.place.epoch, node.place.members, node.place.set_epoch) == (4, {2, 3}, 7)
    node.offsets.reset("G", "T", 0, 1, desk.clock.wall)
    assert node.offsets.version.state_version == 4
    assert desk.changes == 1


def test_a_follower_has_its_own_id_in_routes() -> None:
    desk = Switched()
    desk.lead()
    desk.node.lease_until_ms = 5
    desk.switch.follow(BecomeFollower(5, 2, "h:1", None, learner=False))
    node = desk.node
    assert (node.role, node.route_id) == (Role.SLAVE, 3)
    assert node.place.master_address == "h:1"
    assert node.lease_until_ms == FOREVER
    desk.switch.follow(BecomeFollower(5, 2, "h:1", None, learner=True))
    assert node.role is Role.LEARNER


def test_fenced_it_keeps_its_id_and_forgets_the_rest() -> None:
    desk = Switched()
    desk.lead()
    desk.switch.fence()
    assert desk.node.role is Role.FENCED
    assert (desk.node.place.own_id, desk.node.place.epoch) == (3, 4)
    assert not desk.node.place.members
    changes = desk.changes
    desk.switch.fence()
    assert desk.changes == changes


def test_delayed_messages_wait_until_the_log_before_is_confirmed() -> None:
    """What is not confirmed is not there yet: delivery would go back and repeat."""
    desk = Switched()
    desk.topic("T")
    desk.client().ask(send())
    end = desk.store.pointers.appended
    desk.store.pointers.confirmed = desk.store.pointers.dispatched = 0
    desk.lead()
    desk.switch.settled()
    assert not desk.node.delivers
    desk.store.pointers.confirmed = desk.store.pointers.dispatched = end
    desk.switch.settled()
    assert desk.node.delivers


def test_a_master_knows_the_topics_its_log_knows() -> None:
    desk = Switched()
    desk.topic("T")
    client = desk.client()
    client.ask(send())
    desk.node.topics.delete("T", desk.clock.wall)
    desk.lead()
    assert "T" in desk.node.topics
    assert client.ask(pull()).code == 0


def test_only_a_masters_tables_grow_in_passing() -> None:
    desk = Switched()
    desk.switch.fence()
    assert desk.node.topics.frozen
    assert desk.node.groups.frozen
    desk.lead()
    assert not desk.node.topics.frozen
    assert not desk.node.groups.frozen
