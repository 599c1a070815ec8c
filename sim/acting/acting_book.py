"""The record of what clients of several groups sent and received."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.kernel.violation import Violation

if TYPE_CHECKING:
    from sim.acting.acting_clients import Queue


@dataclass(slots=True)
class Sent:
    """One message; without an acknowledgement its outcome is unknown."""

    number: int
    kind: str
    queue: "Queue"
    acked: bool = False
    queue_offset: int = -1
    decision: str = ""
    """Of a transaction: `commit`, `rollback` or `silent`."""
    said: bool = False
    """Its end went out."""
    ended: bool = False
    """A broker took its end."""


@dataclass
class Book:
    """All messages by number, and the places where they were read."""

    sends: list[Sent] = field(default_factory=list)
    places: dict[tuple["Queue", int], int] = field(default_factory=dict)
    """(queue, offset) -> number, as readers saw it (INV-22)."""
    popped: set[int] = field(default_factory=set)
    """Numbers that a pop brought, once at least."""
    deliveries: int = 0
    torn: set[str] = field(default_factory=set)
    """Groups that lost a disk, and with it what was readable there and in no second copy."""

    def call(self, kind: str, queue: "Queue") -> Sent:
        sent = Sent(len(self.sends), kind, queue)
        self.sends.append(sent)
        return sent

    def delivered(self, queue: "Queue", offset: int, body: bytes) -> None:
        """Record a message that a reader received (INV-21, INV-22)."""
        number = number_in(body)
        self.deliveries += 1
        if not 0 <= number < len(self.sends):
            raise Violation("INV-21", f"a message that nobody sent is in {queue}", (), (offset,))
        there = self.places.setdefault((queue, offset), number)
        if there != number and queue.group in self.torn and not self.stays(there):
            self.places[queue, offset] = number
        elif there != number:
            text = f"messages {there} and {number} at one place of {queue}"
            raise Violation("INV-22", text, (), (offset,))

    def stays(self, number: int) -> bool:
        """Whether its place was promised to a client. What the broker itself puts into a queue it
        puts there again, elsewhere, when it was not in two copies (INV-27)."""
        sent = self.sends[number]
        return sent.acked and sent.kind == "plain"

    def acked(self, *kinds: str) -> list[Sent]:
        return [sent for sent in self.sends if sent.acked and sent.kind in kinds]


def number_in(body: bytes) -> int:
    """Return the number in a message; -1 when it is not a test message."""
    text, colon, _ = bytes(body[:12]).partition(b":")
    return int(text) if colon and text.isdigit() else -1
