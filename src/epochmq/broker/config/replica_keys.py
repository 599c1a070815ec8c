"""Options of replication and of controller mode, under RocketMQ's names (RIP-44).

Replicas run in one of two modes: without controllers, `brokerRole` and `brokerId` decide who is
master; in controller mode the controllers decide it, and both keys have no effect.
"""

from dataclasses import dataclass

from epochmq.base.limits import HA_BATCH_BYTES_MAX
from epochmq.base.options import option
from epochmq.base.unbounded import LONG_MAX
from epochmq.model.host import split_addresses
from epochmq.runtime.tls import DISABLED, ENFORCING, PERMISSIVE

_HOUR_MS = 3_600_000
_INT_MAX = 2**31 - 1
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ReplicaKeys:
    # Who is the master.
    broker_role: str = option(
        "ASYNC_MASTER",
        "What the broker is in its group, without controllers. SYNC_MASTER waits for slaves.",
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
    )
    enable_controller_mode: bool = option(
        False, "Let controllers elect the master of the group (RIP-44)."
    )
    controller_addr: str = option("", "Controllers, as 'host:port;host:port'.")
    controller_deployed_stand_alone: bool = option(
        False, "Without effect: controllers are found by controllerAddr wherever they run."
    )
    fetch_controller_addr_by_dns_lookup: bool = option(
        False, "controllerAddr is one 'name:port'; every address of the name is a controller."
    )
    sync_controller_metadata_period: int = option(
        10_000,
        "How often the active controller is looked for, beside whenever it is lost.",
        low=100,
        high=_HOUR_MS,
        unit="ms",
    )
    sync_broker_metadata_period: int = option(
        5000,
        "How often the group's master is asked for, beside what notices and heartbeats bring.",
        low=100,
        high=_HOUR_MS,
        unit="ms",
    )
    check_sync_state_set_period: int = option(
        5000,
        "Without effect: members that fell behind are looked for twenty times a second.",
        low=50,
        high=_HOUR_MS,
        unit="ms",
    )
    broker_heartbeat_interval: int = option(
        1000,
        "How often controllers, or with enableSlaveActingMaster name servers, hear of the broker;"
        " with leases a sixth of one at most.",
        low=10,
        high=_HOUR_MS,
        unit="ms",
    )
    send_heartbeat_timeout_millis: int = option(
        1000, "How long a heartbeat waits for its answer.", low=10, high=_HOUR_MS, unit="ms"
    )
    controller_heart_beat_timeout_mills: int = option(
        10_000,
        "Controllers take the broker for dead after this time without a heartbeat.",
        low=100,
        high=_HOUR_MS,
        unit="ms",
    )
    broker_election_priority: int = option(
        _INT_MAX, "Among equal candidates the lower number becomes master.", low=0, high=_INT_MAX
    )
    store_path_broker_identity: str = option(
        "",
        "File of the broker's own id; empty is brokerIdentity under the root.",
        unit="path",
    )
    store_path_epoch_file: str = option(
        "", "File of the epochs; empty is epochFileCheckpoint under the root.", unit="path"
    )

    # What a send waits for.
    all_ack_in_sync_state_set: bool = option(
        False, "A send waits for every member of the sync-state set."
    )
    in_sync_replicas: int = option(
        1, "Replicas, the master among them, that a send waits for.", mutable=True, low=1, high=100
    )
    min_in_sync_replicas: int = option(
        1,
        "With fewer members in the set sends are refused. With controllers a lower value holds"
        " once they have recorded it.",
        mutable=True,
        low=1,
        high=100,
    )
    enable_auto_in_sync_replicas: bool = option(
        False, "Lower inSyncReplicas to the members there are, down to minInSyncReplicas."
    )
    slave_timeout: int = option(
        3000,
        "A send waits this long for replicas, then is answered FLUSH_SLAVE_TIMEOUT.",
        mutable=True,
        low=1,
        high=_HOUR_MS,
        unit="ms",
    )

    # How the log is copied.
    ha_listen_port: int = option(
        0, "Port for replication; 0 is listenPort + 1.", low=0, high=65_535
    )
    ha_bind_address: str = option(
        "",
        "Address that the replication port listens on; empty is bindAddress. EpochMQ's own.",
    )
    ha_tls_mode: str = option(
        DISABLED,
        "TLS of replication links, with the certificates of tls.server and tls.client: not used;"
        " preferred, and plain links are accepted; demanded. EpochMQ's own.",
        choices=(DISABLED, PERMISSIVE, ENFORCING),
    )
    ha_master_address: str = option(
        "", "Where a SLAVE copies from, 'host:port'; empty asks the name servers."
    )
    async_learner: bool = option(
        False, "Copy the log without ever joining the sync-state set or being elected."
    )
    sync_from_last_file: bool = option(
        False, "A replica without data begins at the master's last log file, not its first."
    )
    ha_max_time_slave_not_catchup: int = option(
        15_000,
        "A member that was not caught up for this long leaves the sync-state set.",
        low=10,
        high=_HOUR_MS,
        unit="ms",
    )
    ha_transfer_batch_size: int = option(
        HA_BATCH_BYTES_MAX,
        "Most bytes of log one frame carries to a replica; large frames cost the least (RocketMQ's"
        " default is 32768).",
        low=1024,
        high=HA_BATCH_BYTES_MAX,
        unit="bytes",
    )
    ha_max_gap_not_in_sync: int = option(
        256 * _MIB,
        "A slave further behind does not count for sends, without controllers.",
        low=1,
        high=LONG_MAX,
        unit="bytes",
    )
    ha_send_heartbeat_interval: int = option(
        5000, "The longest silence on a replication link.", low=10, high=_HOUR_MS, unit="ms"
    )
    ha_housekeeping_interval: int = option(
        20_000, "A replication link silent for this long is cut.", low=50, high=_HOUR_MS, unit="ms"
    )
    ha_flow_control_enable: bool = option(False, "Bound what replication may send a second.")
    max_ha_transfer_byte_in_second: int = option(
        100 * _MIB, "That bound.", low=1024, high=LONG_MAX, unit="bytes"
    )
    slave_metadata_period: int = option(
        1000,
        "How often a slave looks for news of topics, groups and offsets. EpochMQ's own.",
        low=50,
        high=_HOUR_MS,
        unit="ms",
    )


def replica_problems(keys: ReplicaKeys, broker_id: int) -> list[str]:
    """Return the problems of the values taken together."""
    problems = []
    if keys.in_sync_replicas < keys.min_in_sync_replicas and keys.enable_auto_in_sync_replicas:
        problems.append("option 'inSyncReplicas' must not be less than 'minInSyncReplicas'")
    if keys.enable_controller_mode:
        found = split_addresses(keys.controller_addr)
        if not found:
            problems.append("option 'enableControllerMode' needs 'controllerAddr'")
        if keys.fetch_controller_addr_by_dns_lookup and len(found) > 1:
            problems.append(
                "option 'controllerAddr' must be one 'name:port' with"
                " fetchControllerAddrByDnsLookup"
            )
        return problems
    if keys.broker_role == "SLAVE" and broker_id == 0:
        problems.append("option 'brokerId' must be more than 0 with brokerRole=SLAVE")
    if keys.broker_role != "SLAVE" and broker_id != 0:
        problems.append(
            "option 'brokerId' must be 0 for a master; a slave has brokerRole=SLAVE as well"
        )
    if keys.async_learner:
        problems.append("option 'asyncLearner' needs 'enableControllerMode'")
    if keys.all_ack_in_sync_state_set:
        problems.append("option 'allAckInSyncStateSet' needs 'enableControllerMode'")
    return problems
