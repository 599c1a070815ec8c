"""One follower's link as the master sees it: what it was sent, where it is, when it was heard."""

from collections.abc import Mapping
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


# Flow ----------------------------------------------------------------------------------------
# How much log a master may send to all its followers in one second (haFlowControlEnable).


_SECOND_MS = 1000


class Flow:
    """Counts bytes in seconds that begin with the first byte sent."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._limit = bytes_per_second
        self._began_ms = 0
        self._sent = 0

    def allowance(self, now: int) -> int | None:
        """Bytes that may be sent now; None for any number."""
        if self._limit is None:
            return None
        if now - self._began_ms >= _SECOND_MS:
            self._began_ms, self._sent = now, 0
        return max(0, self._limit - self._sent)

    def sent(self, count: int) -> None:
        self._sent += count

    def next_at_ms(self, now: int) -> int | None:
        """When more may be sent, if that is not now."""
        return self._began_ms + _SECOND_MS if self.allowance(now) == 0 else None


# Speed ---------------------------------------------------------------------------------------
# How fast bytes go over each link, measured over spans of a second.


SPAN_MS = 1_000


class Speeds:
    """Looks at totals by link now and then; figures are of the last whole span."""

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._totals: dict[int, int] = {}
        self._speeds: dict[int, int] = {}

    def sample(self, now: int, totals: Mapping[int, int]) -> None:
        """`totals` are bytes since each link began; looked at when a span is over."""
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
        """Bytes a second; 0 for a link that is younger than a span."""
        return self._speeds.get(link, 0)
