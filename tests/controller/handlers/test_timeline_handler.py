"""What the leader tells of its elections."""

from tests.controller.world import World, brokers

from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import TimelineData
from epochmq.wire.codes import RequestCode


def test_the_first_election_is_told_with_its_age() -> None:
    world = World()
    brokers(world, 2)
    world.run(2_000)
    answer = world.ask(RequestCode.CONTROLLER_GET_TIMELINE)
    (failover,) = decode_body(TimelineData, answer.body).failovers
    assert failover.epoch == world.group.epoch
    assert failover.master_broker_id == world.group.master
    assert failover.elected_ago_ms >= 2_000
    assert failover.last_heard_ago_ms == -1
