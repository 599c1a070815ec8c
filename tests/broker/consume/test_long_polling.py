"""Waiters wake by offset and by deadline, never twice, and never outlive their connection."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from epochmq.broker.consume.long_polling import SLOT_MS, LongPoll


def poll(per_queue: int = 100, total: int = 1000) -> LongPoll[str]:
    return LongPoll(per_queue_max=per_queue, total_max=total)


def test_wakes_when_the_wanted_offset_exists() -> None:
    core = poll()
    assert core.hold("T", 0, 5, 1, 1000, "a")
    assert core.hold("T", 0, 6, 1, 1000, "b")
    assert core.hold("T", 1, 0, 1, 1000, "other queue")
    assert core.notify("T", 0, 5) == []
    assert core.notify("T", 0, 6) == ["a"]
    assert core.notify("T", 0, 6) == []
    assert core.notify("T", 0, 7) == ["b"]
    assert core.notify("X", 0, 7) == []
    assert len(core) == 1


def test_expires_by_deadline_never_early() -> None:
    core = poll()
    core.hold("T", 0, 5, 1, 1010, "a")
    core.hold("T", 0, 5, 1, 950, "b")
    assert core.next_deadline() == 1000
    assert core.expire(949) == []
    assert core.expire(1000) == ["b"]
    assert core.next_deadline() == 1100
    assert core.expire(1099) == []
    assert core.expire(1100) == ["a"]
    assert core.next_deadline() is None
    assert core.expire(5000) == []


def test_is_bounded_for_a_queue_and_in_all() -> None:
    core = poll(per_queue=2, total=3)
    assert core.hold("T", 0, 0, 1, 1, "a")
    assert core.hold("T", 0, 0, 1, 1, "b")
    assert not core.hold("T", 0, 0, 1, 1, "one too many for the queue")
    assert core.hold("T", 1, 0, 1, 1, "c")
    assert not core.hold("T", 2, 0, 1, 1, "one too many in all")
    assert core.statistics()["refused"] == 2
    core.notify("T", 1, 1)
    assert core.hold("T", 2, 0, 1, 1, "there is room again")


def test_a_closed_connection_takes_its_waiters_along() -> None:
    core = poll()
    core.hold("T", 0, 0, 1, 1000, "a")
    core.hold("T", 1, 0, 1, 1000, "b")
    core.hold("T", 0, 0, 2, 1000, "c")
    assert core.drop(1) == 2
    assert core.drop(1) == 0
    assert core.notify("T", 0, 1) == ["c"]
    assert core.next_deadline() is None


def test_some_of_a_connections_requests_are_taken() -> None:
    core: LongPoll[str] = LongPoll(per_queue_max=10, total_max=10)
    for owner, request in ((1, "a"), (1, "b"), (2, "a")):
        core.hold("T", 0, 0, owner, 500, request)
    assert core.pop_of_owner(1, lambda request: request == "a") == ["a"]
    assert core.pop_of_owner(3, lambda request: True) == []
    assert core.pop_all() == ["b", "a"]


def test_take_all_answers_in_order_of_arrival() -> None:
    core = poll()
    for name, queue in (("a", 2), ("b", 1), ("c", 2)):
        core.hold("T", queue, 0, 1, 1000, name)
    assert core.pop_all() == ["a", "b", "c"]
    assert core.statistics() == {
        "held": 0, "queues": 0, "refused": 0, "woken": 0, "expired": 0,
    }  # fmt: skip


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), st.integers(0, 12_000))
def test_expiry_is_late_by_less_than_a_slot(deadlines: list[int], now: int) -> None:
    core: LongPoll[int] = LongPoll(per_queue_max=100, total_max=100)
    for deadline in deadlines:
        core.hold("T", 0, 0, 1, deadline, deadline)
    over = core.expire(now)
    assert all(deadline <= now for deadline in over)
    assert all(deadline > now - SLOT_MS for deadline in set(deadlines) - set(over))


class LongPollMachine(RuleBasedStateMachine):
    """Against a plain list: each request comes out exactly once, for the right reason."""

    def __init__(self) -> None:
        super().__init__()
        self.core: LongPoll[int] = LongPoll(per_queue_max=5, total_max=12)
        self.model: dict[int, tuple[int, int, int, int]] = {}
        self.count = 0
        self.now = 0

    @rule(queue=st.integers(0, 3), offset=st.integers(0, 4), owner=st.integers(0, 3),
          wait=st.integers(0, 500))  # fmt: skip
    def hold(self, queue: int, offset: int, owner: int, wait: int) -> None:
        self.count += 1
        room = len(self.model) < 12 and sum(q == queue for q, *_ in self.model.values()) < 5
        assert self.core.hold("T", queue, offset, owner, self.now + wait, self.count) == room
        if room:
            self.model[self.count] = (queue, offset, owner, self.now + wait)

    @rule(queue=st.integers(0, 3), new_max=st.integers(0, 6))
    def notify(self, queue: int, new_max: int) -> None:
        expected = [
            n for n, (q, offset, *_) in self.model.items() if q == queue and offset < new_max
        ]
        assert self.core.notify("T", queue, new_max) == expected
        self._forget(expected)

    @rule(step=st.integers(0, 300))
    def expire(self, step: int) -> None:
        self.now += step
        over = self.core.expire(self.now)
        assert set(over) >= {n for n, entry in self.model.items() if entry[3] + SLOT_MS <= self.now}
        assert all(self.model[n][3] <= self.now for n in over)
        self._forget(over)

    @rule(owner=st.integers(0, 3))
    def drop(self, owner: int) -> None:
        gone = [n for n, entry in self.model.items() if entry[2] == owner]
        assert self.core.drop(owner) == len(gone)
        self._forget(gone)

    @rule()
    def take_all(self) -> None:
        assert self.core.pop_all() == sorted(self.model)
        self.model.clear()

    @invariant()
    def agree(self) -> None:
        assert len(self.core) == len(self.model)
        deadline = self.core.next_deadline()
        if self.model:
            assert deadline is not None
            assert deadline < min(e[3] for e in self.model.values()) + SLOT_MS

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.model[number]


TestLongPollMachine = LongPollMachine.TestCase


def test_the_longest_waiter_of_a_queue_alone() -> None:
    core = poll()
    core.hold("T", 0, 7, 1, 1000, "a")
    core.hold("T", 0, 0, 1, 1000, "b")
    assert core.waiting("T", 0) == 2
    assert core.pop_first("T", 0) == "a"
    assert core.pop_first("T", 0) == "b"
    assert core.pop_first("T", 0) is None
    assert (core.waiting("T", 0), len(core)) == (0, 0)
