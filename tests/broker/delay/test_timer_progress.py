"""The checkpoint as a table."""

import pytest

from epochmq.broker.delay.timed_messages import Timer
from epochmq.broker.delay.timer_service import TimerProgress
from epochmq.model.data_version import DataVersion
from epochmq.store.timer.timer_checkpoint import TimerCheckpoint, decode

WALL = 1_700_000_000_000


def test_it_is_dirty_when_something_moved() -> None:
    core = Timer(1000, 60)
    progress = TimerProgress(core, lambda: 77)
    progress.step_version(1)
    assert not progress.dirty
    core.begin_again(0, 104)
    assert progress.dirty
    progress.step_version(9)
    found = decode(progress.encode(), 1000)
    assert found == TimerCheckpoint(0, 104, 0, 0, 0, 9, 1)
    progress.dirty = False
    assert not progress.dirty
    progress.dirty = True
    assert progress.dirty
    progress.is_synced(progress.sealed())
    core.begin_again(0, 208)
    assert decode(progress.encode(), 1000, 76) is None  # the log lost what it speaks of
    newest = decode(progress.encode(), 1000, 77)
    assert newest is not None
    assert newest.log_position == 208
    again = TimerProgress(Timer(1000, 60), lambda: 0)
    again.begin(found)
    assert again.checkpoint() == found
    assert not again.dirty


def test_a_masters_word_is_taken_over() -> None:
    core = Timer(1000, 60)
    progress = TimerProgress(core, lambda: 77)
    word = TimerCheckpoint(WALL, 999, 7, 5, 1, 2, 3)
    progress.adopt(word.body())
    assert (core.read_ms, core.covered, core.cursor) == (WALL, 5, 0)
    assert progress.version == DataVersion(1, 3, 2)
    assert progress.dirty
    progress.dirty = False
    progress.adopt(word._replace(last_read_ms=WALL + 1000).body())
    assert core.read_ms == WALL + 1000
    assert not progress.dirty  # an idle master's clock is not worth a write
    with pytest.raises(ValueError, match="not a timer checkpoint"):
        progress.adopt(b"x")
