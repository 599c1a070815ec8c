"""One follower's link as the master sees it: what it was sent, where it is, when it was heard."""

from dataclasses import dataclass, field

from epochmq.replication.frames import Hello, LinkState, ReplicationProtocol


@dataclass(slots=True, eq=False)
class ReplicaLink:
    """From accept to close. Times are monotonic."""

    number: int
    peer: str
    read_at_ms: int
    """When bytes last came."""
    written_at_ms: int
    state: LinkState = LinkState.READY
    hello: Hello | None = None
    follower_id: int = 0
    generation: ReplicationProtocol = ReplicationProtocol.G2
    next: int = -1
    """Offset of the next byte to send; -1 before the first acknowledgement."""
    ack: int = -1
    epoch_told: int = -1
    confirmed_told: int = -1
    sent_bytes: int = 0
    suspended_told: bool = False
    inbox: bytearray = field(default_factory=bytearray)
    """Bytes of a frame that is not whole yet."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next thing to write to a link: a head, then `size` bytes of log from `offset`."""

    head: bytes
    offset: int
    size: int
