"""Searches by key take turns, a bounded piece a turn of the loop."""

from collections.abc import Callable
from typing import cast

import pytest

from epochmq.base import limits
from epochmq.base.errors import DiskFailed, Refused
from epochmq.broker.consume.key_searches import STEP_ITEMS, KeySearches
from epochmq.store.key_query import KeySearch
from epochmq.store.message_index import IndexResult
from epochmq.wire.codes import ResponseCode

FOUND = IndexResult([], 1, 2)


class Long:
    """A search of so many steps."""

    result = FOUND

    def __init__(self, name: str, steps: int, looked: list[str]) -> None:
        self._name = name
        self._left = steps
        self._looked = looked

    def step(self, items: int) -> bool:
        assert items == STEP_ITEMS
        if self._left < 0:
            raise DiskFailed("unreadable")
        self._looked.append(self._name)
        self._left -= 1
        return self._left == 0


class Turns:
    """Runs what is put off, one turn at a time."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.searches = KeySearches(self.later.append)
        self.looked: list[str] = []
        self.done: list[tuple[str, IndexResult | None]] = []

    def run(self, name: str, steps: int) -> None:
        search = cast(KeySearch, Long(name, steps, self.looked))
        self.searches.run(search, lambda found: self.done.append((name, found)))

    def turn(self) -> None:
        later, self.later[:] = self.later[:], []
        assert len(later) <= 1
        for call in later:
            call()


def test_what_is_found_at_once_is_answered_at_once() -> None:
    turns = Turns()
    turns.run("a", 1)
    assert turns.done == [("a", FOUND)]
    assert not turns.later


def test_a_long_one_does_not_hold_up_a_short_one() -> None:
    turns = Turns()
    turns.run("long", 50)
    turns.run("short", 1)
    while turns.later:
        turns.turn()
    assert turns.looked[:4] == ["long", "long", "short", "long"]
    assert turns.done == [("short", FOUND), ("long", FOUND)]
    assert len(turns.looked) == 51
    assert len(turns.searches) == 0


def test_a_disk_that_fails_ends_one_search() -> None:
    turns = Turns()
    turns.run("bad", -1)
    turns.run("good", 1)
    assert turns.done == [("bad", None), ("good", FOUND)]


def test_their_number_is_bounded() -> None:
    turns = Turns()
    for number in range(limits.KEY_SEARCHES_MAX):
        turns.run(str(number), 3)
    with pytest.raises(Refused) as refused:
        turns.run("one more", 1)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    while turns.later:
        turns.turn()
    turns.run("later", 1)
    assert turns.done[-1] == ("later", FOUND)
