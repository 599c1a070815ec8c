"""Which description of the group is newer."""

from epochmq.broker.group.broker_identity import Known
from epochmq.broker.group.controller_requests import (
    GroupDescription,
    is_old,
    merge,
    role_in,
    same_role,
    unelected,
)
from epochmq.broker.group.membership_effects import BecomeFollower, BecomeMaster

SET = frozenset({1, 2})


def test_epochs_that_are_over_are_old() -> None:
    assert is_old(GroupDescription(3), GroupDescription(4), Known())
    assert is_old(GroupDescription(3), GroupDescription(), Known("i", 0, 4))
    assert not is_old(GroupDescription(4), GroupDescription(4), Known("i", 0, 4))


def test_terms_that_are_over_are_old_under_the_same_epoch_only() -> None:
    known = Known("i", 5, 4)
    assert is_old(GroupDescription(4, term=4), GroupDescription(), known)
    assert not is_old(
        GroupDescription(4, term=0), GroupDescription(), known
    )  # a controller that does not say
    assert not is_old(GroupDescription(5, term=1), GroupDescription(), known)


def test_a_set_without_members_does_not_replace_one_that_is_known() -> None:
    present = GroupDescription(4, 1, "a", None, 2, SET)
    told = GroupDescription(4, 1, "", "ha", 3, None)
    merged = merge(present, told)
    assert (merged.set_epoch, merged.members) == (2, SET)
    assert (merged.master_address, merged.ha_address) == ("a", "ha")


def test_a_newer_set_replaces_an_older_one_and_not_the_reverse() -> None:
    present = GroupDescription(4, 1, "a", None, 2, SET)
    newer = GroupDescription(4, 1, "a", None, 3, frozenset({1}))
    assert merge(present, newer).members == {1}
    assert merge(newer, present).members == {1}


def test_a_set_older_than_one_that_was_heard_of_without_its_members_is_not_taken() -> None:
    heard = GroupDescription(epoch=3, master_id=1, set_epoch=7)
    older = GroupDescription(epoch=3, master_id=1, set_epoch=6, members=frozenset({1}))
    assert merge(heard, older).set_epoch == 7
    assert merge(heard, older).members is None
    same = GroupDescription(epoch=3, master_id=1, set_epoch=7, members=frozenset({1, 2}))
    assert merge(heard, same).members == frozenset({1, 2})


def test_roles() -> None:
    view = GroupDescription(4, 1, "a", "ha", 2, SET)
    assert role_in(view, 1, learner=False) == BecomeMaster(4, SET, 2)
    assert role_in(view, 2, learner=True) == BecomeFollower(4, 1, "a", "ha", True)
    assert role_in(GroupDescription(4), 1, learner=False) is None
    assert role_in(GroupDescription(4, 1, "a"), 1, learner=False) is None


def test_another_set_is_no_other_role() -> None:
    assert same_role(BecomeMaster(4, SET, 2), BecomeMaster(4, frozenset({1}), 3))
    assert not same_role(BecomeMaster(4, SET, 2), BecomeMaster(5, SET, 2))
    assert not same_role(None, BecomeMaster(4, SET, 2))
    follower = BecomeFollower(4, 1, "a", None, False)
    assert same_role(follower, follower)
    assert not same_role(follower, BecomeFollower(4, 1, "a", "ha", False))
    assert not same_role(follower, BecomeMaster(4, SET, 2))


def test_a_master_whose_process_ended_is_not_believed_in_again() -> None:
    """S19: the set's epoch rose when its next process told what it had lost."""
    ended = GroupDescription(epoch=3, set_epoch=6)
    assert is_old(GroupDescription(epoch=3, master_id=2, set_epoch=5), ended, Known())
    assert not is_old(GroupDescription(epoch=3, master_id=2, set_epoch=6), ended, Known())
    assert not is_old(GroupDescription(epoch=4, master_id=2, set_epoch=1), ended, Known())


def test_a_broker_elected_before_its_registration_does_not_count_as_elected() -> None:
    view = GroupDescription(epoch=3, master_id=2, set_epoch=5)
    assert unelected(view, 2).master_id is None
    assert unelected(view, 1) == view
    assert unelected(view, None) == view
