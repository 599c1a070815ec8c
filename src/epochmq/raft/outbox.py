"""Messages that wait for the disk: nothing is promised that a crash could take back.

Everything waits for the term and vote that it speaks of; an accepted append also waits for the
entries. A leader's appends do not wait for its own disk (thesis 10.2.1).
"""

from dataclasses import dataclass
from enum import Enum

from epochmq.base.safeguards import Safeguards
from epochmq.raft.raft_messages import AnyMessage, AppendReply, HardState, LogEntry, Snapshot
from epochmq.raft.read_index import ReadState

# Raft ready ----------------------------------------------------------------------------------
# What the core hands out to be carried out, and what it starts from.


class RaftRole(Enum):
    """What a node is in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a journal holds."""

    hard_state: HardState
    snapshot: Snapshot
    entries: tuple[LogEntry, ...] = ()
    incarnation: str = ""
    """Which disk of the node this is; empty for the one that it began with."""
    confirmed: bool = True
    """False: the disk was empty at the start, and the group has not named it yet."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One batch of work, to be carried out in this order: save, send, apply.

    Messages wait until this and all earlier batches are synced as far as `outbox.py` says.
    """

    hard_state: HardState | None
    """None: unchanged."""
    entries: tuple[LogEntry, ...]
    """To be written; they replace everything from the first of them on."""
    snapshot: Snapshot | None
    """Received from the leader; it replaces the whole log."""
    messages: tuple[AnyMessage, ...]
    committed: tuple[LogEntry, ...]
    """To be applied; they are on the device here."""
    read_states: tuple[ReadState, ...]
    must_sync: bool
    """Something is in it that messages depend on; False: saving may wait for the next sync."""


# Outbox --------------------------------------------------------------------------------------


class Outbox:
    """Batches are numbered; a message goes once the batch it needs is on the device."""

    def __init__(self, safe: Safeguards) -> None:
        self._safe = safe
        self._promise = 0
        """Newest batch with a new term or vote."""
        self._held: list[tuple[int, AnyMessage]] = []
        self._earliest = 0
        """The smallest number that a held message needs."""

    def put(self, ready: Ready, number: int, newest_urgent: int, *, promised: bool) -> None:
        """Take the messages of batch `number`; `newest_urgent` is the last that must be synced."""
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
        """Messages that may go, as batches up to `synced` are on the device; in their order."""
        if not self._held or synced < self._earliest:
            return []
        go = [message for needs, message in self._held if needs <= synced]
        self._held = [held for held in self._held if held[0] > synced]
        self._earliest = min((needs for needs, _message in self._held), default=0)
        return go
