"""What controllers measure: Raft on all of them, living brokers on the leader only."""

from tests.controller.world import KEY, World, brokers, live_on
from tests.observe.test_families import samples_of

from epochmq.controller.server.controller_node import ControllerNode
from epochmq.observe.controller_metrics import ControllerMetrics
from epochmq.observe.families import write_families

LABELS = {"address": "n0:1", "group": "g", "peer_id": "n0"}
GROUP = {"cluster": KEY[0], "broker_set": KEY[1]}


class Scraped:
    """The samples of a controller."""

    def __init__(self, node: ControllerNode) -> None:
        metrics = ControllerMetrics(node, LABELS)
        families = [family for family in metrics.families() if family is not None]
        common = metrics.common_labels()
        self._samples = samples_of(b"".join(write_families(families, common, 1_000)))

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        return self._samples.get((name, tuple(sorted({**LABELS, **(labels or {})}.items()))))


def test_a_leader_and_its_followers() -> None:
    world = World(3)
    brokers(world)
    world.run(100)
    for node in world.nodes.values():
        found, leads = Scraped(node), node is world.leader
        assert found.value("role") == (3 if leads else 2)
        assert found.value("epochmq_raft_has_leader") == 1
        assert found.value("epochmq_raft_voters") == 3
        assert ControllerMetrics(node, LABELS).checks()["/-/ready"]().ok
        assert found.value("epochmq_raft_term") == node.raft.core.term
        usage = found.value("dledger_disk_usage_bytes")
        assert usage is not None
        assert usage > 0
        assert found.value("active_broker_num", GROUP) == (3 if leads else None)
        assert found.value("epochmq_group_has_master", GROUP) == 1
        assert found.value("epochmq_group_master_epoch", GROUP) == 1
        assert found.value("epochmq_group_sync_state_set_size", GROUP) == 3
        assert found.value("epochmq_group_replicas", GROUP) == 3
        elected = found.value("election_total", {"election_result": "new_master_elected"})
        assert elected == (1 if leads else None)
        registered = {
            "request_type": "controller_register_broker", "request_handle_status": "success"
        }  # fmt: skip
        assert found.value("request_total", registered) == (3 if leads else None)
        name = {"request_type": "controller_register_broker"}
        assert found.value("request_latency_microseconds_count", name) == (3 if leads else None)
        last = {**name, "le": "+Inf"}
        assert found.value("request_latency_microseconds_bucket", last) == (3 if leads else None)


def test_an_election_has_a_duration_when_the_master_reported_its_epoch() -> None:
    world = World(3)
    found = brokers(world)
    live_on(world, found, 1_000)
    live_on(world, found[1:], 15_000)  # the master is silent
    group = world.group
    assert group.epoch == 2
    took = Scraped(world.leader).value("epochmq_last_election_milliseconds", GROUP)
    reported = [f for f in world.leader.core.context.timeline.failovers if f.applied_ms >= 0]
    assert took == reported[-1].applied_ms - reported[-1].detected_ms
    missed = Scraped(world.leader).value("epochmq_group_without_master_milliseconds_total", GROUP)
    assert missed == sum(each.applied_ms - each.detected_ms for each in reported)


def test_changes_of_leaders_are_counted_by_every_member() -> None:
    world = World(3)
    world.run(3_000)
    first = world.leader
    assert {Scraped(node).value("epochmq_raft_leader_changes_total")
            for node in world.nodes.values()} == {1}  # fmt: skip
    (name,) = (name for name, node in world.nodes.items() if node is first)
    world.stop(name)
    world.run(10_000)
    assert world.leader is not first
    found = {Scraped(node).value("epochmq_raft_leader_changes_total")
             for node in world.nodes.values() if node is not first}  # fmt: skip
    assert found == {2}


def test_without_a_leader() -> None:
    world = World(3)
    world.run(3_000)
    names = list(world.nodes)
    for name in names[:2]:
        world.stop(name)
    world.run(10_000)
    found = Scraped(world.nodes[names[2]])
    assert found.value("role") in (1, 2)
    assert found.value("epochmq_raft_has_leader") == 0
    checks = ControllerMetrics(world.nodes[names[2]], LABELS).checks()
    assert checks["/-/healthy"]().ok
    assert not checks["/-/ready"]().ok
