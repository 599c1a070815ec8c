"""Roles, epochs and leases as controllers hand them out; every rule by its defect's number."""

import pytest
from tests.broker.group.dialogue import CONTROLLERS, LEASE_MS, Dialogue, answer, group

from epochmq.base.unbounded import FOREVER
from epochmq.broker.group.broker_identity import Known
from epochmq.broker.group.group_membership import FLOOR_RETRY_MS, NOTICE_MS
from epochmq.broker.group.member_options import LogState
from epochmq.broker.group.membership_effects import (
    BecomeFollower,
    BecomeMaster,
    Fence,
    FloorChanged,
    MembershipReport,
    ProposalFailed,
    Question,
    SaveKnown,
    SetCommitted,
)
from epochmq.replication.replication_effects import SetProposal
from epochmq.wire.codes import ResponseCode as Code
from epochmq.wire.header import decode_header
from epochmq.wire.headers.controller_headers import (
    AlterSyncStateSetHeader,
    ControllerHeartbeatHeader,
    ElectMasterHeader,
)

NOT_LEADER = Code.CONTROLLER_NOT_LEADER
STILL = Code.CONTROLLER_MASTER_STILL_EXIST


# First election ------------------------------------------------------------------------------


def test_a_registered_broker_without_a_master_asks_for_an_election() -> None:
    talk = Dialogue.of()
    talk.online()
    header = decode_header(ElectMasterHeader, talk.pending(Question.ELECT)[0].command.ext)
    assert (header.brokerName, header.brokerId, header.designateElect) == ("b", 1, False)


def test_the_controllers_hear_of_the_log_before_the_election() -> None:
    """An election goes by what heartbeats told."""
    talk = Dialogue.of(log=LogState(3, 700, 600))
    assert len(talk.pending(Question.HEARTBEAT)) == len(CONTROLLERS)
    header = decode_header(
        ControllerHeartbeatHeader, talk.pending(Question.HEARTBEAT)[0].command.ext
    )
    assert (header.epoch, header.maxOffset, header.confirmOffset) == (3, 700, 600)
    assert header.leaseWanted
    assert (header.incarnation, header.session, header.cleanStart) == ("inc", "s1", True)


def test_elected_it_switches_first_and_records_last() -> None:
    """Recorded before, a failed switch would never be tried again."""
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    assert talk.last(BecomeMaster) == BecomeMaster(1, frozenset({1}), 1)
    assert talk.count(SaveKnown) == 1  # the incarnation's, at the start
    talk.switched()
    assert talk.last(SaveKnown).known.master_epoch == 1


def test_a_process_leads_no_epoch_before_it_has_registered() -> None:
    """S19: the one before it was elected; what that one lost is not known yet."""
    talk = Dialogue.of(known=Known("inc", 1, 2))
    talk.find()
    elected = group(3, 1, (1, 2), 5)
    talk.beat(**elected)
    assert talk.count(BecomeMaster) == 0
    talk.reply(Question.REGISTER, **group(3, None, (2,), 6))
    talk.notice(**elected)  # told late
    assert talk.count(BecomeMaster) == 0
    talk.reply(Question.ELECT, **group(4, 1, (1, 2), 7))
    assert talk.last(BecomeMaster).epoch == 4


def test_somebody_else_is_master() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2, 3)))
    assert talk.last(BecomeFollower) == BecomeFollower(
        4, 2, "10.0.0.2:10911", "10.0.0.2:10912", False
    )


def test_a_learner_follows_and_never_asks_for_an_election() -> None:
    """rocketmq#10013."""
    talk = Dialogue.of(learner=True)
    talk.online()
    talk.tick(60_000)
    assert not talk.pending(Question.ELECT)
    talk.reply(Question.REPLICA_INFO, **group(4, 2, (2,)))
    assert talk.last(BecomeFollower).learner


def test_nobody_can_be_elected_is_asked_again_with_pauses() -> None:
    talk = Dialogue.of()
    talk.online()
    asked = 0
    for now in range(0, 5000, 10):
        talk.tick(now)
        if talk.pending(Question.ELECT):
            asked += 1
            talk.reply(Question.ELECT, Code.CONTROLLER_ELECT_MASTER_FAILED)
        elif talk.pending(Question.REPLICA_INFO):
            talk.reply(Question.REPLICA_INFO, **group(0, None, ()))
    assert 5 <= asked <= 12


