"""Messages that wait for the disk, so that a crash cannot undo what a message promises.

Every message waits until term and vote are synced. An accepted append also waits for its entries. A
leader's appends do not wait for its own disk (thesis 10.2.1).
"""

from dataclasses import dataclass
from enum import Enum

from epochmq.base.safeguards import Safeguards
from epochmq.raft.raft_messages import AnyMessage, AppendReply, HardState, LogEntry, Snapshot
from epochmq.raft.read_index import ReadState

# Ready ---------------------------------------------------------------------------------------
# The work that the core gives to its node, and the saved state from which a core starts.


class RaftRole(Enum):
    """The role of a node in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class SavedState:
    """The content of a journal."""

    hard_state: HardState
    snapshot: Snapshot
    entries: tuple[LogEntry, ...] = ()
    incarnation: str = ""
    """Name of the node's disk; empty for its first disk."""
    confirmed: bool = True
    """False: the disk was empty at the start, and the group has not confirmed it yet."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One batch of work, to be done in this order: save, send, apply.

    Messages wait until this batch and all earlier ones are synced, as far as `Outbox` requires.
    """

    hard_state: HardState | None
    """None: unchanged."""
    entries: tuple[LogEntry, ...]
    """Entries to write; they replace all entries from the first of them on."""
    snapshot: Snapshot | None
    """A snapshot from the leader; it replaces the whole log."""
    messages: tuple[AnyMessage, ...]
    committed: tuple[LogEntry, ...]
    """Entries to apply; they are on the device of this node."""
    read_states: tuple[ReadState, ...]
    must_sync: bool
    """Messages depend on this batch. False: it may be saved with the next sync."""


# Outbox --------------------------------------------------------------------------------------


class Outbox:
    """Holds messages until the numbered batch that they need is on the device."""

    def __init__(self, safe: Safeguards) -> None:
        self._safe = safe
        self._promise = 0
        """Newest batch with a new term or vote."""
        self._held: list[tuple[int, AnyMessage]] = []
        self._earliest = 0
        """The smallest batch number that a held message needs."""

    def put(self, ready: Ready, number: int, newest_urgent: int, *, promised: bool) -> None:
        """Add the messages of batch `number`.

        Args:
            ready: the batch.
            number: its number.
            newest_urgent: number of the newest batch that must be synced.
            promised: whether the batch has a new term or vote.
        """
        if promised:
            self._promise = number
        for message in ready.messages:
            needs = self._needs(message, newest_urgent)
            self._earliest = min(self._earliest, needs) if self._held else needs
            self._held.append((needs, message))

    def _needs(self, message: AnyMessage, newest_urgent: int) -> int:
        if not self._safe.persist_before_reply:
            return 0
        if isinstance(message, AppendReply) and not message.refused:
            return newest_urgent if self._safe.sync_before_append_ack else 0
        return self._promise if self._safe.sync_before_vote else 0

    def pop_ready(self, synced: int) -> list[AnyMessage]:
        """Return the messages that may be sent when batches up to `synced` are on the device, in
        order.
        """
        if not self._held or synced < self._earliest:
            return []
        go = [message for needs, message in self._held if needs <= synced]
        self._held = [held for held in self._held if held[0] > synced]
        self._earliest = min((needs for needs, _message in self._held), default=0)
        return go
