"""The state machine: every event, every refusal, and that it depends on the log alone."""

import pytest

from epochmq.base import limits
from epochmq.base.errors import OurBug, StoreDamaged
from epochmq.controller.commands import (
    AlterSyncStateSet,
    AnyEvent,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    SetSetting,
    UpdateBroker,
    encode,
)
from epochmq.controller.controller_state import BrokerGroup
from epochmq.controller.machine import CommandOutcome, Machine, Refusal

KEY = ("c", "b")


class Log:
    """A machine and the events it was given."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.entries: list[bytes] = []

    def __call__(self, event: AnyEvent) -> CommandOutcome:
        self.entries.append(encode(event))
        return self.machine.apply(len(self.entries), self.entries[-1])

    @property
    def group(self) -> BrokerGroup:
        return self.machine.groups[KEY]


def applied(number: int, **more: object) -> ApplyBrokerId:
    fields = {"broker_id": number, "address": f"h{number}:1", "check_code": f"h{number};1"}
    return ApplyBrokerId(*KEY, **(fields | more))  # type: ignore[arg-type]


def elected(log: Log, master: int, members: tuple[int, ...] = (), **more: object) -> ElectMaster:
    group = log.group
    fields = {
        "epoch": group.epoch,
        "set_epoch": group.set_epoch,
        "master": master,
        "new_epoch": group.epoch + 1,
        "members": members or (master,),
    }
    return ElectMaster(*KEY, **(fields | more))  # type: ignore[arg-type]


def altered(log: Log, *members: int, **more: object) -> AlterSyncStateSet:
    group = log.group
    fields = {
        "master": group.master,
        "epoch": group.epoch,
        "set_epoch": group.set_epoch,
        "members": members,
    }
    return AlterSyncStateSet(*KEY, **(fields | more))  # type: ignore[arg-type]


def updated(number: int, **more: object) -> UpdateBroker:
    fields = {"broker_id": number, "address": f"h{number}:1"}
    return UpdateBroker(*KEY, **(fields | more))  # type: ignore[arg-type]


@pytest.fixture
def log() -> Log:
    """Three replicas; the first is master, all are in the set."""
    log = Log()
    for number in (1, 2, 3):
        assert log(applied(number)).broker_id == number
    assert log(elected(log, 1)).ok
    assert log(altered(log, 1, 2, 3)).ok
    return log


def test_numbers_are_given_in_order_and_once() -> None:
    log = Log()
    assert log(applied(2)).refusal is Refusal.ID_TAKEN
    assert KEY not in log.machine.groups
    assert log(applied(1)).ok
    assert log(applied(1)) == CommandOutcome(broker_id=1, changed=False)
    assert log(applied(1, check_code="other;1")).refusal is Refusal.ID_TAKEN
    assert log(applied(3)).refusal is Refusal.ID_TAKEN
    assert log(applied(2)).ok
    assert log.group.next_id == 3
    assert log.group.epoch == log.group.set_epoch == 0
    assert log.group.members == []


def test_an_empty_check_code_owns_nothing() -> None:
    log = Log()
    log(applied(1, check_code=""))
    assert log(applied(1, check_code="")).refusal is Refusal.ID_TAKEN


def test_a_number_belongs_to_an_incarnation() -> None:
    log = Log()
    log(applied(1, incarnation="x"))
    assert log(applied(1, incarnation="y")).refusal is Refusal.ID_TAKEN
    assert log(applied(1, incarnation="x")).ok


def test_a_forgotten_number_is_adopted_as_it_is() -> None:
    log = Log()
    assert log(applied(5, adopted=True)).ok
    assert log.group.adopted
    assert log.group.next_id == 6
    assert log(applied(5, adopted=True)) == CommandOutcome(broker_id=5, changed=False)
    assert log.group.master is None


def test_generations_do_not_mix() -> None:
    log = Log()
    log(applied(1, by_address=True))
    assert log(applied(2)).refusal is Refusal.OTHER_GENERATION


def test_a_number_is_not_given_again_after_cleaning(log: Log) -> None:
    log(altered(log, 1, 2))
    assert log(CleanBrokerData(*KEY, ids=(3,))).ok
    assert log(applied(3, check_code="new;1")).refusal is Refusal.ID_TAKEN
    assert log(applied(4)).ok


def test_an_election_raises_both_epochs_and_keeps_live_members(log: Log) -> None:
    assert log(elected(log, 2, (2, 3))).ok
    group = log.group
    assert (group.master, group.epoch, group.members, group.set_epoch) == (2, 2, [2, 3], 3)


def test_the_epoch_may_jump_but_never_fall(log: Log) -> None:
    assert log(elected(log, 2, new_epoch=7)).ok
    assert log.group.epoch == 7
    assert log(elected(log, 2, new_epoch=7)).refusal is Refusal.OTHER_EPOCH
    assert log(elected(log, 2, new_epoch=3)).refusal is Refusal.OTHER_EPOCH


def test_an_election_decided_on_old_state_is_refused(log: Log) -> None:
    first, second = elected(log, 2, (2, 3)), elected(log, 3, (2, 3))
    assert log(first).ok
    assert log(second).refusal is Refusal.OTHER_EPOCH
    stale = elected(log, 3, (3,))
    assert log(altered(log, 2)).ok
    assert log(stale).refusal is Refusal.OTHER_SET_EPOCH


def test_nobody_from_outside_the_set_is_elected_without_consent(log: Log) -> None:
    log(altered(log, 1, 2))
    assert log(elected(log, 3)).refusal is Refusal.NOT_A_CANDIDATE
    assert log(elected(log, 2, (2, 3))).refusal is Refusal.NOT_A_CANDIDATE
    assert log(elected(log, 9)).refusal is Refusal.UNKNOWN_REPLICA
    assert log(elected(log, 3, unclean=True)).ok
    assert log.group.members == [3]


def test_a_learner_is_never_elected(log: Log) -> None:
    log(applied(4, learner=True))
    assert log(elected(log, 4, unclean=True)).refusal is Refusal.LEARNER


def test_alter_checks_in_the_order_of_rocketmq(log: Log) -> None:
    group = log.group
    other = {"master": 2, "epoch": 9, "set_epoch": 9}
    assert log(altered(log, 3, 2, 1, **other)).refusal is Refusal.SAME_SET
    assert log(altered(log, 7, **other)).refusal is Refusal.NOT_MASTER
    assert log(altered(log, 7, epoch=9, set_epoch=9)).refusal is Refusal.OTHER_EPOCH
    assert log(altered(log, 7, set_epoch=9)).refusal is Refusal.OTHER_SET_EPOCH
    assert log(altered(log, 7)).refusal is Refusal.UNKNOWN_REPLICA
    assert log(altered(log, 2, 3)).refusal is Refusal.WITHOUT_MASTER
    assert log(altered(log)).refusal is Refusal.WITHOUT_MASTER
    assert log(altered(log, 1, 3)).ok
    assert (group.members, group.set_epoch) == ([1, 3], 3)


def test_alter_without_a_master_is_refused(log: Log) -> None:
    log(updated(1, ended=True))
    assert log(altered(log, 1, 2, master=1)).refusal is Refusal.NOT_MASTER


def test_a_learner_does_not_enter_the_set(log: Log) -> None:
    log(applied(4, learner=True))
    assert log(altered(log, 1, 2, 3, 4)).refusal is Refusal.LEARNER


def test_a_replica_that_turns_learner_leaves_the_set(log: Log) -> None:
    log(updated(3, learner=True))
    assert (log.group.members, log.group.set_epoch) == ([1, 2], 3)


def test_unknown_groups_and_replicas() -> None:
    log = Log()
    assert log(updated(1)).refusal is Refusal.UNKNOWN_GROUP
    log(applied(1))
    assert log(updated(2)).refusal is Refusal.UNKNOWN_REPLICA


def test_an_update_changes_the_address_and_nothing_else(log: Log) -> None:
    assert log(updated(2, address="new:1", ha_address="new:2", floor=2)).ok
    replica = log.group.replicas[2]
    assert (replica.address, replica.ha_address, replica.floor) == ("new:1", "new:2", 2)
    assert replica.check_code == "h2;1"
    assert log.group.set_epoch == 2
    assert log(updated(2, address="new:1", floor=2)) == CommandOutcome(changed=False)


def test_a_master_whose_process_ended_is_no_master_but_the_epoch_stays(log: Log) -> None:
    log(updated(1, session="s", ended=True))
    assert (log.group.master, log.group.epoch, log.group.members) == (None, 1, [1, 2, 3])


def test_an_unclean_restart_leaves_the_set_until_it_is_taken_in_again(log: Log) -> None:
    late = altered(log, 1, 3)
    log(updated(2, session="s2", lost_tail=True))
    assert log.group.replicas[2].unclean
    assert (log.group.members, log.group.set_epoch) == ([1, 3], 3)
    assert not log(late).ok
    log(altered(log, 1, 2, 3))
    assert not log.group.replicas[2].unclean


def test_an_unclean_restart_outside_the_set_fences_what_was_asked_before(log: Log) -> None:
    log(altered(log, 1, 3))
    on_the_way = altered(log, 1, 2, 3)
    log(updated(2, session="s2", lost_tail=True))
    assert log(on_the_way).refusal is Refusal.OTHER_SET_EPOCH
    assert log.group.replicas[2].unclean


def test_the_last_member_stays_though_unclean(log: Log) -> None:
    log(altered(log, 1))
    log(updated(1, session="s", lost_tail=True, ended=True))
    assert log.group.members == [1]
    assert log.group.replicas[1].unclean
    assert log(elected(log, 1)).ok
    assert not log.group.replicas[1].unclean


def test_the_same_session_is_marked_once(log: Log) -> None:
    log(updated(2, session="s2", lost_tail=True))
    log(altered(log, 1, 2, 3))
    log(updated(2, session="s2", lost_tail=True, address="moved:1"))
    assert not log.group.replicas[2].unclean


def test_a_replica_that_leaves_a_set_below_the_minimum_stays_a_candidate(log: Log) -> None:
    log(updated(1, floor=2))
    log(altered(log, 1, 2))
    assert log.group.candidates == []
    log(altered(log, 1))
    assert log.group.candidates == [2]
    assert log(elected(log, 2)).ok
    log(updated(2, floor=2))
    assert log.group.candidates == []


def test_a_lower_floor_of_the_master_ends_the_candidates(log: Log) -> None:
    """From then on it may acknowledge without them."""
    log(updated(1, floor=2))
    log(altered(log, 1))
    log(updated(2, floor=1))
    assert log.group.candidates == [2, 3], "not the master's"
    log(updated(1, floor=1))
    assert log.group.candidates == []


def test_a_set_at_the_floor_has_no_candidates(log: Log) -> None:
    log(updated(1, floor=2))
    log(altered(log, 1))
    assert log.group.candidates == [2, 3]
    log(updated(2, session="s", lost_tail=True))
    assert log.group.candidates == [3]
    log(altered(log, 1, 2))
    assert log.group.candidates == []


def test_cleaning_takes_what_was_listed(log: Log) -> None:
    assert log(CleanBrokerData(*KEY, ids=(3, 77))).ok
    assert sorted(log.group.replicas) == [1, 2]
    assert (log.group.members, log.group.set_epoch) == ([1, 2], 3)
    assert log(CleanBrokerData(*KEY, ids=(1,))).ok
    assert (log.group.master, log.group.members) == (None, [2])


def test_cleaning_never_empties_the_set_of_a_group_that_lives_on(log: Log) -> None:
    log(altered(log, 1))
    assert log(CleanBrokerData(*KEY, ids=(1,))).refusal is Refusal.EMPTY_SET
    assert 1 in log.group.replicas
    assert log(CleanBrokerData(*KEY, ids=(1, 2, 3))).ok
    assert log.machine.groups == log.machine.by_name == {}


def test_cleaning_nobody_in_particular_drops_the_group(log: Log) -> None:
    assert log(CleanBrokerData(*KEY)).ok
    assert log.machine.groups == {}


def test_equal_names_in_two_clusters_are_two_groups() -> None:
    log = Log()
    log(applied(1))
    log(ApplyBrokerId("d", "b", broker_id=1, address="x:1", check_code="x"))
    assert log.machine.by_name == {"b": [("c", "b"), ("d", "b")]}
    log(CleanBrokerData("c", "b"))
    assert log.machine.by_name == {"b": [("d", "b")]}


def test_replicas_are_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups together must fit into a snapshot."""
    monkeypatch.setattr(limits, "REPLICAS_MAX", 3)
    assert log(applied(4)).refusal is Refusal.FULL
    monkeypatch.setattr(limits, "REPLICAS_MAX", 64)
    monkeypatch.setattr(limits, "REPLICAS_TOTAL_MAX", 3)
    other = ApplyBrokerId("d", "d", broker_id=1, address="h:1", check_code="x")
    assert log(applied(4)).refusal is log(other).refusal is Refusal.FULL
    assert list(log.machine.groups) == [KEY]
    restored = Machine()
    restored.restore(9, log.machine.snapshot())
    assert restored.apply(10, encode(other)).refusal is Refusal.FULL
    log(CleanBrokerData(*KEY, ids=(3,)))
    assert log(applied(4)).ok
    log(CleanBrokerData(*KEY))
    assert log(other).ok


