"""Messages on their way to another master, and how the whole of a put is answered once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from epochmq.broker.internal_writes.internal_writer import Done, WriteOutcome
from epochmq.store.draft import Draft


class Where(Enum):
    """Which masters may take a message."""

    TOPIC = auto()
    """Those that have its topic; if none has, those that make topics on first send (TBW102)."""
    ANY = auto()
    """Every one: a group's retry topic is made by whoever is sent to."""
    ONE = auto()
    """Of those that have its topic always the same, as long as it is there."""
    PINNED = auto()
    """The one that `place` names."""


@dataclass(frozen=True, slots=True)
class ForwardedMessage:
    """One message to hand over; `size` in bytes bounds what is under way.

    `name` is its ESCAPE_ID, empty where it needs none: repeats go to the same master by it.
    """

    draft: Draft
    topic: str
    size: int
    where: Where = Where.TOPIC
    place: int = 0
    name: str = ""


class ForwardBatch:
    """What came in one put; `done` hears once, when each of its messages has an outcome."""

    __slots__ = ("_done", "_open", "flying", "forward_items", "outcomes", "since_ms", "touched")

    def __init__(self, items: Sequence[ForwardedMessage], first: int, done: Done, now: int) -> None:
        self.since_ms = now
        self.touched = False
        """Whether a peer holds, or may hold, anything of it."""
        self.flying = 0
        """How many of it are under way."""
        self.outcomes: list[WriteOutcome | None] = [None] * len(items)
        self.forward_items = [
            ForwardItem(self, number, first + number, item) for number, item in enumerate(items)
        ]
        self._open = len(items)
        self._done = done

    @property
    def over(self) -> bool:
        return not self._open

    def set_outcome(self, number: int, outcome: WriteOutcome) -> None:
        """The outcome of one; the first counts."""
        if self.outcomes[number] is not None:
            return
        self.outcomes[number] = outcome
        self._open -= 1
        if not self._open:
            self._done([outcome for outcome in self.outcomes if outcome is not None])


class ForwardItem:
    """One message until a peer holds it. `id` is its number among all of this process."""

    __slots__ = ("batch", "failures", "held_by", "id", "item", "lost_at_ms", "number", "refused_by",
                 "tries")  # fmt: skip

    def __init__(
        self, batch: ForwardBatch, number: int, ident: int, item: ForwardedMessage
    ) -> None:
        self.batch = batch
        self.number = number
        self.id = ident
        self.item = item
        self.tries = 0
        self.failures = 0
        """Rounds in which no master took it."""
        self.held_by = ""
        """The master that has it, or may have it: a repeat is dropped there."""
        self.lost_at_ms = 0
        """When an answer of that one was lost."""
        self.refused_by: set[str] = set()
        """Masters that refused it in this round."""

    @property
    def over(self) -> bool:
        return self.batch.outcomes[self.number] is not None

    def set_outcome(self, outcome: WriteOutcome) -> None:
        self.batch.set_outcome(self.number, outcome)
