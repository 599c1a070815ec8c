"""Searches by key take turns, a bounded piece a turn of the loop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from epochmq.base import limits
from epochmq.base.errors import DiskFailed, Refused
from epochmq.broker.consume import key_searches
from epochmq.broker.consume.key_searches import STEP_ITEMS, KeySearches
from epochmq.store.cold_reads import WAITING_MAX, ColdReads
from epochmq.store.key_query import KeySearch
from epochmq.store.log_memory import NotInMemory
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
        self.reads: list[Callable[[], None]] = []
        self.is_only = False
        """Whether a step must not wait for the device now."""
        self.cold_reads = ColdReads(self._read)
        self.searches = KeySearches(self.later.append, self.cold_reads, self._memory_only)
        self.looked: list[str] = []
        self.done: list[tuple[str, IndexResult | None]] = []

    def _read(self, call: Callable[[], None], done: Callable[[None], None]) -> None:
        self.reads.append(lambda: done(call()))

    @contextmanager
    def _memory_only(self) -> Iterator[None]:
        self.is_only = True
        try:
            yield
        finally:
            self.is_only = False

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


class Cold(Long):
    """A search whose every step needs bytes that are not in memory, once."""

    is_cold = True

    def step(self, items: int) -> bool:
        if self.is_cold:
            self._looked.append(f"cold {self._name}")
            raise NotInMemory(self.warm)
        self.is_cold = True
        return super().step(items)

    def warm(self) -> None:
        self.is_cold = False


def test_a_search_that_waits_for_the_device_does_not_hold_up_others() -> None:
    turns = Turns()
    cold = cast(KeySearch, Cold("cold", 2, turns.looked))
    turns.searches.run(cold, lambda found: turns.done.append(("cold", found)))
    assert (len(turns.searches), turns.later, len(turns.reads)) == (1, [], 1)
    turns.run("warm", 2)
    while turns.later:
        turns.turn()
    assert turns.done == [("warm", FOUND)]
    while turns.reads or turns.later:
        if turns.reads:
            turns.reads.pop()()
        turns.turn()
    assert turns.done == [("warm", FOUND), ("cold", FOUND)]
    assert turns.looked == ["cold cold", "warm", "warm", "cold", "cold cold", "cold"]
    assert len(turns.searches) == 0


def test_searches_that_wait_for_the_device_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEY_SEARCHES_MAX", 2)
    turns = Turns()
    for name in ("a", "b"):
        turns.searches.run(cast(KeySearch, Cold(name, 1, turns.looked)), lambda _: None)
    with pytest.raises(Refused):
        turns.run("c", 1)


def test_a_search_ends_although_its_records_leave_the_memory_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_searches, "COLD_READS_MAX", 3)
    turns = Turns()

    class Thrashing(Long):
        def step(self, items: int) -> bool:
            if turns.is_only:
                raise NotInMemory(lambda: None)
            return super().step(items)

    search = cast(KeySearch, Thrashing("a", 1, turns.looked))
    turns.searches.run(search, lambda found: turns.done.append(("a", found)))
    for _ in range(3):
        assert not turns.done
        turns.reads.pop()()
        turns.turn()
    assert turns.done == [("a", FOUND)]
    assert not turns.reads


def test_without_room_for_another_cold_read_a_search_waits_in_the_loop() -> None:
    turns = Turns()
    for _ in range(WAITING_MAX):
        turns.cold_reads.run(lambda: None, lambda: None)
    only: list[bool] = []

    class Noting(Long):
        def step(self, items: int) -> bool:
            only.append(turns.is_only)
            return super().step(items)

    search = cast(KeySearch, Noting("more", 1, turns.looked))
    turns.searches.run(search, lambda found: turns.done.append(("more", found)))
    assert turns.done == [("more", FOUND)]
    assert only == [False]
