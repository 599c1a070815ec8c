"""Deduplication of sends from sinks (ADR 0036): a repeat is answered like the first, not stored.

While the first send waits for the flush or for replicas, its repeat waits too. The answer to a
repeat says nothing that the answer to the first could not have said.
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
from epochmq.wire.command import Reply

# Repeats -------------------------------------------------------------------------------------
# Which messages that other broker groups forwarded are in the log. Only the newest marks are kept,
# in memory. A repeat comes within seconds of a lost answer, so a duplicate is stored only if this
# broker restarted in between. A change of role or epoch clears the marks, because the log may have
# been truncated (INV-12).


class MarkedInLog(Protocol):
    """The marked messages that are in the log."""

    repeats: int
    """Number of repeats that were dropped."""

    def find(self, mark: SinkMark) -> MessagePosition | None: ...

    def note(self, mark: SinkMark, place: MessagePosition) -> None: ...

    def is_new(self, mark: SinkMark, count: int) -> bool: ...

    def note_run(self, run: SinkRun) -> None: ...


class Repeats:
    """Looks marks up in the store's sink marks, or in memory for messages of other broker groups.

    `time` returns a value that changes with the role and the epoch.
    """

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
        """Return the position of the first message with this mark; None when there is none."""
        if mark.key.part != PART:
            return self._sinks.find(mark)
        self._look()
        return self._places.get(mark)

    def note(self, mark: SinkMark, place: MessagePosition) -> None:
        """Note that the message with this mark is in the log at `place`."""
        if mark.key.part != PART:
            self._sinks.note(mark, place)
            return
        self._look()
        self._places[mark] = place
        if len(self._places) > limits.ESCAPES_REMEMBERED_MAX:
            self._places.popitem(last=False)

    def is_new(self, mark: SinkMark, count: int) -> bool:
        """Return whether none of the `count` messages of a sink from `mark` on is known."""
        return self._sinks.is_new(mark, count)

    def note_run(self, run: SinkRun) -> None:
        """Note that a run of a sink's messages is in the log."""
        self._sinks.note_run(run)

    def _look(self) -> None:
        time = self._time()
        if time != self._seen_in:
            self._seen_in = time
            self._places.clear()


# Send sink -----------------------------------------------------------------------------------


Repeat = tuple[Ticket, SinkMark]


class SinkGate:
    """The marked messages of the running turn."""

    def __init__(self, memory: MarkedInLog) -> None:
        self._memory = memory
        self._staged: dict[SinkMark, Ticket] = {}
        self.repeats: list[Repeat] = []
        """Repeats to answer at the end of the turn: the first message may be in this turn."""

    def admits(self, mark: SinkMark, ticket: Ticket) -> bool:
        """Return whether this message is the first of its mark; repeats wait for `pop_repeats`."""
        if mark in self._staged or self._memory.find(mark) is not None:
            self.repeats.append((ticket, mark))
            return False
        self._staged[mark] = ticket
        return True

    def appended(self, tickets: Sequence[Ticket], results: Sequence[Appended | PutStatus]) -> None:
        """Note the outcome of the turn's append: the messages are in the log, or were refused."""
        if not self._staged:
            return
        marks = {id(ticket): mark for mark, ticket in self._staged.items()}
        for ticket, result in zip(tickets, results, strict=True):
            mark = marks.get(id(ticket))
            if mark is not None and isinstance(result, Appended):
                self._memory.note(mark, place_of(result, ticket.queue_id))
        self._staged.clear()

    def refused(self) -> None:
        """Forget the marks of this turn, because nothing was appended."""
        self._staged.clear()

    def pop_repeats(self) -> tuple[list[tuple[Ticket, MessagePosition]], list[Ticket]]:
        """Return (repeats with the first message's position, repeats whose first was refused)."""
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
        """Return for each message of a batch the position of its first copy, or None.

        None means that the message is new. A message that is twice in the batch itself has its
        first copy there: `SETTLED`.
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
        """Note that the new messages of a batch are in the log."""
        for mark, result in zip(marks, results, strict=True):
            if mark is not None:
                self._memory.note(mark, place_of(result, queue_id))


def place_of(result: Appended, queue_id: int) -> MessagePosition:
    """Return the position of an appended message, for the memory of marks."""
    return MessagePosition(result.offset, result.size, queue_id, result.queue_offset)


def appended_at(place: MessagePosition) -> Appended:
    """Return the append result for a repeat; zeros when the position is not known."""
    return Appended(max(place.offset, 0), place.size, max(place.queue_offset, 0), 0)


def answer_repeat(answers: SendAnswers, ticket: Ticket, place: MessagePosition, code: int) -> None:
    """Answer a repeat like the stored message, with `sinkRepeats` 1 in the header."""
    queue_id = ticket.queue_id if place.queue_id < 0 else place.queue_id
    header = answers.header(queue_id, [appended_at(place)], ticket.uniq_key)
    header.sinkRepeats = 1
    ticket.session.answer(ticket.request(), Reply(code, header=header))


def furthest(places: Sequence[MessagePosition | None]) -> MessagePosition | None:
    """Return the last position in the log; once it is acknowledged, all the others are."""
    waiting = [place for place in places if place is not None and place is not SETTLED]
    return max(waiting, default=None)


def merged(places: Sequence[MessagePosition | None], added: Sequence[Appended]) -> list[Appended]:
    """Return one append result per message of a batch: of the new ones, and of the first copies."""
    made = iter(added)
    return [next(made) if place is None else appended_at(place) for place in places]