# The lease -----------------------------------------------------------------------------------


def test_a_lease_for_a_heartbeat_of_another_epoch_is_none() -> None:
    """It was sent as a follower and answered when this broker was master already."""
    talk = Dialogue.of()
    talk.online()
    early = talk.pop(Question.HEARTBEAT, "c:1")
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    talk.switched()
    granted = answer(0, isLeader=True, leaseSupported=True, leaseMillis=2000, **group(1, 1))
    talk.take(talk.core.answered(early.tag, granted, talk.now))
    assert not talk.core.lease.valid(talk.now)


def test_clocks_that_ran_apart_end_the_lease_and_another_is_asked_for_at_once() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    assert not talk.core.look_at_clocks(talk.now, talk.wall)
    assert talk.core.lease.valid(talk.now)
    assert talk.core.look_at_clocks(talk.now + 1, talk.wall + 5_000)
    assert not talk.core.lease.valid(talk.now)
    talk.tick(talk.now + 1)
    assert talk.pending(Question.HEARTBEAT, "c:1")
    talk.lease(1)
    assert talk.core.lease.valid(talk.now)


def test_a_java_controller_gives_no_leases_and_fences_nobody() -> None:
    talk = Dialogue.of()
    talk.find(term=0)
    talk.reply(Question.HEARTBEAT, address="c:1", remark="Heart beat success")
    talk.reply(Question.REGISTER)
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    talk.switched()
    assert talk.core.lease.until_ms == FOREVER
    talk.tick(1000)
    assert {tell.address for tell in talk.tells} == {"c:1"}
    assert talk.tells[0].command.is_oneway
    assert "leaseWanted" not in (talk.tells[0].command.ext or {})


def test_asked_to_step_down_it_fences_and_resigns_and_never_uses_that_epoch_again() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.now += 400
    talk.tick()
    talk.beat(leaseMillis=2000, stepDown=True, **group(1, 1))
    assert talk.count(Fence) == 1
    assert not talk.core.lease.valid(talk.now)
    resigning = talk.pending(Question.HEARTBEAT)[-3:]
    assert all((ask.command.ext or {}).get("resign") == "true" for ask in resigning)
    before = talk.count(BecomeMaster)
    talk.tick(talk.now + 10_000)
    assert talk.count(BecomeMaster) == before
    talk.core.finder.leader("c:1", 1, talk.now)
    talk.tick()
    talk.reply(Question.ELECT, **group(2, 1, (1, 2), 5))
    assert talk.last(BecomeMaster).epoch == 2


def test_a_leader_of_an_older_term_grants_nothing() -> None:
    """Cut off, it may believe for a while that it leads."""
    talk = Dialogue.of()
    talk.master()
    talk.core.finder.leader("c:2", 7, talk.now)
    until = talk.core.lease.until_ms
    talk.forget_beats()
    talk.now += 500
    talk.tick()
    talk.reply(
        Question.HEARTBEAT, address="c:1", isLeader=True, leaseSupported=True, controllerTerm=1,
        leaseMillis=2000, **group(1, 1),
    )  # fmt: skip
    assert talk.core.lease.until_ms == until
    assert talk.core.finder.active == "c:2"


# Notices, polls and old news -----------------------------------------------------------------


def test_a_deposed_master_fences_at_once_and_follows() -> None:
    """Not one acknowledgement more."""
    talk = Dialogue.of()
    talk.master()
    talk.notice(**group(2, 2, (2,)))
    kinds = [type(effect) for effect in talk.done[-2:]]
    assert kinds == [Fence, BecomeFollower]
    assert not talk.core.lease.valid(talk.now)


def test_a_heartbeats_answer_is_as_good_as_a_notice() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.now += 400
    talk.tick()
    talk.beat(**group(2, 2))
    assert talk.last(BecomeFollower).epoch == 2


def test_an_older_epoch_is_not_heeded() -> None:
    talk = Dialogue.of(known=Known("inc", 3, 5))
    talk.online()
    talk.reply(Question.ELECT, **group(4, 2, (2,)))
    assert not talk.count(BecomeFollower)
    talk.notice(**group(4, 1, (1,)))
    assert not talk.count(BecomeMaster)


