"""The link of one follower at its master, flow control, and measured speeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from epochmq.replication.frames import Hello, LinkState, ReplicationProtocol


@dataclass(slots=True, eq=False)
class ReplicaLink:
    """The link of one follower, from accept to close. Times are monotonic ms."""

    number: int
    peer: str
    read_at_ms: int
    """When bytes last arrived."""
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
    """Bytes of an incomplete frame."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next data for a link: a head, then `size` bytes of log from `offset` on.

    `is_last` says that the link has nothing more to send now.
    """

    head: bytes
    offset: int
    size: int
    is_last: bool = False


# Flow control --------------------------------------------------------------------------------
# How many bytes a master may send to all its followers in one second (haFlowControlEnable).


_SECOND_MS = 1000


class Flow:
    """Counts the bytes of each second; a second begins with its first byte."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._limit = bytes_per_second
        self._began_ms = 0
        self._sent = 0

    def allowance(self, now: int) -> int | None:
        """Return how many bytes may be sent now; None means no limit."""
        if self._limit is None:
            return None
        if now - self._began_ms >= _SECOND_MS:
            self._began_ms, self._sent = now, 0
        return max(0, self._limit - self._sent)

    def sent(self, count: int) -> None:
        """Count sent bytes."""
        self._sent += count

    def next_at_ms(self, now: int) -> int | None:
        """Return when more may be sent; None if it may be sent now."""
        return self._began_ms + _SECOND_MS if self.allowance(now) == 0 else None


# Speed ---------------------------------------------------------------------------------------
# Bytes per second of each link, measured over periods of one second.


SPAN_MS = 1_000


class Speeds:
    """Computes speeds from totals by link; values are those of the last complete period."""

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._totals: dict[int, int] = {}
        self._speeds: dict[int, int] = {}

    def sample(self, now: int, totals: Mapping[int, int]) -> None:
        """Note the total bytes of each link; used once in each period."""
        if self._at_ms is not None and now - self._at_ms < SPAN_MS:
            return
        if self._at_ms is not None:
            took_ms = now - self._at_ms
            self._speeds = {
                link: max(0, total - self._totals.get(link, 0)) * 1000 // took_ms
                for link, total in totals.items()
            }
        self._at_ms, self._totals = now, dict(totals)

    def of(self, link: int) -> int:
        """Return bytes per second; 0 for a link that is younger than a period."""
        return self._speeds.get(link, 0)
