"""What `top` says happened between two looks."""

from dataclasses import replace

from epochmq.admin.top.cluster_view import BrokerGroupView, ClusterView, ReplicaView, TopTimeline

A = ReplicaView("a:1", 1, True, True, True, 500, 3)
B = ReplicaView("b:1", 2, True, True, False, 450, 3)
GROUP = BrokerGroupView("broker-a", "a:1", 3, 7, (A, B))
VIEW = ClusterView(1_000, "c:1", ("c:1", "c:2"), (GROUP,))


def said(*views: ClusterView) -> list[str]:
    timeline = TopTimeline()
    for view in views:
        timeline.compare_view(view)
    return [event.text for event in timeline.events]


def test_nothing_changed() -> None:
    assert said(VIEW) == said(VIEW, replace(VIEW, wall_ms=2_000)) == []


def test_a_failover() -> None:
    dead = replace(A, alive=False, in_sync=False, is_master=False)
    group = BrokerGroupView("broker-a", "b:1", 4, 8, (dead, replace(B, is_master=True)))
    assert said(VIEW, replace(VIEW, groups=(group,))) == [
        "broker-a: master a:1 -> b:1, epoch 3 -> 4",
        "broker-a: a:1 died",
        "broker-a: a:1 left the sync-state set",
    ]
    assert said(replace(VIEW, groups=(group,)), VIEW)[1:] == [
        "broker-a: a:1 is back",
        "broker-a: a:1 joined the sync-state set",
    ]


def test_no_master_no_leader_a_new_replica() -> None:
    new = ReplicaView("n:1", 3, True, False, False)
    group = replace(GROUP, master=None, replicas=(A, B, new))
    view = replace(VIEW, controller_leader=None, groups=(group,))
    assert said(VIEW, view) == [
        "controllers: leader c:1 -> none",
        "broker-a: master a:1 -> none, epoch 3 -> 3",
        "broker-a: n:1 is new",
    ]


def test_lag() -> None:
    assert [GROUP.lag_bytes(A), GROUP.lag_bytes(B)] == [0, 50]
    assert GROUP.lag_bytes(replace(B, max_offset=None)) is None
    assert GROUP.lag_bytes(replace(B, max_offset=900)) == 0
    assert replace(GROUP, master=None).lag_bytes(B) is None


def test_somebody_stands_in_without_controllers() -> None:
    master, slave = (replace(each, epoch=None) for each in (A, B))
    whole = BrokerGroupView("broker-a", "a:1", 0, 0, (master, slave))
    acting = BrokerGroupView("broker-a", None, 0, 0, (replace(slave, acting=True),))
    before, during = (replace(VIEW, groups=(group,)) for group in (whole, acting))
    assert said(before, during) == [
        "broker-a: master a:1 -> none",
        "broker-a: b:1 is acting master",
    ]
    assert said(during, before) == [
        "broker-a: master none -> a:1",
        "broker-a: b:1 is not acting master any more",
        "broker-a: a:1 is new",
    ]


def test_nobody_joins_or_leaves_a_set_that_is_not_there() -> None:
    """A group whose controllers came to be known, or went away."""
    alone = replace(A, in_sync=None)
    before, after = (replace(VIEW, groups=(replace(GROUP, replicas=(one,)),)) for one in (alone, A))
    assert said(before, after) == said(after, before) == []
