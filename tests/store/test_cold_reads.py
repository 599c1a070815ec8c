"""Reads in another thread: how many wait, and that one that is over makes room."""

from collections.abc import Callable
from functools import partial

import pytest

from epochmq.store import cold_reads
from epochmq.store.cold_reads import ColdReads


def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_reads, "WAITING_MAX", 2)
    waiting: list[Callable[[], None]] = []
    log: list[str] = []

    def run(call: Callable[[], None], done: Callable[[None], None]) -> None:
        waiting.append(lambda: done(call()))  # type: ignore[func-returns-value]

    reads = ColdReads(run)
    for name in "ab":
        assert reads.has_room
        reads.run(partial(log.append, f"read {name}"), partial(log.append, "done"))
    assert not reads.has_room
    waiting.pop()()
    assert reads.has_room
    assert log == ["read b", "done"]


def test_without_a_thread_the_read_is_over_at_once() -> None:
    log: list[str] = []
    reads = ColdReads()
    reads.run(lambda: log.append("read"), lambda: log.append("done"))
    assert log == ["read", "done"]
    assert reads.has_room
