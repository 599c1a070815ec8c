"""Marks of transactions that acting masters ended, for the returning master (ADR 0063).

An acting master writes no op messages (INV-32), and the progress of the half queue stops at the
oldest open transaction. Transactions that ended behind the progress are marked here. The marks are
saved and copied together with the progress: in the same file and in the same answer with consumer
offsets. So no replica ever has one without the other.

A mark says that one transaction is over, for ever. It may arrive again, from several brokers, in
any order. It identifies the transaction by the fields that all copies of the half message share,
not by an offset alone: a log that lost its end and continued has other messages at these offsets.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from epochmq.base.limits import ENDED_HALVES_MAX

ENDED_FIELD = "epochmqEndedHalves"
"""Field in the table of consumer offsets. RocketMQ ignores it, and checks these transactions back
again."""


class EndedMark(NamedTuple):
    """The mark of one transaction that is over."""

    last: int
    """Queue offset of the newest half message of the transaction when it ended."""
    name: str
    """Identity of its half messages: `identity` in `broker/transaction/half_messages.py`."""


Marks = Mapping[int, EndedMark]
"""Marks by the queue offset of the first half message."""


class EndedTransactions:
    """The marks of one broker, at most `ENDED_HALVES_MAX`."""

    def __init__(self) -> None:
        self.marks: dict[int, EndedMark] = {}
        self.came = 0
        """Counts how often marks of other brokers were received."""
        self.ahead = False
        """Whether the master is known to lack some of these marks."""
        self._cleared_to = 0

    def add(self, origin: int, mark: EndedMark) -> None:
        """Add the mark of a transaction that ended at this broker."""
        self.marks[origin] = mark
        self.ahead = True

    def has_room(self, progress: int, others: int) -> bool:
        """Return whether there is room for one more mark beside `others` that will be added.

        If there is none, marks whose half messages all lie before `progress` are removed first.
        They were kept only for copies that the old master wrote and that are read late.
        """
        if len(self.marks) + others >= ENDED_HALVES_MAX and progress > self._cleared_to:
            self._cleared_to = progress
            self.marks = {o: mark for o, mark in self.marks.items() if mark.last >= progress}
        return len(self.marks) + others < ENDED_HALVES_MAX

    def merge(self, told: Marks) -> None:
        """Add the marks of another member of the group; own marks win."""
        self._load_marks({**told, **self.marks})

    def adopt(self, told: Marks, progress: int, *, keep: bool) -> None:
        """Take over the marks of the master, whose progress is `progress`.

        With `keep`, own marks that the master lacks stay, unless its progress has passed them: then
        they are over there too.
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
    """Read the marks of a file or body; raises `msgspec.ValidationError` on a wrong form."""
    return msgspec.convert(content.get(ENDED_FIELD) or {}, dict[int, EndedMark], strict=False)
