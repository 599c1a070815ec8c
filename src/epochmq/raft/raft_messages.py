"""Raft messages, entries and saved values, and their encoding.

Every message has its sender, its receiver and the sender's term. The first entry has index 1.
"""

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from epochmq.base import limits
from epochmq.base.errors import PeerError

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number that fits a signed 64-bit field: an index, a term, or milliseconds."""

NodeId = Annotated[str, Meta(min_length=1, max_length=limits.RAFT_NODE_NAME_LENGTH_MAX)]
"""Name of a node, for example n0."""


class EntryKind(IntEnum):
    """The purpose of an entry."""

    DATA = 0
    NO_OP = 1
    """The first entry of every leader; when it is committed, all before it is (thesis 3.6.2)."""
    CHANGE = 2
    """A complete new membership; in force as soon as it is in the log."""


class LogEntry(Struct, frozen=True, array_like=True, gc=False):
    """One entry of the log."""

    term: Count
    index: Count
    kind: EntryKind
    data: Annotated[bytes, Meta(max_length=limits.RAFT_ENTRY_BYTES_MAX)] = b""


Incarnation = Annotated[str, Meta(max_length=limits.RAFT_NODE_NAME_LENGTH_MAX)]
"""Name of a node's disk; empty for its first disk."""

Incarnations = Annotated[
    tuple[tuple[NodeId, Incarnation], ...], Meta(max_length=limits.RAFT_MEMBERS_MAX)
]

Names = Annotated[tuple[NodeId, ...], Meta(max_length=limits.RAFT_MEMBERS_MAX)]


class VotersAndLearners(Struct, frozen=True, array_like=True):
    """The voters and learners of a group; all tuples are sorted."""

    voters: Names
    learners: Names = ()
    incarnations: Incarnations = ()
    """Of members whose disk is not their first one, and of the founders of a group."""
    returning: Names = ()
    """Learners that vote when they have caught up: voters that lost a disk, and new voters."""

    def incarnation_of(self, node: str) -> str:
        """Return the disk of `node` that the group knows."""
        return next((word for name, word in self.incarnations if name == node), "")

    @property
    def everyone(self) -> tuple[str, ...]:
        """All members: voters, then learners."""
        return self.voters + self.learners

    @property
    def quorum(self) -> int:
        """The number of voters in a majority."""
        return len(self.voters) // 2 + 1


class Snapshot(Struct, frozen=True, array_like=True):
    """The state machine after entry `index`; it replaces all entries up to it."""

    index: Count
    term: Count
    members: VotersAndLearners
    data: Annotated[bytes, Meta(max_length=limits.RAFT_SNAPSHOT_BYTES_MAX)] = b""


class HardState(Struct, frozen=True, array_like=True):
    """The state that a node must keep over a restart; `commit` may be older than the true value."""

    term: Count = 0
    vote: NodeId | None = None
    commit: Count = 0


class RaftMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Base class of messages: sender, receiver, and the sender's term."""

    sender: NodeId
    to: NodeId
    term: Count


class Vote(RaftMessage, frozen=True, tag=1):
    """Asks for a vote in `term`; with `pre` only whether it would be granted (thesis 9.6)."""

    last_index: Count
    last_term: Count
    pre: bool = False
    transfer: bool = False
    """The leader itself wants this election, so its lease is no reason to refuse."""


class VoteReply(RaftMessage, frozen=True, tag=2):
    """Answers a vote. `term` is the term asked for if granted, else the voter's own."""

    granted: bool
    pre: bool = False


class AppendEntries(RaftMessage, frozen=True, tag=3):
    """Entries that follow (prev_index, prev_term), and the leader's commit index."""

    prev_index: Count
    prev_term: Count
    commit: Count
    entries: Annotated[
        tuple[LogEntry, ...], Meta(max_length=limits.RAFT_ENTRIES_PER_MESSAGE_MAX)
    ] = ()


class AppendReply(RaftMessage, frozen=True, tag=4):
    """Answers an append.

    Accepted: the log agrees up to `index`. Refused: the entries after `index` did not fit; the logs
    may agree at `hint_index`, which has `hint_term`.
    """

    index: Count
    refused: bool = False
    hint_index: Count = 0
    hint_term: Count = 0
    incarnation: Incarnation = ""


class Heartbeat(RaftMessage, frozen=True, tag=5):
    """Shows that the leader lives; `sent_at_ms` is its own clock, which the reply returns."""

    commit: Count
    round: Count
    sent_at_ms: Count


class HeartbeatReply(RaftMessage, frozen=True, tag=6):
    """Shows that the sender follows, as of that round."""

    round: Count
    sent_at_ms: Count
    incarnation: Incarnation = ""


class Install(RaftMessage, frozen=True, tag=7):
    """A snapshot, sent when the leader does not have the needed entries any more."""

    snapshot: Snapshot


class TimeoutNow(RaftMessage, frozen=True, tag=8):
    """Hands the leadership over: the receiver starts an election at once."""


class Join(RaftMessage, frozen=True, tag=9):
    """The sender's disk is empty; `seen` lists the incarnations of empty members that it knows."""

    incarnation: Incarnation
    seen: Incarnations


class Welcome(RaftMessage, frozen=True, tag=10):
    """A new group was founded with these first members."""

    members: VotersAndLearners


AnyMessage = (
    Vote
    | VoteReply
    | AppendEntries
    | AppendReply
    | Heartbeat
    | HeartbeatReply
    | Install
    | TimeoutNow
    | Join
    | Welcome
)
"""The union of the ten message types."""


# Encoding ------------------------------------------------------------------------------------
# A message is one version byte, then MessagePack of structs with limits.


VERSION = 1
"""First byte of every message; a message with another version is refused."""

_PREFIX = bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)
_members = msgspec.msgpack.Decoder(VotersAndLearners)


def encode(message: AnyMessage) -> bytes:
    """Return the bytes of one message."""
    return _PREFIX + _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """Decode one message. Raises `PeerError` for any other bytes."""
    if len(data) > limits.RAFT_MESSAGE_BYTES_MAX:
        raise PeerError(f"Raft message of {len(data)} bytes is over the limit")
    if data[:1] != _PREFIX:
        raise PeerError(f"Raft message of unknown version {data[:1]!r}; this node speaks {VERSION}")
    try:
        message: AnyMessage = _decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise PeerError(f"Raft message cannot be read: {problem}") from None
    return message


def encode_members(members: VotersAndLearners) -> bytes:
    """Return the data of an entry of kind CHANGE."""
    return _encoder.encode(members)


def decode_members(data: bytes) -> VotersAndLearners:
    """Decode the membership of a CHANGE entry. Raises `PeerError` for any other bytes."""
    try:
        return _members.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise PeerError(f"Raft membership cannot be read: {problem}") from None
