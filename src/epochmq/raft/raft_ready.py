"""What the core hands out to be carried out, and what it starts from."""

from dataclasses import dataclass
from enum import Enum

from epochmq.raft.raft_messages import AnyMessage, HardState, LogEntry, Snapshot
from epochmq.raft.read_index import ReadState


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
