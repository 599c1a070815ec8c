"""Which messages that other groups handed over are in the log: a repeat is answered, not stored.

In memory, the newest so many. A repeat comes within seconds of a lost answer, so what is forgotten
costs a duplicate only where this broker died in between. Another role, or another master's time,
forgets all: the log may have been cut (INV-12).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from epochmq.base import limits
from epochmq.model.escape_mark import PART
from epochmq.model.sink_mark import SinkMark
from epochmq.store.sink_runs import MessagePosition, SinkRun


class MarkedInLog(Protocol):
    """What of marked messages is in the log."""

    repeats: int
    """How many were dropped."""

    def find(self, mark: SinkMark) -> MessagePosition | None: ...

    def note(self, mark: SinkMark, place: MessagePosition) -> None: ...

    def is_new(self, mark: SinkMark, count: int) -> bool: ...

    def note_run(self, run: SinkRun) -> None: ...


class Repeats:
    """The memory of sinks, and that of escapes before it; `time` tells one master's time."""

    def __init__(self, sinks: MarkedInLog, time: Callable[[], object]) -> None:
        self._sinks = sinks
        self._time = time
        self._seen_in = time()
        self._places: OrderedDict[SinkMark, MessagePosition] = OrderedDict()

    @property
    def repeats(self) -> int:
        return self._sinks.repeats

    @repeats.setter
    def repeats(self, count: int) -> None:
        self._sinks.repeats = count

    def find(self, mark: SinkMark) -> MessagePosition | None:
        """Where the first one is; None for a new one."""
        if mark.key.part != PART:
            return self._sinks.find(mark)
        self._look()
        return self._places.get(mark)

    def note(self, mark: SinkMark, place: MessagePosition) -> None:
        """It is in the log."""
        if mark.key.part != PART:
            self._sinks.note(mark, place)
            return
        self._look()
        self._places[mark] = place
        if len(self._places) > limits.ESCAPES_REMEMBERED_MAX:
            self._places.popitem(last=False)

    def is_new(self, mark: SinkMark, count: int) -> bool:
        """Whether none of so many messages of a sink from `mark` on is known."""
        return self._sinks.is_new(mark, count)

    def note_run(self, run: SinkRun) -> None:
        """Such messages of a sink are in the log."""
        self._sinks.note_run(run)

    def _look(self) -> None:
        time = self._time()
        if time != self._seen_in:
            self._seen_in = time
            self._places.clear()
