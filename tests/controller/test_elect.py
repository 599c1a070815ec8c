"""The choice of a master, against a slow model and case by case."""

import dataclasses
from functools import cmp_to_key
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.safeguards import SAFE
from epochmq.controller.controller_state import BrokerGroup, BrokerReplica
from epochmq.controller.elect import By, ElectedMaster, LogReport, best, elect, rank

REPORTS = st.builds(
    LogReport,
    st.integers(-1, 4),
    st.one_of(st.integers(-1, 5), st.integers(0, 2**62)),
    st.integers(0, 2),
)


def group(members: list[int], **fields: object) -> BrokerGroup:
    """Four replicas, elected before."""
    given = {
        "replicas": {n: BrokerReplica(n, f"h{n}:1") for n in (1, 2, 3, 4)},
        "members": members,
        "set_epoch": 5,
        "epoch": 5,
        "master": members[0] if members else None,
    }
    return BrokerGroup("c", "b", **(given | fields))  # type: ignore[arg-type]


def live(**offsets: int) -> dict[int, LogReport]:
    """`_1=100`: replica 1 lives and has 100 bytes of epoch 5."""
    return {int(name[1:]): LogReport(5, offset) for name, offset in offsets.items()}


def slow_compare(a: tuple[int, LogReport], b: tuple[int, LogReport]) -> int:
    """Written out, without differences that could overflow."""
    for x, y in ((b[1].epoch, a[1].epoch), (b[1].offset, a[1].offset)):
        if x != y:
            return 1 if x > y else -1
    for x, y in ((a[1].priority, b[1].priority), (a[0], b[0])):
        if x != y:
            return 1 if x > y else -1
    return 0


@given(st.dictionaries(st.integers(1, 9), REPORTS, min_size=1))
def test_the_best_is_the_first_of_a_total_order(reports: dict[int, LogReport]) -> None:
    ordered = sorted(reports.items(), key=cmp_to_key(slow_compare))
    assert best(reports, reports) == ordered[0][0]
    ranks = [rank(number, report) for number, report in reports.items()]
    assert len(set(ranks)) == len(ranks), "no two replicas are equal (S18)"


def test_a_gap_of_more_than_two_gib_is_no_overflow() -> None:
    """rocketmq#10578"""
    choice = elect(group([1, 2]), live(_1=1, _2=3 << 30))
    assert choice == ElectedMaster(2, (1, 2))


def test_the_order_in_which_replicas_are_known_changes_nothing() -> None:
    reports = {1: LogReport(1, 5), 2: LogReport(2, 1), 3: LogReport(2, 1), 4: LogReport(1, 9)}
    chosen = set()
    for order in permutations(reports):
        it = group([1, 2, 3, 4], replicas={n: BrokerReplica(n, "h") for n in order})
        chosen.add(elect(it, {n: reports[n] for n in order}))
    assert chosen == {ElectedMaster(2, (1, 2, 3, 4))}


def test_members_that_live_stay_in_the_set() -> None:
    assert elect(group([1, 2, 3]), live(_2=5, _3=7, _4=99)) == ElectedMaster(3, (2, 3))


def test_masters_of_5_0_begin_alone() -> None:
    assert elect(group([1, 2, 3], by_address=True), live(_2=5, _3=7)) == ElectedMaster(3, (3,))


def test_nobody_outside_the_set_without_consent() -> None:
    assert elect(group([1, 2]), live(_3=9, _4=8)) is None
    assert elect(group([1, 2]), live(_3=9, _4=8), By(unclean=True)) == ElectedMaster(3, (3,), True)
    assert elect(group([1, 2]), live(_2=1, _3=9), By(unclean=True)) == ElectedMaster(2, (2,))