def test_the_same_epoch_from_an_older_term_is_not_heeded_after_a_restart() -> None:
    talk = Dialogue.of(known=Known("inc", 3, 5))
    talk.find(term=2)
    talk.reply(Question.REGISTER)
    talk.notice(controllerTerm=2, **group(5, 2, (2,)))
    assert not talk.count(BecomeFollower)
    talk.notice(controllerTerm=3, **group(5, 2, (2,)))
    assert talk.last(BecomeFollower).epoch == 5


def test_a_wiped_controllers_low_term_is_heeded_with_a_higher_epoch() -> None:
    talk = Dialogue.of(known=Known("inc", 30, 5))
    talk.online()
    talk.reply(Question.ELECT, controllerTerm=1, **group(6, 1, (1,)))
    talk.switched()
    assert talk.last(SaveKnown).known == Known("inc", 1, 6)


def test_a_notice_without_a_master_changes_nothing() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.notice()
    assert talk.core.is_master


def test_notices_that_come_fast_make_it_ask_once() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.notice()
    asked = len(talk.asks)
    talk.take(talk.core.notified(talk.now + 1))
    assert len(talk.asks) == asked, "neither by a question nor by heartbeats"
    talk.tick(talk.now + NOTICE_MS)
    assert len(talk.pending(Question.REPLICA_INFO)) == 1


def test_a_newer_epoch_without_a_master_fences_and_asks_for_an_election() -> None:
    """Upstream's failed elections raise the epoch (rocketmq#6505)."""
    talk = Dialogue.of()
    talk.master()
    talk.notice(**group(2, None, (1, 2)))
    assert talk.count(Fence) == 1
    talk.tick(talk.now + 1000)
    talk.reply(Question.ELECT, **group(3, 1, (1, 2), 3))
    assert talk.last(BecomeMaster) == BecomeMaster(3, frozenset({1, 2}), 3)


# Restart -------------------------------------------------------------------------------------


def test_a_restarted_master_asks_for_a_fresh_epoch() -> None:
    """(epoch, offset) would not be unique any more."""
    talk = Dialogue.of(known=Known("inc", 1, 5), log=LogState(5, 100, 100))
    talk.find()
    talk.reply(Question.REGISTER, **group(5, 1, (1, 2), 8))
    assert not talk.count(BecomeMaster)
    talk.reply(Question.ELECT, **group(6, 1, (1, 2), 9))
    assert talk.last(BecomeMaster).epoch == 6


def test_an_epoch_of_the_log_counts_as_used_when_the_state_file_is_gone() -> None:
    talk = Dialogue.of(log=LogState(5, 100, 100))
    talk.find()
    talk.reply(Question.REGISTER, **group(5, 1, (1, 2), 8))
    assert not talk.count(BecomeMaster)
    assert talk.pending(Question.ELECT)


def test_our_controllers_never_make_it_go_on_under_the_old_epoch() -> None:
    talk = Dialogue.of(known=Known("inc", 1, 5))
    talk.find()
    talk.beat(**group(5, 1))
    talk.reply(Question.REGISTER, **group(5, 1, (1, 2), 8))
    for _ in range(5):
        talk.now += 1000
        talk.tick()
        if talk.pending(Question.ELECT):
            talk.reply(Question.ELECT, STILL, **group(5, 1, (1, 2), 8))
    assert not talk.count(BecomeMaster)


def java_restart(*, clean: bool) -> Dialogue:
    talk = Dialogue.of(known=Known("inc", 0, 5), log=LogState(5, 100, 100), clean_start=clean)
    talk.find(term=0)
    talk.reply(Question.HEARTBEAT, address="c:1")
    talk.reply(Question.REGISTER, **group(5, 1, (1, 2), 8))
    talk.now += 1000
    talk.tick()
    talk.reply(Question.ELECT, STILL, **group(5, 1, (1, 2), 8))
    return talk


def test_a_java_controller_that_insists_gets_the_old_epoch_when_nothing_was_lost() -> None:
    talk = java_restart(clean=True)
    assert talk.last(BecomeMaster) == BecomeMaster(5, frozenset({1, 2}), 8)


def test_but_not_after_a_crash_that_may_have_lost_something() -> None:
    talk = java_restart(clean=False)
    talk.tick(talk.now + 5000)
    assert not talk.count(BecomeMaster)
    assert "old epoch" in talk.last(MembershipReport).text


