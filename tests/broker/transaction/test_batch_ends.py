"""The ends of a turn taken together: the same as one by one."""

from collections.abc import Iterator

import pytest
from sim.kernel.disk import SimDisk
from tests.broker.become import become
from tests.broker.produce.native_pairs import Pair
from tests.broker.requests.put_aside import HALF_TEXT, answers, close, half, opened, settle, taken
from tests.broker.transaction.around import end

from epochmq.broker.serving.roles import Role
from epochmq.broker.transaction.ending import MISSES_MAX
from epochmq.native import library

pytestmark = pytest.mark.skipif(library.library() is None, reason=library.which())


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = opened()
    yield made
    close(made)


def test_the_commits_of_a_turn(pair: Pair) -> None:
    halves = [half(n, f"{HALF_TEXT}\x02TAGS\x01t{n}\x02KEYS\x01k{n} all") for n in range(1, 9)]
    assert taken(pair, 0, *halves)
    ends = [end(answer, oneway=True) for answer in answers(pair)]
    assert taken(pair, 0, *ends, half(20))
    pair.turn()
    settle(pair)
    for harness in pair.harnesses:
        assert sorted(m.body for n in range(4) for m in harness.stored("T", n)) == sorted(
            [b"first", *(b"body%d" % n for n in range(1, 9))]
        )
        assert harness.node.transactions.statistics()["committed"] == 8
    assert taken(pair, 1, *ends)  # again: they are over
    pair.turn()
    settle(pair, 5_000)
    assert taken(pair, 1, *ends[:2])
    pair.turn()
    settle(pair, 5_000)
    for harness in pair.harnesses:
        assert harness.node.transactions.statistics()["committed"] == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"producerGroup": "other"},
        {"tranStateTableOffset": 99},
        {"tranStateTableOffset": -1},
        {"commitLogOffset": 1},
        {"transactionId": "x", "msgId": "y"},
        {"commitOrRollback": 12},
        {"commitOrRollback": 0},
        {"fromTransactionCheck": "maybe"},
        {"msgId": "pä"},
    ],
)
def test_ends_that_are_not_ordinary(pair: Pair, wrong: dict[str, object]) -> None:
    taken(pair, 0, half(1), half(2))
    one, two = answers(pair)
    taken(pair, 0, end(one, oneway=True, **wrong))
    pair.turn()
    taken(pair, 0, end(one, oneway=True, **wrong), end(two, oneway=True))
    pair.turn()
    settle(pair, 5_000)
    figures = [harness.node.transactions.statistics() for harness in pair.harnesses]
    assert figures[0] == figures[1]
    assert figures[0]["committed"] >= 1


def test_what_is_not_written_is_open_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    taken(pair, 0, *[half(n) for n in range(1, 4)])
    ends = [end(answer, oneway=True) for answer in answers(pair)]
    with monkeypatch.context() as patch:
        patch.setattr(SimDisk, "usage", lambda _disk: (100, 1))
        for harness in pair.harnesses:
            harness.look_at_disk()
            assert not harness.store.writable
        assert taken(pair, 0, *ends)
        pair.turn()
    for harness in pair.harnesses:
        figures = harness.node.transactions.statistics()
        assert (figures["committed"], figures["refused"], figures["open"]) == (0, 3, 3)
        harness.wait_writable()
    assert taken(pair, 0, *ends)
    pair.turn()
    for harness in pair.harnesses:
        assert harness.node.transactions.statistics()["committed"] == 3


def test_many_that_native_code_leaves_go_one_by_one(pair: Pair) -> None:
    """Each names another transaction's key: what they cost stays bounded, none is committed."""
    many = MISSES_MAX + 4
    taken(pair, 0, *[half(n) for n in range(1, 2 * many)])
    made = answers(pair)
    wrong = [end(a, oneway=True, msgId="x", transactionId="y") for a in made[:many]]
    assert taken(pair, 0, *wrong, *[end(a, oneway=True) for a in made])
    pair.turn()
    settle(pair)
    for harness in pair.harnesses:
        figures = harness.node.transactions.statistics()
        assert (figures["committed"], figures["refused"]) == (2 * many - 1, many)


def test_only_masters_end_transactions(pair: Pair) -> None:
    taken(pair, 0, half(1))
    ends = [end(answer, oneway=True) for answer in answers(pair)]
    for role, committed in ((Role.SLAVE, 0), (Role.MASTER, 0), (Role.MASTER, 1)):
        for harness in pair.harnesses:
            if harness.node.serving.role is not role:
                become(harness.node, role)
        taken(pair, 0, *ends)
        pair.turn()
        for harness in pair.harnesses:
            assert harness.node.transactions.statistics()["committed"] == committed
        settle(pair)
