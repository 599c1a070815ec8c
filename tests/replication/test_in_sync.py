"""The sync-state set: told stories first, then any history beside a controller that is slow."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiers import examples

from epochmq.base.errors import OurBug
from epochmq.base.safeguards import SAFE
from epochmq.replication.in_sync import FollowerState, InSync
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import SetProposal

OPTIONS = ReplicationOptions(
    not_caught_up_ms=1000, lost_link_grace_ms=100, first_link_grace_ms=300, proposal_retry_ms=50
)


def in_sync(*members: int, options: ReplicationOptions = OPTIONS, **more: object) -> InSync:
    """Master 1 in epoch 5, which began at offset 100; all of these hold 100 and are linked."""
    known = frozenset(members or {1})
    settings: dict[str, object] = {"confirmed": 100, "now": 0, **more}
    made = InSync(1, 5, 100, known, 7, options=options, **settings)  # type: ignore[arg-type]
    for member in sorted(known - {1}):
        join(made, member, 100, 100)
    return made


def join(
    made: InSync, member: int, ack: int, end: int, now: int = 0, learner: bool = False
) -> None:
    made.linked(member, 10 + member, learner, now)
    made.acked(member, ack, end, now)


def ask(made: InSync, end: int, now: int = 0) -> SetProposal:
    proposal = made.next_proposal(end, now)
    assert proposal is not None
    return proposal


def members(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_a_master_is_in_its_set() -> None:
    with pytest.raises(OurBug):
        InSync(1, 5, 0, members(2), 1, 0, 0, OPTIONS)


def test_alone_everything_is_confirmed() -> None:
    made = in_sync()
    assert made.confirm(250, 0)
    assert made.confirmed == 250


def test_confirmed_is_what_all_members_hold() -> None:
    made = in_sync(1, 2, 3)
    made.appended(100, 200, 0)
    made.appended(200, 300, 0)
    made.acked(2, 300, 300, 1)
    assert not made.confirm(300, 1)
    made.acked(3, 200, 300, 1)
    assert made.confirm(300, 1)
    assert made.confirmed == 200
    assert not made.confirm(300, 1)


def test_confirmed_is_the_end_of_a_record() -> None:
    """Of a follower that holds half a record and is elected, that half is cut off."""
    made = in_sync(1, 2, confirmed=40)
    made.acked(2, 70, 100, 0)
    assert not made.confirm(100, 0)  # who knows where the records of older epochs end
    made.appended(100, 200, 0)
    made.appended(200, 300, 0)
    for ack, confirmed in ((120, 100), (200, 200), (299, 200), (300, 300)):
        made.acked(2, ack, 300, 1)
        made.confirm(300, 1)
        assert made.confirmed == confirmed


def test_confirmed_does_not_go_back() -> None:
    made = in_sync(1, 2)
    made.acked(2, 300, 300, 1)
    made.confirm(300, 1)
    made.acked(2, 120, 300, 2)
    assert not made.confirm(300, 2)
    assert made.confirmed == 300


def test_a_member_without_a_link_holds_it_where_it_was() -> None:
    """rocketmq#6662: upstream 5.0 left it out, and consumers read what was cut later."""
    made = in_sync(1, 2, 3)
    made.appended(100, 200, 0)
    made.acked(2, 200, 300, 1)
    made.acked(3, 300, 300, 1)
    made.confirm(300, 1)
    made.unlinked(2, 12, 2)
    assert not made.confirm(300, 2)
    made.linked(2, 22, False, 3)  # nor does the new link's silence put it back (rocketmq#6728)
    assert not made.confirm(300, 3)
    assert made.confirmed == 200


def test_an_older_links_end_does_not_remove_the_newer() -> None:
    """S09, rocketmq#9897."""
    made = in_sync(1, 2)
    assert made.linked(2, 50, False, 5) == 12
    made.unlinked(2, 12, 6)
    assert made.replicas[2].link == 50
    made.acked(2, 100, 100, 7)
    assert made.desired(100, 10_000) == members(1, 2)