# Switches ------------------------------------------------------------------------------------


def test_a_refused_switch_fences_and_is_tried_again() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    talk.switched(ok=False, problem="the log knows epoch 9")
    assert talk.last(Fence).reason == "the log knows epoch 9"
    assert talk.count(SaveKnown) == 1
    assert "epoch 1" in talk.last(MembershipReport).text
    talk.tick(talk.now + 499)
    assert talk.count(BecomeMaster) == 1
    talk.tick(talk.now + 1)
    assert talk.count(BecomeMaster) == 2


def test_one_switch_at_a_time_and_the_newest_wins() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(1, 1, (1,)))
    talk.notice(**group(2, 2, (2,)))
    talk.notice(**group(3, 3, (3,)))
    assert not talk.count(BecomeFollower)
    talk.switched()
    assert talk.last(BecomeFollower).epoch == 3
    assert not talk.core.is_master


def test_the_masters_replication_address_may_come_later() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2,), masterHaAddress=None))
    assert talk.last(BecomeFollower).ha_address is None
    talk.switched()
    talk.take(talk.core.ha_address_found("10.0.0.9:10911", "wrong:1", talk.now))
    assert talk.count(BecomeFollower) == 1
    talk.take(talk.core.ha_address_found("10.0.0.2:10911", "right:1", talk.now))
    assert talk.last(BecomeFollower).ha_address == "right:1"


def test_a_master_whose_address_changed_is_followed_there() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2,)))
    talk.switched()
    moved = group(4, 2, (2,), 2, masterAddress="10.0.0.7:1", masterHaAddress="10.0.0.7:2")
    talk.notice(**moved)
    assert talk.last(BecomeFollower).ha_address == "10.0.0.7:2"


def test_resigning_tells_every_controller() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    talk.take(talk.core.resign(talk.now))
    assert len(talk.pending(Question.HEARTBEAT)) == 3
    assert talk.count(Fence) == 1


def test_a_follower_has_nothing_to_resign() -> None:
    talk = Dialogue.of()
    assert talk.core.resign(0) == []


def test_a_second_broker_with_the_same_id_is_fenced_until_the_first_is_gone() -> None:
    """A cloned volume."""
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2,)))
    talk.switched()
    talk.now += 2000
    talk.tick()
    talk.forget_beats()
    talk.now += 2000
    talk.tick()
    talk.reply(Question.HEARTBEAT, Code.CONTROLLER_BROKER_ID_INVALID, address="c:1")
    assert "id" in talk.last(Fence).reason
    count = talk.count(BecomeFollower)
    talk.now += 2000
    talk.tick()
    assert talk.count(BecomeFollower) == count
    talk.beat(**group(4, 2))
    assert talk.count(BecomeFollower) == count + 1


# The sync-state set --------------------------------------------------------------------------


def proposal(*members: int, epoch: int = 1, set_epoch: int = 1) -> SetProposal:
    return SetProposal(frozenset(members), epoch, set_epoch)


def test_a_proposal_goes_to_the_active_controller_and_its_answer_is_the_set() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    ask = talk.reply(Question.ALTER, newSyncStateSetEpoch=2)
    header = decode_header(AlterSyncStateSetHeader, ask.command.ext)
    assert (header.masterBrokerId, header.masterEpoch) == (1, 1)
    assert talk.last(SetCommitted) == SetCommitted(frozenset({1, 2}), 2)


@pytest.mark.parametrize(
    "code",
    [
        Code.CONTROLLER_FENCED_MASTER_EPOCH,
        Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        Code.CONTROLLER_INVALID_MASTER,
        Code.CONTROLLER_INVALID_REPLICAS,
        Code.CONTROLLER_BROKER_NOT_ALIVE,
        Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    ],
)
def test_a_refused_proposal_stays_open_for_replication_until_a_newer_set(code: Code) -> None:
    """The poll brings the truth at once."""
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    talk.asks = [ask for ask in talk.asks if ask.tag.kind is not Question.REPLICA_INFO]
    talk.core._talk = None
    talk.reply(Question.ALTER, code)
    assert talk.last(ProposalFailed).proposal == proposal(1, 2)
    talk.reply(Question.REPLICA_INFO, **group(1, 1, (1, 2), 2))
    assert talk.last(SetCommitted) == SetCommitted(frozenset({1, 2}), 2)


