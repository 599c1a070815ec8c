"""Tables are written beside the loop, in order, and again after a failure."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import DiskFull
from epochmq.broker.state.table_writer import TableWriter

T = TypeVar("T")


class Counting:
    """A table that holds a number."""

    file = "config/number.json"

    def __init__(self) -> None:
        self.number = 0
        self.dirty = False

    def add(self) -> None:
        self.number += 1
        self.dirty = True

    def encode(self) -> bytes:
        return b"%d" % self.number

    def load(self, content: dict[str, Any]) -> None:
        raise NotImplementedError


class Inline:
    """A `Blocking` that blocks."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


async def test_what_changed_is_written_once() -> None:
    disk, table = FakeDisk(), Counting()
    table_writer = TableWriter(disk, Inline())
    table_writer.save(table)
    await table_writer.drain()
    assert disk.writes == []
    table.add()
    table_writer.save(table)
    table_writer.save(table)
    table.add()
    assert not disk.writes  # not before the loop has had its turn
    table_writer.save(table)
    await table_writer.drain()
    assert disk.writes == [table.file, table.file]
    assert disk.files[table.file] == b"2"
    assert disk.files[f"{table.file}.bak"] == b"1"
    assert not table.dirty


async def test_what_was_taken_is_written_as_it_was() -> None:
    disk, table = FakeDisk(), Counting()
    table_writer = TableWriter(disk, Inline())
    assert table_writer.snapshot(table) is None
    table.add()
    write = table_writer.snapshot(table)
    assert write is not None
    table.add()
    write()
    await table_writer.drain()
    assert disk.files[table.file] == b"1"
    assert table.dirty


async def test_a_failure_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    class FullDisk(FakeDisk):
        full = True

        def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
            if self.full:
                raise DiskFull("no space")
            super().write_file(path, data, backup=backup)

    disk, table = FullDisk(), Counting()
    table_writer = TableWriter(disk, Inline())
    table.add()
    table_writer.save(table)
    await table_writer.drain()
    assert table.dirty
    assert "cannot be saved now: no space" in caplog.text
    disk.full = False
    table_writer.save(table)
    await table_writer.drain()
    assert disk.files[table.file] == b"1"


async def test_nothing_is_taken_while_something_else_must_be_on_the_disk_first() -> None:
    disk, table, held = FakeDisk(), Counting(), [True]
    table_writer = TableWriter(disk, Inline(), lambda: held[0])
    table.add()
    table_writer.save(table)
    await table_writer.drain()
    assert disk.writes == []
    assert table.dirty
    held[0] = False
    table_writer.save(table)
    await table_writer.drain()
    assert disk.files[table.file] == b"1"


async def test_after_the_end_nothing_old_is_written() -> None:
    """It waited for the log's sync, which the last save of everything brings about."""
    disk, table = FakeDisk(), Counting()
    table_writer = TableWriter(disk, Inline())
    table.add()
    write = table_writer.snapshot(table)
    await table_writer.close()
    assert write is not None
    write()
    await table_writer.drain()
    assert disk.writes == []
