"""Shares of a group: no queue twice, none left out, nothing for a stranger."""

from hypothesis import given
from hypothesis import strategies as st

from epochmq.client.core.consumer_state import difference, wanted
from epochmq.model.allocate import average
from epochmq.model.topic import MessageQueue


@given(st.integers(0, 20), st.integers(1, 7))
def test_every_queue_has_exactly_one_owner(queue_count: int, member_count: int) -> None:
    queues = [MessageQueue("t", "b", index) for index in range(queue_count)]
    members = [f"m{index}" for index in range(member_count)]
    shares = [wanted(average, queues[::-1], members[::-1], member) for member in members]
    assert sorted(queue for share in shares for queue in share) == queues


def test_an_unlisted_member_owns_nothing() -> None:
    assert wanted(average, [MessageQueue("t", "b", 0)], ["other"], "me") == ()


def test_difference_names_both_directions() -> None:
    one, two = MessageQueue("t", "b", 1), MessageQueue("t", "b", 2)
    change = difference([one], [two])
    assert (change.take, change.give) == ((two,), (one,))