def test_a_success_that_moved_nothing_leaves_the_question_to_replication() -> None:
    """S30: whoever waits for a newer set waits for ever; the next question may bring one."""
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1), talk.now))
    talk.reply(Question.ALTER, newSyncStateSetEpoch=1)
    assert talk.last(ProposalFailed) == ProposalFailed(proposal(1))
    assert not talk.count(SetCommitted)


def test_a_proposal_without_an_answer_is_asked_again_elsewhere() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    talk.fail(Question.ALTER, lost=True)
    assert not talk.count(ProposalFailed)
    talk.now += 100
    talk.tick()
    talk.find("c:2", term=2)
    assert talk.pending(Question.ALTER)[0].address == "c:2"


def test_a_set_seen_elsewhere_settles_the_proposal() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    talk.fail(Question.ALTER)
    talk.find("c:2", term=2)
    talk.fail(Question.ALTER)
    talk.find("c:3", term=3)
    talk.pop(Question.ALTER)
    talk.notice(**group(1, 1, (1, 2), 2))
    assert talk.last(SetCommitted).set_epoch == 2
    talk.tick(talk.now + 1000)
    assert not talk.pending(Question.ALTER)


def test_a_proposal_of_an_epoch_that_is_over_fails() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2, epoch=0), talk.now))
    assert talk.count(ProposalFailed) == 1
    assert not talk.pending(Question.ALTER)


def test_deposed_with_a_proposal_open_it_fails() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    talk.notice(**group(2, 2, (2,)))
    assert talk.count(ProposalFailed) == 1


def test_a_heartbeat_that_tells_of_a_newer_set_makes_it_ask_for_the_members() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.core._talk = None
    talk.asks = []
    talk.now += 400
    talk.tick()
    talk.beat(leaseMillis=2000, **group(1, 1, None, 4))
    talk.reply(Question.REPLICA_INFO, **group(1, 1, (1, 3), 4))
    assert talk.last(SetCommitted) == SetCommitted(frozenset({1, 3}), 4)


def test_a_lower_minimum_is_asked_for_until_it_is_recorded_and_used_then() -> None:
    talk = Dialogue.of(min_in_sync_replicas=2)
    talk.master(members=(1, 2))
    talk.take(talk.core.want_floor(1, talk.now))
    talk.reply(Question.FLOOR, Code.SYSTEM_ERROR)
    assert (talk.core.floor.in_use, talk.count(FloorChanged)) == (2, 0)
    talk.take(talk.core.want_floor(1, talk.now))
    talk.reply(Question.FLOOR, Code.SYSTEM_ERROR)  # whoever changes it again is not kept waiting
    talk.tick(talk.now + FLOOR_RETRY_MS - 1)
    assert not talk.pending(Question.FLOOR)
    talk.forget_beats()
    assert talk.core.next_deadline() <= talk.now + 1
    talk.tick(talk.now + 1)
    talk.reply(Question.FLOOR, **group(1, 1, (1, 2)))
    assert talk.last(FloorChanged).floor == talk.core.floor.in_use == 1
    assert talk.core.is_master, "the registration of the same process again"
    talk.tick(talk.now + 10 * FLOOR_RETRY_MS)
    assert not talk.pending(Question.FLOOR)


# Pace ----------------------------------------------------------------------------------------


def test_the_poll_goes_on_while_everything_is_well() -> None:
    talk = Dialogue.of(poll_ms=5000)
    talk.master()
    polls = 0
    for now in range(talk.now, talk.now + 20_000, 50):
        talk.tick(now)
        talk.forget_beats()
        while talk.pending(Question.REPLICA_INFO):
            polls += 1
            talk.reply(Question.REPLICA_INFO, **group(1, 1, (1,)))
    assert 3 <= polls <= 5


def test_next_deadline_is_when_something_is_due() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    talk.tick()
    assert talk.now < talk.core.next_deadline() <= talk.now + LEASE_MS


# The way online, and controllers that do not lead --------------------------------------------