# Growing -----------------------------------------------------------------------------------------


def test_a_follower_with_all_confirmed_bytes_joins_and_counts_at_once() -> None:
    """S01, rocketmq#5663: the controller may have committed it before we hear of it."""
    made = in_sync()
    join(made, 2, 100, 100)
    proposal = ask(made, 100)
    assert proposal == SetProposal(members(1, 2), 5, 7, 1)
    assert made.effective == members(1, 2)
    assert not made.confirm(200, 1)
    made.acked(2, 200, 200, 1)
    assert made.confirm(200, 1)
    made.set_committed(members(1, 2), 8, 2)
    assert made.committed == made.effective == members(1, 2)


def test_without_the_safeguard_it_does_not_count() -> None:
    made = in_sync(safeguards=replace(SAFE, union_acks_while_set_changes=False))
    join(made, 2, 100, 100)
    ask(made, 100)
    assert made.confirm(200, 1)


@pytest.mark.parametrize(("ack", "learner"), [(99, False), (100, True)])
def test_which_followers_do_not_join(ack: int, learner: bool) -> None:
    """Neither who is behind nor a learner (RIP-44)."""
    made = in_sync()
    join(made, 2, ack, 100, learner=learner)
    assert made.next_proposal(100, 0) is None


def test_nobody_joins_below_the_start_of_the_epoch() -> None:
    made = in_sync(confirmed=40)
    join(made, 2, 60, 100)
    assert made.next_proposal(100, 0) is None


def test_under_load_confirmed_waits_a_little_for_a_joining_follower() -> None:
    made = in_sync()
    join(made, 2, 100, 400)
    made.confirm(400, 0)
    made.replicas[2].sent(400, 0)
    made.acked(2, 400, 600, 5)
    made.appended(600, 600, 5)
    assert made.next_proposal(600, 5) is not None  # confirmed was still 400
    other = in_sync()
    join(other, 2, 100, 400)
    other.confirm(400, 0)
    other.replicas[2].sent(400, 0)
    other.confirm(500, 1)
    other.acked(2, 400, 600, 5)
    assert other.next_proposal(600, 5) is None
    assert not other.confirm(600, 6)
    other.acked(2, 550, 700, 8)
    assert other.next_proposal(700, 8) is not None
    late = in_sync()
    join(late, 2, 100, 400)
    late.confirm(500, 0)
    late.replicas[2].sent(600, 0)
    late.acked(2, 600, 700, 70)
    late.confirm(700, 70)
    assert late.confirm(700, 70) is False
    assert late.replicas[2].hold_until_ms < 0  # 600 >= 500: nothing to wait for


def test_a_hold_ends() -> None:
    made = in_sync()
    join(made, 2, 100, 400)
    made.confirm(500, 0)
    made.replicas[2].sent(400, 2000)
    made.acked(2, 400, 600, 2001)
    assert not made.confirm(600, 2001 + OPTIONS.joining_hold_ms - 1)
    assert made.confirm(600, 2001 + OPTIONS.joining_hold_ms)
    made.replicas[2].sent(650, 2060)
    made.acked(2, 580, 700, 2070)
    assert made.confirm(700, 2070)  # not again so soon


# Shrinking ---------------------------------------------------------------------------------------


def test_a_lost_link_shrinks_the_set_after_a_grace_and_only_once_committed() -> None:
    made = in_sync(1, 2)
    made.unlinked(2, 12, 1000)
    assert made.next_proposal(100, 1099) is None
    proposal = ask(made, 100, 1100)
    assert proposal.members == members(1)
    assert not made.confirm(200, 1101)
    made.set_committed(members(1), 8, 1102)
    assert made.confirm(200, 1102)


def test_a_follower_that_never_connected_gets_longer() -> None:
    made = InSync(1, 5, 100, members(1, 2), 7, 100, 0, OPTIONS)
    assert made.next_proposal(100, 299) is None
    assert ask(made, 100, 300).members == members(1)


