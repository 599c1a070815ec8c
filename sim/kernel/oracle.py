"""The oracle: records every client call with times and outcome, and checks them at the end.

A timeout is UNKNOWN, never a failure: the message may or may not appear. FAIL means that the
message will never appear. OK means that it must never be lost.
"""

from dataclasses import dataclass, field
from enum import Enum

from sim.kernel.violation import Violation


class Result(Enum):
    """The outcome of a send, as its client knows it."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAIL = "fail"


@dataclass(slots=True)
class Send:
    """One message that a client tried to send."""

    number: int
    client: str
    queue: tuple[str, int]
    called_us: int
    result: Result = Result.UNKNOWN
    returned_us: int = -1
    """-1 when the call did not return."""
    place: tuple[int, int] | None = None
    """(queue offset, log offset) from the acknowledgement."""
    epoch: int = 0
    """The master epoch in the acknowledgement."""
    broker: str = ""


@dataclass(slots=True)
class Delivery:
    """One message that a reader received."""

    number: int
    reader: str
    queue: tuple[str, int]
    queue_offset: int
    at_us: int
    broker: str
    offset: int = -1
    """Its log offset."""


@dataclass
class Oracle:
    """The record of all sends and deliveries."""

    sends: dict[int, Send] = field(default_factory=dict)
    placed: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """(topic, queue id, queue offset) -> number, for all acknowledged or delivered messages."""
    log_offsets: dict[int, int] = field(default_factory=dict)
    """number -> log offset, for the same messages."""
    deliveries: int = 0
    unclean: tuple[int, int] = (-1, 0)
    """(time, end of the new master's log) of the last unclean election."""

    def call(self, number: int, client: str, queue: tuple[str, int], now_us: int) -> Send:
        send = self.sends[number] = Send(number, client, queue, now_us)
        return send

    def ok(self, number: int, place: tuple[int, int], epoch: int, broker: str, now: int) -> None:
        """Record an acknowledgement (INV-22: a message has one place for ever)."""
        send = self.sends[number]
        if send.result is Result.FAIL:
            raise Violation("INV-21", f"message {number} was acknowledged after it had failed")
        send.result, send.returned_us = Result.OK, now
        send.place, send.epoch, send.broker = place, epoch, broker
        self._take_place((*send.queue, place[0]), number, broker)
        self.log_offsets[number] = place[1]

    def held(self, number: int, epoch: int, broker: str, now: int) -> None:
        """Record an acknowledged message that waits elsewhere and has no place in its queue yet."""
        send = self.sends[number]
        if send.result is Result.FAIL:
            raise Violation("INV-21", f"message {number} was acknowledged after it had failed")
        send.result, send.returned_us = Result.OK, now
        send.epoch, send.broker = epoch, broker

    def fail(self, number: int, now_us: int) -> None:
        """Record a send that was refused before anything was written."""
        send = self.sends[number]
        if send.result is Result.UNKNOWN:
            send.result, send.returned_us = Result.FAIL, now_us

    def delivered(self, delivery: Delivery) -> None:
        """Record a message that a reader received (INV-21, INV-22)."""
        self.deliveries += 1
        send = self.sends.get(delivery.number)
        if send is None or send.queue != delivery.queue:
            text = f"message {delivery.number} was never sent to {delivery.queue}"
            raise Violation("INV-21", text, (delivery.broker,), (delivery.queue_offset,))
        if send.result is Result.FAIL:
            text = f"message {delivery.number} was refused, and yet it is here"
            raise Violation("INV-21", text, (delivery.broker,), (delivery.queue_offset,))
        if send.called_us < self.unclean[0] and delivery.offset >= self.unclean[1]:
            return  # in a log that has yet to be truncated
        place = (*delivery.queue, delivery.queue_offset)
        self._take_place(place, delivery.number, delivery.broker)
        self.log_offsets[delivery.number] = delivery.offset

    def excuse(self, log_offset: int) -> int:
        """Allow the loss of messages at or after `log_offset`; returns how many."""
        gone = [number for number, at in self.log_offsets.items() if at >= log_offset]
        for number in gone:
            del self.log_offsets[number]
            if self.sends[number].result is Result.OK:
                self.sends[number].result = Result.UNKNOWN
        dead = set(gone)
        self.placed = {place: n for place, n in self.placed.items() if n not in dead}
        return len(gone)

    def elected_uncleanly(self, now_us: int, end: int) -> int:
        """Allow the loss of messages after `end` by an unclean election; returns how many."""
        self.unclean = now_us, end
        return self.excuse(end)

    def _take_place(self, place: tuple[str, int, int], number: int, broker: str) -> None:
        there = self.placed.setdefault(place, number)
        if there != number:
            text = f"{place[0]}/{place[1]}: messages {there} and {number} at one place"
            raise Violation("INV-22", text, (broker,), (place[2],))

    @property
    def acked(self) -> list[Send]:
        return [send for send in self.sends.values() if send.result is Result.OK]

    def judge_drain(self, queue: tuple[str, int], numbers: list[int], broker: str) -> None:
        """Check a queue as read at the end (INV-20, INV-22, INV-23, INV-24)."""
        for (topic, queue_id, offset), number in sorted(self.placed.items()):
            if (topic, queue_id) != queue:
                continue
            if offset >= len(numbers) or numbers[offset] != number:
                there = numbers[offset] if offset < len(numbers) else "nothing"
                acked = self.sends[number].result is Result.OK
                rule = "INV-20" if acked else "INV-23"
                what = "acknowledged" if acked else "read"
                text = f"{topic}/{queue_id}: message {number} was {what}, now there is {there}"
                raise Violation(rule, text, (broker,), (offset,))
