"""Whose ids count at once, and who waits for the controllers' word."""

from epochmq.base.limits import BROKER_ID_MAX
from epochmq.replication.frames import Hello
from epochmq.replication.link import ReplicaLink
from epochmq.replication.unconfirmed_followers import UnconfirmedFollowers

SET = frozenset({1, 2})


def hello(number: int, *, learner: bool = False) -> Hello:
    return Hello(False, learner, number)


def link(number: int) -> ReplicaLink:
    return ReplicaLink(number, "peer", 0, 0)


def test_members_and_registered_brokers_are_known() -> None:
    unconfirmed = UnconfirmedFollowers(frozenset({3}))
    assert [unconfirmed.is_known(hello(n), SET) for n in (1, 2, 3, 4)] == [True, True, True, False]
    a_replica_of_ours = hello(4, learner=True)
    assert not unconfirmed.is_known(a_replica_of_ours, SET), "a replica that registered"


def test_without_controllers_everybody_is_believed() -> None:
    assert UnconfirmedFollowers(None).is_known(hello(77), SET)


def test_ids_above_all_brokers_only_read() -> None:
    unconfirmed = UnconfirmedFollowers(frozenset())
    assert unconfirmed.is_known(hello(BROKER_ID_MAX + 1, learner=True), SET)
    assert not unconfirmed.is_known(hello(BROKER_ID_MAX + 1), SET)
    assert not unconfirmed.is_known(hello(BROKER_ID_MAX, learner=True), SET)


def test_old_followers_name_an_address_and_count_as_learners() -> None:
    assert UnconfirmedFollowers(frozenset()).is_known(Hello(False, False, None, "10.0.0.9:1"), SET)


def test_followers_that_arrive_during_a_question_wait_for_the_next() -> None:
    unconfirmed = UnconfirmedFollowers(frozenset())
    first, second, third = link(1), link(2), link(3)
    assert unconfirmed.hold(first, hello(3))
    assert not unconfirmed.hold(second, hello(4))
    assert not unconfirmed.hold(third, hello(5))
    assert len(unconfirmed) == 3
    unconfirmed.drop(3)
    waited, again = unconfirmed.set_registered(frozenset({4}))
    assert [each.number for each, _ in waited] == [1], "whether it is registered or not"
    assert again, "4 may have registered since the question was put"
    assert unconfirmed.is_known(hello(4), SET)
    waited, again = unconfirmed.set_registered(frozenset({4}))
    assert [each.number for each, _ in waited] == [2]
    assert not again
    assert unconfirmed.set_registered(frozenset()) == ([], False)


def test_closed_connections_do_not_block_the_admission_of_others() -> None:
    """However often somebody calls and leaves: the question under way is answered and counts."""
    unconfirmed = UnconfirmedFollowers(frozenset())
    assert unconfirmed.hold(link(1), hello(9))
    assert not unconfirmed.hold(link(2), hello(4))
    unconfirmed.drop(1)
    assert not unconfirmed.hold(link(3), hello(9))
    unconfirmed.drop(3)
    assert unconfirmed.set_registered(frozenset({4})) == ([], True)
    assert not unconfirmed.hold(link(4), hello(9))
    waited, again = unconfirmed.set_registered(frozenset({4}))
    assert [each.number for each, _ in waited] == [2]
    assert again
    unconfirmed.drop(4)
    assert unconfirmed.set_registered(frozenset({4})) == ([], False)
    assert unconfirmed.hold(link(5), hello(9))