def test_a_follower_that_is_behind_too_long_leaves() -> None:
    made = in_sync(1, 2)
    made.appended(100, 200, 5000)  # idle until then: it was caught up
    assert made.desired(200, 6000) == members(1, 2)
    assert made.desired(200, 6001) == members(1)


def test_how_long_ago_a_follower_had_the_whole_log() -> None:
    state = FollowerState(0, 1_000, ack=100)
    assert state.lag_ms(end=100, now=9_000) == 0
    assert state.lag_ms(end=101, now=9_000) == 8_000
    assert state.lag_ms(end=101, now=500) == 0


def test_idle_members_stay() -> None:
    assert in_sync(1, 2).desired(100, 10**9) == members(1, 2)


def test_a_member_that_became_a_learner_leaves() -> None:
    made = in_sync(1, 2)
    made.linked(2, 50, True, 1)
    assert made.desired(100, 1) == members(1)


def test_the_set_does_not_shrink_below_the_minimum() -> None:
    """Rather refuse than be alone in silence."""
    options = replace(OPTIONS, min_in_sync_replicas=2)
    made = in_sync(1, 2, options=options)
    made.unlinked(2, 12, 0)
    assert made.next_proposal(100, 10_000) is None
    assert made.live_count(10_000) == 1
    assert made.live_count(99) == 2
    slow = in_sync(1, 2, 3, options=options)
    slow.acked(2, 150, 200, 0)
    assert slow.desired(200, 2000) == members(1, 2)  # the better one of the two stays


def test_below_the_minimum_nothing_is_confirmed() -> None:
    """KIP-966: who left the set holds all that readers saw, and may be elected."""
    options = replace(OPTIONS, min_in_sync_replicas=2)
    made = in_sync(1, 2, options=options)
    made.acked(2, 200, 200, 0)
    made.set_committed(members(1), 8, 0)
    assert not made.confirm(200, 0)
    assert made.confirmed == 100
    made.set_committed(members(1, 2), 9, 0)
    assert made.confirm(200, 0)


# One question at a time --------------------------------------------------------------------------


def test_one_question_at_a_time_then_the_newest_state() -> None:
    made = in_sync()
    join(made, 2, 100, 100)
    ask(made, 100)
    join(made, 3, 100, 100)
    assert made.next_proposal(100, 0) is None
    made.set_committed(members(1, 2), 8, 1)
    assert ask(made, 100, 1) == SetProposal(members(1, 2, 3), 5, 8, 2)


def test_an_open_question_counts_until_a_newer_set_is_seen() -> None:
    """The attempt that timed out may still be committed."""
    made = in_sync()
    join(made, 2, 100, 100)
    first = ask(made, 100)
    made.proposal_failed(first, 10)
    made.unlinked(2, 12, 11)
    assert made.next_proposal(100, 20) is None  # not at once
    second = ask(made, 100, 60)
    assert second.members == members(1)
    made.proposal_failed(second, 70)
    assert made.effective == members(1, 2)
    assert not made.confirm(200, 70)
    made.set_committed(members(1), 8, 80)
    assert made.effective == members(1)


def test_what_the_controller_refused_is_settled() -> None:
    made = in_sync()
    join(made, 2, 100, 100)
    first = ask(made, 100)
    made.proposal_failed(first, 10, refused=True)
    assert made.effective == members(1)
    assert made.in_flight is None


def test_old_and_foreign_sets_are_no_news() -> None:
    made = in_sync(1, 2)
    assert not made.set_committed(members(1), 7, 0)
    assert not made.set_committed(members(2), 9, 0)
    assert made.committed == members(1, 2)


def test_a_poll_that_brings_the_answer_ends_the_question() -> None:
    made = in_sync()
    join(made, 2, 100, 100)
    first = ask(made, 100)
    made.set_committed(members(1, 2), 8, 1)
    made.proposal_failed(first, 2)
    assert made.in_flight is None
    assert made.effective == members(1, 2)


# Any history -------------------------------------------------------------------------------------

FOLLOWERS = st.sampled_from((2, 3, 4))


