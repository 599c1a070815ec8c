"""Reads that see everything committed before them (thesis 6.4).

A read takes the commit index of its moment and waits for a majority to say, to a heartbeat sent
after that moment, that the leader still leads. A new leader first commits an entry of its own
term; before that it does not know what is committed.
"""

from collections import deque

from msgspec import Struct


class ReadState(Struct, frozen=True):
    """The read `context` may be answered once everything up to `index` is applied.

    `index` None: it failed, the node does not lead (any more).
    """

    context: bytes
    index: int | None


class ReadIndex:
    """The reads of one leader that wait, oldest first."""

    def __init__(self) -> None:
        self._unborn: list[bytes] = []
        """Asked before the term's first entry was committed."""
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        """(round needed, index, context)"""

    def __len__(self) -> int:
        return len(self._unborn) + len(self._waiting)

    def add(self, context: bytes, round_needed: int, commit: int) -> None:
        self._waiting.append((round_needed, commit, context))

    def add_unborn(self, context: bytes) -> None:
        self._unborn.append(context)

    def born(self) -> list[bytes]:
        """The term's first entry is committed: these reads may start now."""
        reads, self._unborn = self._unborn, []
        return reads

    @property
    def round_wanted(self) -> int:
        """The newest round of heartbeats that a read waits for."""
        return self._waiting[-1][0] if self._waiting else 0

    def confirmed(self, round_: int) -> list[ReadState]:
        """A majority answered `round_`."""
        done = []
        while self._waiting and self._waiting[0][0] <= round_:
            _needed, index, context = self._waiting.popleft()
            done.append(ReadState(context, index))
        return done

    def fail(self) -> list[ReadState]:
        """Leadership is lost."""
        contexts = [*self._unborn, *(context for _round, _index, context in self._waiting)]
        self._unborn.clear()
        self._waiting.clear()
        return [ReadState(context, None) for context in contexts]