UNKNOWN_HERE = Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_a_new_broker_is_given_an_id_and_registers_under_it() -> None:
    talk = Dialogue.of(broker_id=None)
    talk.find()
    assert talk.core.next_deadline() >= talk.now
    talk.reply(Question.NEXT_ID, nextBrokerId=7)
    talk.reply(Question.APPLY_ID)
    assert talk.core.broker_id == 7
    talk.reply(Question.REGISTER, Code.CONTROLLER_BROKER_ID_INVALID, remark="taken")
    assert "taken" in talk.last(MembershipReport).text
    assert talk.core.next_deadline() > talk.now


def test_an_answer_of_a_follower_leads_to_another_controller() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, NOT_LEADER)
    assert talk.core.finder.active is None
    talk.find("c:2", term=2)
    talk.now += 2_000
    talk.tick()
    assert talk.pending(Question.REGISTER)[-1].address == "c:2"


def test_a_busy_controller_is_asked_again() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, Code.SYSTEM_BUSY)
    assert talk.core.finder.active == "c:1"
    talk.now += 1_000
    talk.tick()
    assert talk.pending(Question.REGISTER)


def test_a_question_without_an_answer_is_over() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.fail(Question.REGISTER)
    assert talk.core.finder.active is None, "it is looked for again"
    talk.find("c:2", term=2)
    talk.now += 1_000
    talk.tick()
    talk.reply(Question.REGISTER, address="c:2")
    talk.reply(Question.ELECT, **group(4, 2, (2,)))
    talk.switched()
    talk.fail(Question.REPLICA_INFO)
    talk.find("c:3", term=3)
    talk.now += 1_000
    talk.tick()
    assert talk.pending(Question.REPLICA_INFO)[-1].address == "c:3"


def test_a_closed_connection_makes_it_look_elsewhere() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.take(talk.core.closed("c:1", talk.now))
    assert talk.core.finder.active is None


def test_an_answer_without_a_leader_changes_nothing() -> None:
    talk = Dialogue.of()
    talk.reply(Question.METADATA, address="c:1", isLeader=False)
    assert talk.core.finder.active is None
    talk.reply(Question.METADATA, address="c:2", isLeader=False, controllerLeaderAddress="c:3")
    assert talk.core.finder.active == "c:3"


def test_heartbeats_find_the_leader_too() -> None:
    talk = Dialogue.of()
    no = {"isLeader": False, "leaseSupported": True}
    talk.reply(Question.HEARTBEAT, address="c:1", **no, controllerLeaderAddress="c:2")
    assert talk.core.finder.active == "c:2"
    talk.reply(Question.HEARTBEAT, address="c:3", **no, controllerLeaderAddress="c:1")
    assert talk.core.finder.active == "c:2", "it is known already"
    talk.reply(Question.HEARTBEAT, address="c:2", **no)
    assert talk.core.finder.active is None


def test_a_java_controller_that_is_active_gives_no_leases() -> None:
    talk = Dialogue.of()
    talk.reply(Question.HEARTBEAT, address="c:2")
    assert talk.core.lease.supported is None
    talk.find("c:1", term=0)
    talk.reply(Question.HEARTBEAT, address="c:1")
    assert talk.core.lease.supported is False


@pytest.mark.parametrize("kind", [Question.ELECT, Question.REPLICA_INFO, Question.HEARTBEAT])
def test_a_controller_that_was_wiped_is_asked_to_take_us_back(kind: Question) -> None:
    talk = Dialogue.of()
    talk.online()
    if kind is Question.REPLICA_INFO:
        talk.reply(Question.ELECT, **group(4, 2, (2,)))
        talk.switched()
    talk.reply(kind, UNKNOWN_HERE, address="c:1")
    if kind is Question.HEARTBEAT:
        talk.tick(talk.now + 400)
        talk.reply(kind, UNKNOWN_HERE, address="c:1")  # no news
        talk.fail(Question.ELECT)  # one question at a time
        talk.find("c:2", term=2)
    talk.now += 2_000
    talk.tick()
    assert talk.pending(Question.REGISTER)


def test_a_poll_that_is_refused_changes_nothing() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(4, 2, (2,)))
    talk.switched()
    talk.reply(Question.REPLICA_INFO, Code.SYSTEM_ERROR)
    assert talk.core.view.epoch == 4


def test_refusals_of_an_inactive_controller_do_not_count() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.HEARTBEAT, Code.CONTROLLER_BROKER_ID_INVALID, address="c:2")
    assert not talk.count(Fence)


