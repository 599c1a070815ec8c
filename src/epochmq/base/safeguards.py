"""Safeguards that protect acknowledged messages; only the simulator can switch them off.

Product code uses the value `SAFE`, in which all are on. The simulator switches one off at a time
and must then find a violation (INV-92), which shows that each safeguard is needed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Safeguards:
    """The switches. All are on by default."""

    # Raft.
    one_vote_a_term: bool = True
    log_freshness_check: bool = True
    persist_before_reply: bool = True
    sync_before_vote: bool = True
    sync_before_append_ack: bool = True
    commit_only_own_term: bool = True
    pre_vote: bool = True
    check_quorum: bool = True
    read_index_barrier: bool = True

    # Replication.
    epoch_check_on_append: bool = True
    union_acks_while_set_changes: bool = True
    """Acknowledgements need the sync-state set and every pending proposal
    (rocketmq#5663, KIP-497)."""
    bounded_ack: bool = True
    """0 <= ack <= appended, else the connection is closed (rocketmq#3015)."""
    follower_syncs_before_ack: bool = True
    """With sync flush a follower acknowledges only what is on its device."""
    durable_truncation_first: bool = True
    """A truncation is on the device before the epoch file changes (rocketmq#10666)."""
    epoch_entry_before_data: bool = True
    """The entry of an epoch is synced before its first byte is written (rocketmq#9689)."""
    crc_on_scan: bool = True
    unclean_not_eligible: bool = True
    """A broker that restarted unclean cannot be elected until it has caught up (KIP-966)."""
    read_limit_is_confirmed: bool = True
    queue_offsets_from_whole_log: bool = True
    """rocketmq#7689."""
    deadline_recheck_after_pause: bool = True
    """A lease is checked again before each acknowledgement and read (S17)."""
    whole_set_past_lease: bool = True
    """After its lease a master acknowledges only what the whole set holds (ADR 0044, S26)."""

    # Brokers without a controller, and routes.
    lock_quorum: bool = True
    route_picks_highest_epoch: bool = True


SAFE = Safeguards()
