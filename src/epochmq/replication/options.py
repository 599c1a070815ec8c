"""What may be set about replication, as plain values; the broker maps RocketMQ's names here."""

from dataclasses import dataclass

from epochmq.base.limits import HA_BATCH_BYTES_MAX


@dataclass(frozen=True)
class ReplicationOptions:
    """Defaults are upstream's where upstream has the option."""

    all_ack: bool = False
    """allAckInSyncStateSet"""
    in_sync_replicas: int = 1
    """inSyncReplicas: replicas, the master among them, that an acknowledgement waits for."""
    min_in_sync_replicas: int = 1
    """minInSyncReplicas: with fewer in the set nothing is taken or acknowledged."""
    auto_in_sync_replicas: bool = False
    """enableAutoInSyncReplicas: wait for as many as there are, but never fewer than the minimum."""

    not_caught_up_ms: int = 15_000
    """haMaxTimeSlaveNotCatchup"""
    lost_link_grace_ms: int = 1000
    """A member whose link broke leaves the set after this time; it may come back before."""
    first_link_grace_ms: int = 3000
    """A member that has not connected to a new master yet leaves the set after this time."""
    proposal_retry_ms: int = 500
    """Between two attempts to change the set."""
    joining_hold_ms: int = 50
    """How long `confirmed` may be held for a follower that is about to join under load."""

    transfer_batch_bytes: int = HA_BATCH_BYTES_MAX
    """haTransferBatchSize: most bytes of log in one frame. At each frame's end a follower has to
    copy what it read of the next one, so the largest frames are the cheapest."""
    heartbeat_ms: int = 5000
    """haSendHeartbeatInterval"""
    housekeeping_ms: int = 20_000
    """haHousekeepingInterval"""
    confirm_interval_ms: int = 50
    """An idle follower hears of a higher confirmed offset no later than this."""
    flow_control: bool = False
    """haFlowControlEnable"""
    flow_bytes_per_second: int = 100 * 1024 * 1024
    """maxHaTransferByteInSecond"""
    reconnect_ms: int = 20
    """First wait before a follower dials again, doubles up to five seconds. Short: in a failover it
    may hear of its new master before that one has become it, and sends wait for the follower."""
    connect_timeout_ms: int = 3000

    learner: bool = False
    """asyncLearner"""
    from_last_file: bool = False
    """syncFromLastFile"""
    adopt_plain_log: bool = False
    """The log was written without a controller (an upgrade): it becomes epoch 0."""
    sync_before_ack: bool = False
    """A follower acknowledges what is on its device only (SYNC_FLUSH)."""

    gap_max_bytes: int = 256 * 1024 * 1024
    """haMaxGapNotInSync: without a controller, a slave further behind does not count."""

    @property
    def batch_bytes(self) -> int:
        """Most log in one frame."""
        return min(self.transfer_batch_bytes, HA_BATCH_BYTES_MAX)
