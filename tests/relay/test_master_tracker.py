from hypothesis import given
from hypothesis import strategies as st

from epochmq.base import limits
from epochmq.relay.master_tracker import MasterState, MasterTracker

MASTER = MasterState(writable=True, acting=False, epoch=3)
REPLICA = MasterState(writable=False, acting=False, epoch=3)
ACTING = MasterState(writable=False, acting=True, epoch=0)


def test_the_writable_broker_is_chosen() -> None:
    tracker = MasterTracker()
    assert not tracker.told("a", REPLICA)
    assert tracker.master is None
    assert tracker.told("b", MASTER)
    assert (tracker.master, tracker.epoch) == ("b", 3)
    assert not tracker.told("b", MASTER)
    assert tracker.changes == 1


def test_a_higher_epoch_replaces_a_master_that_is_silent() -> None:
    tracker = MasterTracker()
    tracker.told("a", MASTER)
    assert tracker.told("b", MasterState(writable=True, acting=False, epoch=4))
    assert tracker.master == "b"
    assert not tracker.told("a", MASTER), "a deposed master that still believes it is one"
    assert tracker.master == "b"


def test_a_lost_or_deposed_master_is_left() -> None:
    tracker = MasterTracker()
    tracker.told("a", MASTER)
    assert tracker.lost("a")
    assert tracker.master is None
    assert tracker.epoch == 0
    tracker.told("a", MASTER)
    assert tracker.told("a", REPLICA)
    assert tracker.master is None


def test_an_acting_master_serves_only_without_a_master() -> None:
    tracker = MasterTracker()
    assert tracker.told("b", ACTING)
    assert tracker.told("a", MasterState(writable=True, acting=False, epoch=0))
    assert tracker.master == "a"
    assert tracker.lost("a")
    assert tracker.master == "b"


def test_of_two_equal_masters_the_present_one_stays() -> None:
    tracker = MasterTracker()
    tracker.told("b", MASTER)
    assert not tracker.told("a", MASTER)
    assert not tracker.told("c", MASTER)
    assert tracker.master == "b"


def test_an_epoch_that_no_broker_reaches_is_not_believed() -> None:
    tracker = MasterTracker()
    tracker.told("a", MASTER)
    for epoch in (limits.EPOCH_MAX + 1, -1):
        assert not tracker.told("x", MasterState(writable=True, acting=False, epoch=epoch))
    assert tracker.master == "a"


states = st.builds(MasterState, st.booleans(), st.booleans(), st.integers(0, 3))
events = st.lists(st.tuples(st.sampled_from("abc"), st.none() | states))


@given(events)
def test_the_master_is_always_one_that_serves_with_the_highest_epoch(
    told: list[tuple[str, MasterState | None]],
) -> None:
    tracker = MasterTracker()
    last: dict[str, MasterState] = {}
    for address, state in told:
        before = tracker.master
        if state is None:
            changed = tracker.lost(address)
            last.pop(address, None)
        else:
            changed = tracker.told(address, state)
            last[address] = state
        assert changed == (before != tracker.master)
        writable = {at: one.epoch for at, one in last.items() if one.writable}
        acting = {at: one.epoch for at, one in last.items() if one.acting}
        serving = writable or acting
        if not serving:
            assert tracker.master is None
        else:
            assert tracker.master is not None
            assert serving[tracker.master] == max(serving.values())
