"""Options of replication as plain values; the broker maps RocketMQ's names to them."""

from dataclasses import dataclass

from epochmq.base.limits import HA_BATCH_BYTES_MAX
from epochmq.replication.link_authentication import LinkKeys


@dataclass(frozen=True)
class ReplicationOptions:
    """Options of replication. Defaults are RocketMQ's where RocketMQ has the option."""

    all_ack: bool = False
    """allAckInSyncStateSet"""
    in_sync_replicas: int = 1
    """inSyncReplicas: replicas, including the master, that an acknowledgement waits for."""
    min_in_sync_replicas: int = 1
    """minInSyncReplicas: with a smaller set, sends are refused and nothing is acknowledged."""
    auto_in_sync_replicas: bool = False
    """enableAutoInSyncReplicas: wait for as many replicas as there are, but at least for the
    minimum."""

    not_caught_up_ms: int = 15_000
    """haMaxTimeSlaveNotCatchup"""
    lost_link_grace_ms: int = 1000
    """A member whose link closed leaves the set after this time, unless it returns before."""
    first_link_grace_ms: int = 3000
    """A member that never connected to a new master leaves the set after this time."""
    proposal_retry_ms: int = 500
    """Pause between two attempts to change the set."""
    joining_hold_ms: int = 50
    """How long `confirmed` may wait for a follower that is about to join under load."""

    transfer_batch_bytes: int = HA_BATCH_BYTES_MAX
    """haTransferBatchSize: largest piece of log in one frame. At the end of each frame a follower
    copies what it read of the next frame, so large frames are cheapest."""
    heartbeat_ms: int = 5000
    """haSendHeartbeatInterval"""
    housekeeping_ms: int = 20_000
    """haHousekeepingInterval"""
    confirm_interval_ms: int = 50
    """An idle follower learns a higher confirmed offset within this time."""
    flow_control: bool = False
    """haFlowControlEnable"""
    flow_bytes_per_second: int = 100 * 1024 * 1024
    """maxHaTransferByteInSecond"""
    reconnect_ms: int = 20
    """The first wait before a follower connects again; it doubles up to five seconds. It is short
    because a follower may know its new master before that one has taken over, and sends wait for
    the follower."""
    connect_timeout_ms: int = 3000

    learner: bool = False
    """asyncLearner"""
    from_last_file: bool = False
    """syncFromLastFile"""
    adopt_plain_log: bool = False
    """The log was written without a controller (before an upgrade); it becomes epoch 0."""
    sync_before_ack: bool = False
    """A follower acknowledges only what is on its device (SYNC_FLUSH)."""

    link_keys: LinkKeys | None = None
    """Authenticates links; None without credentials of the brokers."""

    gap_max_bytes: int = 256 * 1024 * 1024
    """haMaxGapNotInSync: without a controller, a slave that is further behind does not count."""

    @property
    def batch_bytes(self) -> int:
        """Largest piece of log in one frame, in bytes."""
        return min(self.transfer_batch_bytes, HA_BATCH_BYTES_MAX)
