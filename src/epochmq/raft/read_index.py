"""Linearizable reads: a read sees everything that was committed before it (thesis 6.4).

A read takes the present commit index. It waits until a majority has answered a heartbeat that was
sent later, which shows that the leader still leads. A new leader must first commit an entry of its
own term, because it does not know the commit index before that.
"""

from collections import deque

from msgspec import Struct


class ReadState(Struct, frozen=True):
    """The result of a read request: the read may be answered when `index` is applied.

    If `index` is None the read failed, because the node does not lead (any more).
    """

    context: bytes
    index: int | None


class ReadIndex:
    """The waiting reads of one leader, oldest first."""

    def __init__(self) -> None:
        self._unborn: list[bytes] = []
        """Reads from before the first entry of the term was committed."""
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        """(round needed, index, context)"""

    def __len__(self) -> int:
        return len(self._unborn) + len(self._waiting)

    def add(self, context: bytes, round_needed: int, commit: int) -> None:
        """Add a read at index `commit` that waits for a majority to answer `round_needed`."""
        self._waiting.append((round_needed, commit, context))

    def add_unborn(self, context: bytes) -> None:
        """Add a read that waits for the first entry of the term."""
        self._unborn.append(context)

    def born(self) -> list[bytes]:
        """Return the reads that may start, now that the first entry of the term is committed."""
        reads, self._unborn = self._unborn, []
        return reads

    @property
    def round_wanted(self) -> int:
        """The newest round of heartbeats that a read waits for."""
        return self._waiting[-1][0] if self._waiting else 0

    def confirmed(self, round_: int) -> list[ReadState]:
        """Return the reads that may be answered, after a majority answered round `round_`."""
        done = []
        while self._waiting and self._waiting[0][0] <= round_:
            _needed, index, context = self._waiting.popleft()
            done.append(ReadState(context, index))
        return done

    def fail(self) -> list[ReadState]:
        """Return all reads as failed, after the leadership was lost."""
        contexts = [*self._unborn, *(context for _round, _index, context in self._waiting)]
        self._unborn.clear()
        self._waiting.clear()
        return [ReadState(context, None) for context in contexts]