def test_the_wanted_one_or_nobody() -> None:
    assert elect(group([1, 2, 3]), live(_1=9, _2=9, _3=1), By(3)) == ElectedMaster(3, (1, 2, 3))
    assert elect(group([1, 2]), live(_1=9, _3=9), By(3)) is None
    assert elect(group([1, 2]), live(_1=9, _3=9), By(3, unclean=True)) == ElectedMaster(
        3, (3,), True
    )


def test_a_candidate_when_no_member_lives() -> None:
    it = group([1], candidates=[2])
    assert elect(it, live(_2=5, _3=9)) == ElectedMaster(2, (2,))
    assert elect(it, live(_1=1, _2=5)) == ElectedMaster(1, (1,))


def test_a_learner_is_never_chosen() -> None:
    it = group([1, 2])
    it.replicas[2].learner = True
    assert elect(it, live(_2=5)) is None
    assert elect(it, live(_2=5), By(unclean=True)) is None
    fresh = group([], epoch=0)
    fresh.replicas[1].learner = True
    assert elect(fresh, live(_1=5, _2=0)) == ElectedMaster(2, (2,))


def test_a_replica_that_lost_its_tail_waits_for_the_others() -> None:
    it = group([1, 2])
    it.replicas[2].unclean = True
    assert elect(it, live(_2=5)) is None
    assert elect(it, live(_1=3, _2=5)) == ElectedMaster(1, (1,))
    off = dataclasses.replace(SAFE, unclean_not_eligible=False)
    assert elect(it, live(_2=5), safe=off) == ElectedMaster(2, (2,))


def test_when_all_members_lost_their_tails_and_are_back_the_longest_log_wins() -> None:
    """S10: a shorter one must not cut a longer one."""
    it = group([1, 2])
    it.replicas[1].unclean = it.replicas[2].unclean = True
    assert elect(it, live(_2=5)) is None
    assert elect(it, live(_1=3, _2=5)) == ElectedMaster(2, (2,), True)
    assert elect(it, live(_1=3, _2=5, _3=7)) == ElectedMaster(3, (3,), True)


def test_a_log_that_was_not_told_yet_is_waited_for() -> None:
    lost = group([1, 2])
    for number in (1, 2):
        lost.replicas[number].unclean = True
    assert elect(lost, {1: LogReport(5, 100), 2: LogReport()}) is None
    assert elect(lost, {1: LogReport(5, 100), 2: LogReport(5, 200)}) == ElectedMaster(
        2, (2,), unclean=True
    )


def test_a_replica_that_left_a_set_below_the_minimum_is_waited_for() -> None:
    """S10: the set shrank to 2, which lost its tail; 1 is down and holds everything."""
    it = group([2])
    it.replicas[2].unclean = True
    it.candidates = [1]
    assert elect(it, live(_2=5)) is None
    assert elect(it, live(_2=5), By(unclean=True)) == ElectedMaster(2, (2,), True)
    assert elect(it, live(_1=9, _2=5)) == ElectedMaster(1, (1,))


def test_a_candidate_is_waited_for_before_anybody_unclean_is_taken() -> None:
    """S10: who left a set below its floor holds everything that was acknowledged."""
    it = group([1], candidates=[2])
    it.replicas[1].unclean = True
    assert elect(it, live(_1=3)) is None
    assert elect(it, live(_1=3, _2=2)) == ElectedMaster(2, (2,))
    it.candidates = []
    assert elect(it, live(_1=3)) == ElectedMaster(1, (1,), True)


def test_the_first_election_takes_the_longest_log() -> None:
    fresh = group([], epoch=0)
    assert elect(fresh, live(_1=3, _4=9)) == ElectedMaster(4, (4,))
    assert elect(fresh, live(_1=3, _4=9), By(1)) == ElectedMaster(1, (1,))
    assert elect(fresh, {}) is None


def test_what_counts_as_data() -> None:
    assert not LogReport().has_data
    assert not LogReport(0, 0).has_data
    assert LogReport(1, 0).has_data
    assert LogReport(0, 1).has_data
