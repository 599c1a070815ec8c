"""Failovers as steps, from reports of controllers and from looks at the cluster."""

from dataclasses import replace

from epochmq.admin.dashboard.failover_steps import FAILOVERS_MAX, FailoverStories
from epochmq.admin.top.cluster_view import BrokerGroupView, ClusterView, ReplicaView
from epochmq.wire.bodies.controller_bodies import FailoverData

MASTER = ReplicaView("b:2", 2, True, True, True)
SLAVE = ReplicaView("b:1", 1, True, True, False)
DEAD = replace(SLAVE, alive=False, in_sync=False)


def report(epoch: int, elected_ago_ms: int, **more: int) -> FailoverData:
    return FailoverData(
        cluster_name="C",
        broker_name="broker-a",
        epoch=epoch,
        master_address="b:2",
        elected_ago_ms=elected_ago_ms,
        **more,
    )


def view(wall_ms: int, *replicas: ReplicaView, epoch: int = 2) -> ClusterView:
    group = BrokerGroupView("broker-a", "b:2", epoch, 3, replicas)
    return ClusterView(wall_ms, "c:1", groups=(group,))


def steps(stories: FailoverStories) -> dict[str, int]:
    found = stories.rows()[-1]["steps"]
    assert isinstance(found, list)
    return {each["step"]: each["wall_ms"] for each in found}


def test_the_steps_of_a_failover_in_their_order() -> None:
    stories = FailoverStories()
    assert not stories.add_view(view(10_000, MASTER, SLAVE, epoch=1))
    assert stories.add_reports([report(2, 5, last_heard_ago_ms=200, detected_ago_ms=10)], 10_500)
    assert steps(stories) == {"last heard": 10_300, "detected": 10_490, "elected": 10_495}
    assert not stories.add_view(view(10_500, MASTER, DEAD))
    assert stories.add_reports([report(2, 505, applied_ago_ms=490)], 11_000)
    assert stories.add_view(view(11_000, replace(MASTER, has_confirmed=True), DEAD))
    assert stories.add_view(view(12_000, replace(MASTER, has_confirmed=True), SLAVE))
    assert list(steps(stories).items()) == [
        ("last heard", 10_300),
        ("detected", 10_490),
        ("elected", 10_495),
        ("role applied", 10_510),
        ("first acknowledgement", 11_000),
        ("set complete", 12_000),
    ]


def test_the_same_report_is_nothing_new() -> None:
    stories = FailoverStories()
    assert stories.add_reports([report(2, 5)], 1_000)
    assert not stories.add_reports([report(2, 1_005)], 2_000)
    assert steps(stories) == {"elected": 995}


def test_what_happened_before_the_first_look_gets_no_time_of_a_look() -> None:
    stories = FailoverStories()
    stories.add_view(view(10_000, MASTER, SLAVE))
    stories.add_reports([report(2, 60_000)], 10_010)
    assert not stories.add_view(view(10_300, replace(MASTER, has_confirmed=True), SLAVE))
    assert steps(stories) == {"elected": -49_990}


def test_an_election_of_another_epoch_is_not_completed() -> None:
    stories = FailoverStories()
    stories.add_view(view(0, MASTER, SLAVE, epoch=1))
    stories.add_reports([report(2, 0)], 1_000)
    assert not stories.add_view(view(2_000, MASTER, SLAVE, epoch=3))


def test_a_dead_master_completes_nothing() -> None:
    stories = FailoverStories()
    stories.add_view(view(0, MASTER, SLAVE, epoch=1))
    stories.add_reports([report(2, 0)], 1_000)
    assert not stories.add_view(view(2_000, replace(MASTER, alive=False), SLAVE))


def test_only_the_latest_are_kept_in_the_order_of_the_elections() -> None:
    stories = FailoverStories()
    many = [report(epoch, 10_000 - epoch) for epoch in range(FAILOVERS_MAX + 20, 0, -1)]
    stories.add_reports(many, 20_000)
    epochs = [row["epoch"] for row in stories.rows()]
    assert epochs == list(range(21, FAILOVERS_MAX + 21))
