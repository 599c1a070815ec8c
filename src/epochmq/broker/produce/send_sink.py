"""Repeats of what a sink sent already: dropped, and answered like the first (ADR 0036).

A repeat is answered as the first one was, or will be: while the first waits for the device or for
replicas, so does it. An answer says nothing that the first one's answer could not have said.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from epochmq.base import limits
from epochmq.broker.produce.send_answers import SendAnswers, Ticket
from epochmq.model.sink_mark import PART, SinkMark
from epochmq.store.draft import Appended, PutStatus
from epochmq.store.sink_runs import MessagePosition, SinkRun
from epochmq.store.sinks import SETTLED
from epochmq.wire.command import Command, Reply

# Repeats -------------------------------------------------------------------------------------
# Which messages that other groups handed over are in the log: a repeat is answered, not stored.
#
# In memory, the newest so many. A repeat comes within seconds of a lost answer, so what is
# forgotten costs a duplicate only where this broker died in between. Another role, or another
# master's time, forgets all: the log may have been cut (INV-12).


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


# Send sink -----------------------------------------------------------------------------------


Repeat = tuple[Ticket, SinkMark]


class SinkGate:
    """The sinks' messages of the running turn."""

    def __init__(self, memory: MarkedInLog) -> None:
        self._memory = memory
        self._staged: dict[SinkMark, Ticket] = {}
        self.repeats: list[Repeat] = []
        """Tickets that wait for the end of the turn, since their first one may be in it."""

    def admits(self, mark: SinkMark, ticket: Ticket) -> bool:
        """Whether this is the first of its mark; a repeat is kept for `pop_repeats`."""
        if mark in self._staged or self._memory.find(mark) is not None:
            self.repeats.append((ticket, mark))
            return False
        self._staged[mark] = ticket
        return True

    def appended(self, tickets: Sequence[Ticket], results: Sequence[Appended | PutStatus]) -> None:
        """A turn's messages are in the log, or are not."""
        if not self._staged:
            return
        marks = {id(ticket): mark for mark, ticket in self._staged.items()}
        for ticket, result in zip(tickets, results, strict=True):
            mark = marks.get(id(ticket))
            if mark is not None and isinstance(result, Appended):
                self._memory.note(mark, place_of(result, ticket.queue_id))
        self._staged.clear()

    def refused(self) -> None:
        """Nothing of this turn was appended."""
        self._staged.clear()

    def pop_repeats(self) -> tuple[list[tuple[Ticket, MessagePosition]], list[Ticket]]:
        """(repeats with the places of the first ones, repeats whose first one was not stored)."""
        repeats, self.repeats = self.repeats, []
        found: list[tuple[Ticket, MessagePosition]] = []
        lost: list[Ticket] = []
        for ticket, mark in repeats:
            place = self._memory.find(mark)
            if place is None:
                lost.append(ticket)
            else:
                self._memory.repeats += 1
                found.append((ticket, place))
        return found, lost

    # Batches ---------------------------------------------------------------------------------

    def places(self, marks: Sequence[SinkMark | None]) -> list[MessagePosition | None]:
        """For each message of a batch where its first one is; None for a new one.

        One that comes twice in the batch itself has its first one there: `SETTLED`.
        """
        places: list[MessagePosition | None] = []
        here: set[SinkMark] = set()
        for mark in marks:
            place = None if mark is None else self._memory.find(mark)
            if mark is not None and place is None and mark in here:
                place = SETTLED
            if mark is not None:
                here.add(mark)
            self._memory.repeats += place is not None
            places.append(place)
        return places

    def note(
        self, queue_id: int, marks: Sequence[SinkMark | None], results: Sequence[Appended]
    ) -> None:
        """The new ones of a batch are in the log."""
        for mark, result in zip(marks, results, strict=True):
            if mark is not None:
                self._memory.note(mark, place_of(result, queue_id))


def place_of(result: Appended, queue_id: int) -> MessagePosition:
    return MessagePosition(result.offset, result.size, queue_id, result.queue_offset)


def appended_at(place: MessagePosition) -> Appended:
    """What an answer says of a repeat: its first one's place, zeros when nobody remembers it."""
    return Appended(max(place.offset, 0), place.size, max(place.queue_offset, 0), 0)


def answer_repeat(answers: SendAnswers, ticket: Ticket, place: MessagePosition, code: int) -> None:
    """The answer of a stored message, and that it was a repeat."""
    queue_id = ticket.queue_id if place.queue_id < 0 else place.queue_id
    header = answers.header(queue_id, [appended_at(place)], ticket.uniq_key)
    header.sinkRepeats = 1
    command = ticket.command or Command(0, opaque=ticket.opaque)
    ticket.session.answer(command, Reply(code, header=header))


def furthest(places: Sequence[MessagePosition | None]) -> MessagePosition | None:
    """The last of the first ones in the log: who is confirmed up to there has confirmed them."""
    waiting = [place for place in places if place is not None and place is not SETTLED]
    return max(waiting, default=None)


def merged(places: Sequence[MessagePosition | None], added: Sequence[Appended]) -> list[Appended]:
    """What became of each message of a batch of which only the new ones were appended."""
    made = iter(added)
    return [next(made) if place is None else appended_at(place) for place in places]
