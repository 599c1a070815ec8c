"""Which topics are asked for when, and who is told what."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from epochmq.base import limits
from epochmq.broker.consume.route_book import RETRY_MS, UNWANTED_MS, Queues, RouteBook
from epochmq.model.topic import MessageQueue

POLL = 30_000
ONE: Queues = (MessageQueue("T", "a", 0),)
TWO: Queues = (*ONE, MessageQueue("T", "b", 0))


class Told(list[Queues | None]):
    """What a waiter was told."""

    def find(self, book: RouteBook, now: int, topic: str = "T") -> "Told":
        book.find(topic, now, self.append)
        return self


def test_all_callers_wait_for_the_first_question() -> None:
    book = RouteBook(POLL)
    first, second = Told().find(book, 0), Told().find(book, 1)
    assert book.due(1) == ["T"]
    third = Told().find(book, 2)
    assert book.due(2) == []
    assert book.statistics() == {"topics": 1, "waiting": 3}
    assert book.next_deadline() is None
    book.came("T", ONE, 5)
    assert first == second == third == [ONE]
    assert Told().find(book, 6) == [ONE]
    assert book.next_deadline() == 5 + POLL


def test_routes_are_asked_for_again_and_an_old_one_serves_meanwhile() -> None:
    book = RouteBook(POLL)
    Told().find(book, 0)
    book.due(0)
    book.came("T", ONE, 0)
    assert book.due(POLL - 1) == []
    assert book.due(POLL) == ["T"]
    assert Told().find(book, POLL) == [ONE]
    book.failed("T", POLL)
    assert Told().find(book, POLL + 1) == [ONE]
    assert book.due(POLL + RETRY_MS) == ["T"]
    book.came("T", TWO, POLL + RETRY_MS)
    assert Told().find(book, POLL + RETRY_MS) == [TWO]


def test_an_unknown_topic_is_nobodys_for_a_moment() -> None:
    book = RouteBook(POLL)
    waiting = Told().find(book, 0)
    book.due(0)
    book.came("T", (), 10)
    assert waiting == [None]
    assert Told().find(book, 10 + RETRY_MS - 1) == [None]
    later = Told().find(book, 10 + RETRY_MS)
    assert book.due(10 + RETRY_MS) == ["T"]
    assert later == []
    book.failed("T", 10 + RETRY_MS)
    assert later == [None]


def test_what_nobody_wants_is_forgotten() -> None:
    book = RouteBook(POLL)
    Told().find(book, 0)
    book.due(0)
    book.came("T", ONE, 0)
    assert book.due(UNWANTED_MS) == []
    assert book.statistics()["topics"] == 0
    book.came("T", ONE, UNWANTED_MS)
    book.failed("T", UNWANTED_MS)
    assert book.statistics()["topics"] == 0


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUTES_WATCHED_MAX", 1)
    book = RouteBook(POLL)
    assert Told().find(book, 0) == []
    assert Told().find(book, 0, "U") == [None]


class Waiters(RuleBasedStateMachine):
    """Every waiter is told exactly once, and what it is told is the newest that came."""

    def __init__(self) -> None:
        super().__init__()
        self.book = RouteBook(POLL)
        self.now = 0
        self.newest: Queues | None = None
        self.open: list[list[Queues | None]] = []

    @rule()
    def find(self) -> None:
        told: list[Queues | None] = []
        self.book.find("T", self.now, told.append)
        if told:
            assert told == [self.newest]
        else:
            self.open.append(told)

    @rule(step=st.sampled_from([1, RETRY_MS, POLL, UNWANTED_MS]))
    def later(self, step: int) -> None:
        self.now += step

    @rule(queues=st.sampled_from([ONE, TWO, (), None]))
    def round(self, queues: Queues | None) -> None:
        if not self.book.statistics()["topics"]:
            self.newest = None
        if self.book.due(self.now) != ["T"]:
            if not self.book.statistics()["topics"]:
                self.newest = None
            return
        if queues is None:
            self.book.failed("T", self.now)
        else:
            self.newest = queues or None
            self.book.came("T", queues, self.now)
        assert [told for told in self.open if told != [self.newest]] == []
        self.open.clear()

    @invariant()
    def nobody_is_told_twice(self) -> None:
        assert all(len(told) == 0 for told in self.open)


TestWaiters = Waiters.TestCase
