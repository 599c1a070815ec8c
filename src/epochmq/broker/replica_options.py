"""A broker's options as replication and membership take them."""

from dataclasses import replace
from pathlib import PurePath

from epochmq.base.errors import ConfigError
from epochmq.broker.membership.options import MembershipOptions
from epochmq.broker.options import BrokerOptions
from epochmq.broker.replica_keys import addresses
from epochmq.replication.options import ReplicationOptions
from epochmq.store.epochs import FILE as EPOCH_FILE


def replication_options(options: BrokerOptions, *, upgraded: bool) -> ReplicationOptions:
    """`upgraded`: this replica has no identity yet, so its log is from before controller mode."""
    return ReplicationOptions(
        all_ack=options.all_ack_in_sync_state_set,
        in_sync_replicas=options.in_sync_replicas,
        min_in_sync_replicas=options.min_in_sync_replicas,
        auto_in_sync_replicas=options.enable_auto_in_sync_replicas,
        slave_timeout_ms=options.slave_timeout,
        not_caught_up_ms=options.ha_max_time_slave_not_catchup,
        transfer_batch_bytes=options.ha_transfer_batch_size,
        heartbeat_ms=options.ha_send_heartbeat_interval,
        housekeeping_ms=options.ha_housekeeping_interval,
        flow_control=options.ha_flow_control_enable,
        flow_bytes_per_second=options.max_ha_transfer_byte_in_second,
        learner=options.async_learner,
        from_last_file=options.sync_from_last_file,
        adopt_plain_log=upgraded,
        sync_before_ack=options.flush_disk_type == "SYNC_FLUSH",
        gap_max_bytes=options.ha_max_gap_not_in_sync,
    )


def changed_numbers(running: ReplicationOptions, options: BrokerOptions) -> ReplicationOptions:
    """What may change of `running` while replication goes on."""
    return replace(
        running,
        in_sync_replicas=options.in_sync_replicas,
        min_in_sync_replicas=options.min_in_sync_replicas,
        slave_timeout_ms=options.slave_timeout,
    )


def membership_options(
    options: BrokerOptions,
    *,
    address: str,
    ha_address: str,
    clean_start: bool,
    incarnation: str,
    session: str,
) -> MembershipOptions:
    return MembershipOptions(
        cluster=options.broker_cluster_name,
        broker=options.broker_name,
        address=address,
        ha_address=ha_address,
        controllers=addresses(options.controller_addr),
        heartbeat_ms=options.broker_heartbeat_interval,
        heartbeat_timeout_ms=options.send_heartbeat_timeout_millis,
        dead_after_ms=options.controller_heart_beat_timeout_mills,
        poll_ms=options.sync_broker_metadata_period,
        metadata_ms=options.sync_controller_metadata_period,
        priority=options.broker_election_priority,
        min_in_sync_replicas=options.min_in_sync_replicas,
        learner=options.async_learner,
        clean_start=clean_start,
        incarnation=incarnation,
        session=session,
    )


def waits_for_replicas(options: BrokerOptions) -> bool:
    """Whether sends wait for more than this broker (facts/store.md 4.2)."""
    several = options.in_sync_replicas > 1 or options.min_in_sync_replicas > 1
    if options.enable_controller_mode:
        return options.all_ack_in_sync_state_set or several
    return options.broker_role == "SYNC_MASTER" and several


def file_in_store(key: str, root: str, configured: str, default: str) -> str:
    """The path of a small file as the store's disk names it; `ConfigError` outside of the root."""
    if not configured:
        return default
    path = PurePath(configured)
    if not path.is_absolute():
        return str(path)
    if path.is_relative_to(root):
        return str(path.relative_to(root))
    raise ConfigError([f"option '{key}' must lie under storePathRootDir {root}, not {configured}"])


def epoch_file(options: BrokerOptions) -> str:
    root = options.store_path_root_dir
    return file_in_store("storePathEpochFile", root, options.store_path_epoch_file, EPOCH_FILE)


def identity_file(options: BrokerOptions) -> str:
    root, path = options.store_path_root_dir, options.store_path_broker_identity
    return file_in_store("storePathBrokerIdentity", root, path, "brokerIdentity")