def test_an_answer_to_a_proposal_that_is_settled_is_nothing() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    ask = talk.pending(Question.ALTER)[0]
    talk.notice(**group(1, 1, (1, 2), 2))
    before = len(talk.done)
    talk.reply(Question.ALTER, newSyncStateSetEpoch=2)
    assert ask.tag.kind is Question.ALTER
    assert len(talk.done) == before


def test_deadlines_follow_what_is_open() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.forget_beats()
    talk.take(talk.core.propose(proposal(1, 2), talk.now))
    talk.reply(Question.ALTER, Code.SYSTEM_ERROR)
    assert talk.core.next_deadline() > talk.now, "asked again after a pause"
    talk.take(talk.core.closed("c:1", talk.now))
    talk.find("c:2", term=2)
    assert talk.core.next_deadline() <= talk.now + LEASE_MS
    talk.notice(**group(2, 2, (2,)))
    talk.switched(ok=False, problem="no")
    assert talk.core.next_deadline() <= talk.now + 500


def test_an_epoch_acted_on_again_is_not_recorded_again() -> None:
    talk = Dialogue.of()
    talk.find()
    talk.reply(Question.REGISTER, **group(4, 2, (2,)))
    talk.switched()
    saved = talk.count(SaveKnown)
    moved = group(4, 2, (2,), 2, masterAddress="10.0.0.7:1", masterHaAddress="10.0.0.7:2")
    talk.notice(**moved)
    talk.switched()
    assert talk.count(SaveKnown) == saved


# Past the lease, and forgotten ---------------------------------------------------------------


def test_a_forgotten_master_leaves_its_epoch_before_it_registers_again() -> None:
    """S29: whoever is elected next goes by what is reported, not by a set."""
    talk = Dialogue.of()
    talk.master(3)
    talk.tick(talk.now + 1000)
    talk.beat(leaseMillis=LEASE_MS, wholeSetMayHold=True, **group(3, 1, None, 1))
    talk.beat_refused(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    assert talk.count(Fence) == 1
    assert talk.core.hold_span_ms() == 0
    assert not talk.core.is_master
    talk.reply(Question.REGISTER, **group(3, 1, (1,), 1))
    assert not talk.core.is_master
    talk.tick(talk.now + 1000)
    talk.reply(Question.ELECT, **group(4, 1, (1,), 2))
    assert talk.last(BecomeMaster).epoch == 4


def test_a_forgotten_follower_stops_following_and_may_be_sent_back() -> None:
    """Cleaned by mistake: the master goes on, and is followed again after the registration."""
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(3, 2, (1, 2), 5))
    talk.switched()
    talk.tick(talk.now + 1000)
    talk.beat_refused(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    assert talk.count(Fence) == 1
    assert talk.count(BecomeFollower) == 1
    for _ in talk.pending(Question.REPLICA_INFO):
        talk.fail(Question.REPLICA_INFO)
    talk.tick(talk.now + 1000)
    talk.find()
    talk.reply(Question.REGISTER, **group(3, 2, (2,), 6))
    assert talk.count(BecomeFollower) == 2


def test_a_role_under_way_when_the_controllers_forgot_us_is_not_taken() -> None:
    talk = Dialogue.of()
    talk.online()
    talk.reply(Question.ELECT, **group(3, 2, (1, 2), 5))
    talk.beat_refused(Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
    talk.switched()
    assert talk.core.role is None
    assert talk.last(Fence)


def test_controllers_that_say_twice_that_they_forgot_us_are_registered_with_once() -> None:
    talk = Dialogue.of()
    talk.master()
    talk.tick(talk.now + 6_000)
    talk.beat_refused(UNKNOWN_HERE)
    talk.reply(Question.REPLICA_INFO, UNKNOWN_HERE)
    assert talk.count(Fence) == 1
    assert len(talk.pending(Question.REGISTER)) == 1


def test_a_controller_without_leases_that_forgot_its_master_is_registered_with() -> None:
    """It cannot be told apart from one that was wiped, and fences nobody."""
    talk = java_restart(clean=True)
    talk.switched()
    talk.reply(Question.REPLICA_INFO, UNKNOWN_HERE)
    assert talk.core.is_master
    assert not talk.count(Fence)
    assert talk.pending(Question.REGISTER)


def test_it_asks_whose_ids_are_registered_until_somebody_tells() -> None:
    assert Dialogue.of().ask_ids() == {1}
