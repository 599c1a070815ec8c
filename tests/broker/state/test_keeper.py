"""When topics and groups are saved, and who waits for that."""

from collections.abc import Callable

import pytest
from sim.kernel.disk import SimDisk

from epochmq.base.errors import DiskFull
from epochmq.broker.state.groups import GroupTable
from epochmq.broker.state.keeper import (
    FOLD_MS,
    FOLD_SMALL_MS,
    SMALL_BYTES,
    Done,
    MetadataKeeper,
    write_here,
)
from epochmq.broker.state.metadata_journal import TableJournal
from epochmq.broker.state.topic_table import TopicTable
from epochmq.model.topic import TopicConfig

WALL = 1_700_000_000_000


class Held:
    """A keeper whose writes end when the test says so."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.topics, self.groups = TopicTable(), GroupTable()
        self.journal = TableJournal(self.disk)
        self.writes: list[tuple[Callable[[], None], Done]] = []
        self.keeper = MetadataKeeper(
            self.journal,
            (self.topics, self.groups),
            lambda call, done: self.writes.append((call, done)),
        )
        self.keeper.load()
        self.said: list[str] = []

    def put(self, name: str) -> None:
        self.topics.put(TopicConfig(name, 4, 4), WALL)
        self.keeper.when_saved(lambda: self.said.append(name))
        self.keeper.save(0, WALL)

    def end(self) -> None:
        write_here(*self.writes.pop(0))


def test_a_waiter_is_called_when_its_own_change_is_on_disk() -> None:
    held = Held()
    held.put("a")
    held.put("b")
    held.put("c")
    assert (len(held.writes), held.said) == (1, [])
    assert all(held.keeper.is_unsaved(held.topics, name) for name in "abc")
    held.end()
    assert held.said == ["a"]
    assert not held.keeper.is_unsaved(held.topics, "a")
    assert held.keeper.is_unsaved(held.topics, "b")
    assert len(held.writes) == 1  # both others together, at once
    held.end()
    assert held.said == ["a", "b", "c"]
    assert not held.writes
    assert held.keeper.writing is None


def test_nothing_to_save_is_saved() -> None:
    held = Held()
    held.keeper.when_saved(lambda: held.said.append("now"))
    assert held.said == ["now"]
    held.keeper.save(0, WALL)
    assert not held.writes


def test_a_disk_that_refuses_is_said_and_tried_again() -> None:
    held = Held()
    held.put("a")
    held.topics.delete("a", WALL)
    held.put("b")
    _call, done = held.writes.pop()
    done(DiskFull("no space"))
    assert held.said == ["a"]
    assert held.keeper.dirty
    held.keeper.save(0, WALL)
    held.end()
    assert held.said == ["a", "b"]
    found = Held()
    found.journal = TableJournal(held.disk)
    found.journal.load((found.topics, found.groups))
    assert set(found.topics.table) == {"b"}


def test_the_tables_are_written_as_they_were_when_the_write_began() -> None:
    held = Held()
    held.put("a")
    held.topics.put(TopicConfig("b", 4, 4), WALL)
    held.groups.set_forbidden("g", "t", 4, WALL)
    held.end()
    data = held.disk.read_file(TopicTable.file) or b""
    assert b'"a"' in data
    assert b'"b"' not in data


@pytest.mark.parametrize(("size", "delay_ms"), [(0, FOLD_SMALL_MS), (SMALL_BYTES + 1, FOLD_MS)])
def test_a_change_is_in_the_journal_alone_for_a_short_time(size: int, delay_ms: int) -> None:
    """For a second while the tables are small, for a minute at most."""
    held = Held()
    held.put("a")
    held.end()
    held.journal.folded_bytes = max(size, held.journal.folded_bytes)
    held.put("b")
    held.end()
    held.keeper.save(delay_ms - 1, WALL)
    assert not held.writes
    held.keeper.save(delay_ms, WALL)
    held.end()
    assert b'"b"' in (held.disk.read_file(TopicTable.file) or b"")
    again = MetadataKeeper(TableJournal(held.disk), (TopicTable(), GroupTable()))
    again.load()
    again.save(0, WALL)
    assert again.writing is None


def test_what_a_start_finds_in_the_journal_counts_from_then() -> None:
    held = Held()
    for name in ("a", "b"):
        held.put(name)
        held.end()
    topics = TopicTable()
    again = MetadataKeeper(TableJournal(held.disk), (topics, GroupTable()))
    again.load()
    again.save(5, WALL)
    again.save(5 + FOLD_MS, WALL)
    assert b'"b"' in (held.disk.read_file(TopicTable.file) or b"")