def test_a_setting_is_kept() -> None:
    log = Log()
    assert log(SetSetting("", "k", value="true")).changed
    assert not log(SetSetting("", "k", value="true")).changed
    assert log.machine.settings == {"k": "true"}


def test_a_snapshot_is_the_whole_state(log: Log) -> None:
    log(SetSetting("", "k", value="v"))
    log(updated(2, session="s", lost_tail=True, floor=3))
    other = Machine()
    other.restore(9, log.machine.snapshot())
    assert other.state_hash() == log.machine.state_hash()
    assert other.groups == log.machine.groups
    assert other.by_name == log.machine.by_name
    assert other.applied == 9
    empty = Machine()
    assert empty.state_hash() != other.state_hash()


def test_the_same_log_gives_the_same_state(log: Log) -> None:
    other = Machine()
    for index, data in enumerate(log.entries, 1):
        other.apply(index, data)
    assert other.state_hash() == log.machine.state_hash()


def test_a_leaders_first_entry_does_nothing() -> None:
    machine = Machine()
    before = machine.state_hash()
    assert not machine.apply(1, b"").changed
    assert machine.state_hash() == before
    with pytest.raises(OurBug, match="INV-05"):
        machine.apply(1, b"")


def test_a_snapshot_that_cannot_be_read_is_said_so() -> None:
    with pytest.raises(StoreDamaged, match="cannot be read"):
        Machine().restore(1, b"nonsense")
    newer = Machine().snapshot().replace(b"version\x01", b"version\x02")
    with pytest.raises(StoreDamaged, match="version 2"):
        Machine().restore(1, newer)
