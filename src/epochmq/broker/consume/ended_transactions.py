"""Transactions that stand-ins ended out of order, for the master that returns (ADR 0063).

A stand-in writes no op messages (INV-32), and the progress in the half queue stops at the oldest
open transaction. What ended behind that is marked here, and travels with the progress: in the same
file, in the same answer to who copies or takes back consumer offsets. So there is no moment at
which somebody has the one without the other.

A mark says of one transaction that it is over, for ever: it may be told again, by several, in any
order. It names its transaction by what every copy of the half message has in common, not by a place
alone: a log that lost its end and was written on has others at the same places.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from epochmq.base.limits import ENDED_HALVES_MAX

ENDED_FIELD = "epochmqEndedHalves"
"""Of the table of consumer offsets; others pass it over: they ask for these transactions again."""


class EndedMark(NamedTuple):
    """One that is over."""

    last: int
    """Queue offset of the newest half message that stood for it where it ended."""
    name: str
    """`transaction.half.identity` of all its half messages."""


Marks = Mapping[int, EndedMark]
"""By the queue offset of the first half message."""


class EndedTransactions:
    """The marks of one broker, at most `ENDED_HALVES_MAX`."""

    def __init__(self) -> None:
        self.marks: dict[int, EndedMark] = {}
        self.came = 0
        """Counts what was told by others."""
        self.ahead = False
        """Whether the master, as far as it was heard, lacks some of these."""
        self._cleared_to = 0

    def add(self, origin: int, mark: EndedMark) -> None:
        """It ended here."""
        self.marks[origin] = mark
        self.ahead = True

    def has_room(self, progress: int, others: int) -> bool:
        """Whether one more may be added beside `others` that are about to be.

        When there is none, those go whose half messages all lie before the progress: they were
        kept for copies that the old master wrote, and that come only now.
        """
        if len(self.marks) + others >= ENDED_HALVES_MAX and progress > self._cleared_to:
            self._cleared_to = progress
            self.marks = {o: mark for o, mark in self.marks.items() if mark.last >= progress}
        return len(self.marks) + others < ENDED_HALVES_MAX

    def merge(self, told: Marks) -> None:
        """What another member of the group says beside what is known here."""
        self._load_marks({**told, **self.marks})

    def adopt(self, told: Marks, progress: int, *, keep: bool) -> None:
        """What the master says, whose own progress is `progress`.

        With `keep` ours stay that it lacks, unless it has come past them: however they ended there,
        they are over.
        """
        lacks = {
            origin: mark
            for origin, mark in self.marks.items()
            if keep and origin not in told and mark.last >= progress
        }
        self.ahead = bool(lacks)
        self._load_marks({**lacks, **told})

    def _load_marks(self, marks: Marks) -> None:
        newest = sorted(marks.items(), key=lambda item: item[1].last)[-ENDED_HALVES_MAX:]
        self.marks = dict(newest)
        self.came += 1
        self._cleared_to = 0


def marks_in(content: Mapping[str, Any]) -> dict[int, EndedMark]:
    """Those of a file or body; `msgspec.ValidationError` for what are none."""
    return msgspec.convert(content.get(ENDED_FIELD) or {}, dict[int, EndedMark], strict=False)
