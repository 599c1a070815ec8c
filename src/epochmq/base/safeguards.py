"""The safeguards that keep acknowledged messages, each with a switch for the simulator alone.

Product code gets the one value `SAFE`, in which everything is on. The simulator switches one off at
a time and must then find a violation (INV-92): so each safeguard is known to carry weight.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Safeguards:
    """All on. The simulator switches each of them off to see that its checkers notice."""

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
    """Acknowledgements count the set and every pending proposal (rocketmq#5663, KIP-497)."""
    bounded_ack: bool = True
    """0 <= ack <= appended, else the link is cut (rocketmq#3015)."""
    follower_syncs_before_ack: bool = True
    """With sync flush a follower acknowledges what is on its device."""
    durable_truncation_first: bool = True
    """Truncation is on the device before the epoch file changes (rocketmq#10666)."""
    epoch_entry_before_data: bool = True
    """The entry of an epoch is synced before its first byte (rocketmq#9689)."""
    crc_on_scan: bool = True
    unclean_not_eligible: bool = True
    """A broker that restarts unclean is not electable until it caught up again (KIP-966)."""
    read_limit_is_confirmed: bool = True
    queue_offsets_from_whole_log: bool = True
    """rocketmq#7689."""
    deadline_recheck_after_pause: bool = True
    """A lease is looked at again before each acknowledgement and read (S17)."""
    whole_set_past_lease: bool = True
    """Past its lease a master acknowledges only what the whole set holds (ADR 0044, S26)."""

    # Brokers without a controller, and routes.
    lock_quorum: bool = True
    route_picks_highest_epoch: bool = True


SAFE = Safeguards()
