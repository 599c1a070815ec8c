"""Repeats of what a sink sent already: dropped, and answered like the first (ADR 0036).

A repeat is answered as the first one was, or will be: while the first waits for the device or for
replicas, so does it. An answer says nothing that the first one's answer could not have said.
"""

from collections.abc import Sequence

from epochmq.broker.escape.repeats import MarkedInLog
from epochmq.broker.handlers.send_answers import SendAnswers, Ticket
from epochmq.model.sink_mark import SinkMark
from epochmq.store.draft import Appended, PutStatus
from epochmq.store.sink_runs import MessagePosition
from epochmq.store.sinks import SETTLED
from epochmq.wire.command import Command, Reply

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
