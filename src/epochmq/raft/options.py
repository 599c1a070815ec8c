"""Times and sizes of a Raft node."""

from dataclasses import dataclass

from epochmq.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Options of a Raft node. All times are milliseconds of the node's monotonic clock."""

    election_timeout_ms: int = 1000
    """A node starts an election when it hears no leader for one to two times this long. After it
    hears a leader, it votes for no other node for this long (thesis 6.4.1)."""
    heartbeat_ms: int = 100
    lease_margin_ms: int = 200
    """How much earlier than `election_timeout_ms` a leader's lease ends. The clocks of two nodes
    may drift apart by this much in one election timeout."""
    append_bytes_max: int = 1024 * 1024
    """Bytes of entries in one message; a single entry may be larger."""
    in_flight_max: int = 64
    """Unanswered appends to one follower."""
    in_flight_bytes_max: int = 8 * 1024 * 1024
    snapshot_resend_ms: int = 5000
    """An unanswered snapshot is sent again after this time."""

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.heartbeat_ms * 2 <= self.election_timeout_ms:
            problems.append("electionTimeoutMillis must be at least twice heartbeatMillis")
        if not 0 <= self.lease_margin_ms < self.election_timeout_ms:
            problems.append("the lease margin must be shorter than electionTimeoutMillis")
        if min(self.append_bytes_max, self.in_flight_max, self.in_flight_bytes_max) < 1:
            problems.append("sizes of appends must be positive")
        if problems:
            raise ConfigError(problems)

    @property
    def lease_ms(self) -> int:
        """Length of a lease, from when a heartbeat was sent that a majority answered."""
        return self.election_timeout_ms - self.lease_margin_ms
