"""The broker's shares, by RocketMQ's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.broker.consume.queue_assignment import share
from epochmq.model.topic import ANY_QUEUE, MessageQueue
from epochmq.wire.bodies.pop_bodies import MODE_POP, MODE_PULL, MessageRequestMode

PULL = MessageRequestMode("T", "g", mode=MODE_PULL)


def pop(sharing: int) -> MessageRequestMode:
    return MessageRequestMode("T", "g", mode=MODE_POP, pop_share_queue_num=sharing)


def queues(count: int, *brokers: str) -> list[MessageQueue]:
    return [MessageQueue("T", name, n) for name in brokers or ("a",) for n in range(count)]


def numbers(found: list[MessageQueue] | None) -> list[int]:
    assert found is not None
    return [queue.queue_id for queue in found]


def test_pull_shares_are_those_that_clients_reckon() -> None:
    ids = ["c2", "c1", "c3"]
    assert numbers(share("c1", "AVG", PULL, queues(8), ids)) == [0, 1, 2]
    assert numbers(share("c3", "AVG", PULL, queues(8), ids)) == [6, 7]
    assert numbers(share("c2", "AVG_BY_CIRCLE", PULL, queues(8), ids)) == [1, 4, 7]


@pytest.mark.parametrize("sharing", [-1, 0, 2, 9])
def test_pop_of_all_is_every_broker_once(sharing: int) -> None:
    found = share("c1", "AVG", pop(sharing), queues(4, "a", "b"), ["c1", "c2", "c3"])
    assert found == [MessageQueue("T", name, ANY_QUEUE) for name in ("a", "b")]
    # Whoever the broker does not know yet may pop, too.
    assert share("new", "AVG", pop(sharing), queues(4, "a", "b"), ["c1", "c2", "c3"]) == found


def test_pop_with_the_next_neighbours() -> None:
    ids = ["c1", "c2", "c3", "c4"]
    assert numbers(share("c1", "AVG", pop(1), queues(8), ids)) == [0, 1, 2, 3]
    assert numbers(share("c4", "AVG", pop(2), queues(8), ids)) == [0, 1, 2, 3, 6, 7]
    assert share("new", "AVG", pop(1), queues(8), ids) == []


def test_more_members_than_queues_have_one_each() -> None:
    ids = [f"c{n}" for n in range(5)]
    assert [numbers(share(c, "AVG", pop(1), queues(2), ids)) for c in ids] == [
        [0],
        [1],
        [0],
        [1],
        [0],
    ]


def test_what_cannot_be_told() -> None:
    assert share("c", "CONFIG", PULL, queues(1), ["c"]) is None
    assert share("c", "AVG", PULL, [], ["c"]) is None
    assert share("c", "AVG", PULL, queues(1), []) is None
    assert share("new", "AVG", PULL, queues(1), ["c"]) == []


@given(
    st.integers(1, 20),
    st.lists(st.text("abc", min_size=1), min_size=1, max_size=8, unique=True),
    st.integers(-1, 9),
    st.sampled_from(["AVG", "AVG_BY_CIRCLE"]),
)
def test_no_queue_is_left_out(count: int, ids: list[str], sharing: int, strategy: str) -> None:
    for mode in (PULL, pop(sharing)):
        shares = [share(client, strategy, mode, queues(count), ids) for client in ids]
        covered = {queue for row in shares for queue in row or ()}
        assert covered == set(queues(count)) or covered == {MessageQueue("T", "a", ANY_QUEUE)}
        if mode is PULL:
            assert sum(len(row or ()) for row in shares) == count
