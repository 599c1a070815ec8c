"""Asking for a table only if it changed."""

import pytest

from epochmq.base import limits
from epochmq.broker.state.stamps import (
    TAKEN_WAIT_MS,
    StampHeader,
    Watchers,
    count_since,
    stamped,
)
from epochmq.wire.command import Command
from epochmq.wire.table_parts import TableParts


def asking(stamp: str | None, wait_ms: int = 0) -> dict[str, str]:
    return TableParts(bytes, stamp).question(wait_ms)


def test_an_unchanged_table_is_not_sent() -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"table"

    whole = stamped(Command(21), "s1", make)
    assert (whole.body, whole.header) == (b"table", StampHeader("s1"))
    again = stamped(Command(21, ext=asking("s1")), "s1", make)
    assert (again.body, again.header) == (b"", StampHeader("s1", unchanged=True))
    assert made == [1]
    assert stamped(Command(21, ext=asking("s1")), "s2", make).body == b"table"


def test_a_stamp_of_this_start_counts() -> None:
    assert count_since(Command(43, ext=asking("7.12")), 7) == 12
    for stamp in (None, "8.12", "7", "7.x", "7.1.2", "7." + "1" * 5_000):
        assert count_since(Command(43, ext=asking(stamp)), 7) is None


def test_a_question_is_kept_until_there_is_news() -> None:
    watchers = Watchers()
    said: list[str] = []
    stamp = ["s1"]

    def hold(name: str, last: str | None, wait_ms: int) -> bool:
        command = Command(21, ext=asking(last, wait_ms))
        return watchers.hold(command, 0, lambda: stamp[0], lambda: said.append(name))

    assert hold("a", "s1", 1000)
    assert hold("b", "s1", 500)
    assert not hold("c", "s0", 500)  # there is news already
    assert not hold("d", "s1", 0)
    assert not hold("e", None, 500)
    watchers.look(499)
    assert said == []
    watchers.look(500)
    assert said == ["b"]
    stamp[0] = "s2"
    watchers.look(501)
    assert said == ["b", "a"]
    watchers.look(5000)
    assert said == ["b", "a"]


class Watched:
    """A table of code 21 with two replicas, and the changes that wait for them."""

    def __init__(self) -> None:
        self.watchers = Watchers()
        self.stamp = "s1"
        self.done: list[str] = []

    def asks(self, session: int, last: str | None, now: int = 0, code: int = 21) -> bool:
        command = Command(code, ext=asking(last, 1500))
        return self.watchers.hold(command, now, lambda: self.stamp, lambda: None, session)

    def changes(self, to: str, now: int = 0) -> None:
        self.stamp = to
        self.watchers.when_taken(21, now, lambda: self.done.append(to))

    def look(self, now: int = 0) -> list[str]:
        self.watchers.look(now)
        return self.done


def test_a_change_waits_until_every_watcher_asks_with_its_stamp() -> None:
    table = Watched()
    table.changes("s2")
    assert table.done == ["s2"]  # nobody watches
    assert table.asks(1, "s2")
    assert not table.asks(2, "s1")  # it is sent s2, and watches all the same
    assert table.asks(3, "s2", code=201)
    table.changes("s3")
    table.changes("s4")
    assert table.look() == ["s2"]
    assert not table.asks(1, "s3")  # not the newest yet
    assert table.asks(1, "s4")
    assert table.look() == ["s2"]
    assert table.asks(2, "s4")
    assert table.look() == ["s2", "s3", "s4"]


def test_a_table_that_counts_is_taken_though_it_changed_again() -> None:
    table = Watched()
    done: list[int] = []
    command = Command(43, ext=asking("7.4", 1500))
    table.watchers.hold(command, 0, lambda: "7.5", lambda: None, 1, 4)
    for count in (5, 6):
        table.watchers.when_taken(43, 0, lambda count=count: done.append(count), count)
    table.watchers.hold(command, 0, lambda: "7.7", lambda: None, 1, None)
    table.watchers.hold(command, 0, lambda: "7.7", lambda: None, 1, 5)
    table.look()
    assert done == [5]
    table.watchers.hold(command, 0, lambda: "7.8", lambda: None, 1, 7)
    table.look()
    assert done == [5, 6]


def test_a_change_waits_for_a_replica_that_asked_once() -> None:
    """It can be elected as soon as it has all tables, before it asks for changes."""
    table = Watched()
    assert not table.watchers.hold(
        Command(21, ext=asking(None, 1500)), 0, lambda: "s1", lambda: None, 1
    )
    table.changes("s2")
    assert table.look() == []
    assert not table.asks(1, "s1")
    assert table.asks(1, "s2")
    assert table.look() == ["s2"]


def test_a_change_waits_for_nobody_for_ever() -> None:
    table = Watched()
    table.asks(1, "s1")
    table.asks(2, "s1")
    table.changes("s2", 100)
    assert table.look(100 + TAKEN_WAIT_MS - 1) == []
    assert table.look(100 + TAKEN_WAIT_MS) == ["s2"]
    table.changes("s3", 2_499)
    table.asks(2, "s3", 2_499)
    assert table.look(2_499) == ["s2"]
    table.watchers.drop(1)  # its connection is gone
    assert table.look(2_499) == ["s2", "s3"]
    table.changes("s4", 4_999)  # the other one has not asked again for too long
    assert table.done == ["s2", "s3", "s4"]


def test_only_waiting_replicas_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched()
    table.watchers.hold(Command(21, ext=asking("s1")), 0, lambda: "s1", lambda: None, 1)
    table.changes("s2")
    assert table.done == ["s2"]
    monkeypatch.setattr(limits, "WATCHERS_MAX", 1)
    assert table.asks(2, "s2")
    assert not table.asks(3, "s2")
    table.changes("s3")
    assert table.asks(2, "s3") is False  # no room, and yet it has it
    assert table.look() == ["s2", "s3"]