class SlowController(RuleBasedStateMachine):
    """A controller that hears and answers late, out of order, or never; followers that lag.

    Whatever happens: all members of the set that the controller has committed hold everything that
    the master calls confirmed, since each of them may be elected at any moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self.options = replace(OPTIONS, min_in_sync_replicas=1)
        self.set: tuple[frozenset[int], int] = (members(1), 7)
        self.made = InSync(1, 5, 100, members(1), 7, 100, 0, self.options)
        self.end = 100
        self.held = {2: 0, 3: 0, 4: 0}
        self.now = 0
        self.requests: list[SetProposal] = []
        self.answers: list[tuple[frozenset[int], int]] = []
        self.asked: list[SetProposal] = []
        self.links = 100
        self.highest = 100

    @rule(count=st.integers(1, 50), ms=st.integers(0, 400))
    def append(self, count: int, ms: int) -> None:
        before, self.end = self.end, self.end + count
        self.now += ms
        self.made.appended(before, self.end, self.now)
        self.made.confirm(self.end, self.now)

    @rule(follower=FOLLOWERS)
    def link(self, follower: int) -> None:
        self.links += 1
        self.made.linked(follower, self.links, False, self.now)

    @rule(follower=FOLLOWERS)
    def unlink(self, follower: int) -> None:
        replica = self.made.replicas.get(follower)
        if replica is not None and replica.link is not None:
            self.made.unlinked(follower, replica.link, self.now)

    @rule(follower=FOLLOWERS, share=st.integers(0, 4))
    def replicate(self, follower: int, share: int) -> None:
        """More of the log arrives, and is acknowledged on a link."""
        replica = self.made.replicas.get(follower)
        if replica is None or replica.link is None:
            return
        replica.sent(self.end, self.now)
        self.held[follower] += (self.end - self.held[follower]) * share // 4
        self.made.acked(follower, self.held[follower], self.end, self.now)
        self.made.confirm(self.end, self.now)

    @rule()
    def ask(self) -> None:
        proposal = self.made.next_proposal(self.end, self.now)
        if proposal is not None:
            assert proposal.set_epoch == self.made.set_epoch
            self.requests.append(proposal)
            self.asked.append(proposal)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        """One request reaches the controller, whenever it was sent."""
        at = data.draw(st.integers(0, len(self.requests) - 1))
        proposal = self.requests.pop(at)
        if proposal.set_epoch == self.set[1]:
            self.set = (proposal.members, self.set[1] + 1)
            self.answers.append(self.set)

    @precondition(lambda self: self.answers)
    @rule(data=st.data(), lost=st.booleans())
    def answer(self, data: st.DataObject, lost: bool) -> None:
        answer = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        if not lost:
            self.made.set_committed(*answer, self.now)
            self.made.confirm(self.end, self.now)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), ms=st.integers(0, 100))
    def time_out(self, data: st.DataObject, ms: int) -> None:
        self.now += ms
        self.made.proposal_failed(data.draw(st.sampled_from(self.asked)), self.now)

    @rule()
    def poll(self) -> None:
        self.made.set_committed(*self.set, self.now)
        self.made.confirm(self.end, self.now)

    @invariant()
    def who_may_be_elected_holds_what_is_confirmed(self) -> None:
        for member in self.set[0] - {1}:
            assert self.held[member] >= self.made.confirmed, (member, self.held, self.set)

    @invariant()
    def confirmed_only_rises_and_stays_in_the_log(self) -> None:
        assert self.highest <= self.made.confirmed <= self.end
        self.highest = self.made.confirmed

    @invariant()
    def every_question_that_may_be_answered_counts(self) -> None:
        """The slow model: all questions ever asked on top of the set that we know."""
        counted = self.made.committed.union(
            *(p.members for p in self.asked if p.set_epoch >= self.made.set_epoch)
        )
        assert self.made.effective == counted


TestSlowController = SlowController.TestCase
TestSlowController.settings = settings(max_examples=examples(80), stateful_step_count=40)
