"""Translates a broker's options into those of replication and of membership."""

import logging
from dataclasses import dataclass, replace

from epochmq.auth.server_keys import inner_credentials
from epochmq.base.errors import OurBug
from epochmq.base.options import describe
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.replica_keys import ReplicaKeys
from epochmq.model.host import split_addresses
from epochmq.replication.link_authentication import LinkKeys, derive_key
from epochmq.replication.options import ReplicationOptions
from epochmq.runtime.config_text import file_below_root
from epochmq.runtime.rng import new_nonce
from epochmq.runtime.streams import StreamSockets
from epochmq.runtime.tls import DISABLED, PERMISSIVE, client_tls, server_tls
from epochmq.runtime.tls_streams import TlsStreamSockets
from epochmq.store.epochs import FILE as EPOCH_FILE

# Options -------------------------------------------------------------------------------------
# The broker's options that the membership core needs, as plain values.


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipOptions:
    cluster: str
    broker: str
    address: str
    """The address where clients reach this broker."""
    ha_address: str
    """The address where replicas reach this broker."""
    controllers: tuple[str, ...]
    heartbeat_ms: int = 1000
    heartbeat_timeout_ms: int = 1000
    dead_after_ms: int = 10_000
    """controllerHeartBeatTimeoutMills: after this time without a heartbeat, controllers consider
    the broker dead."""
    poll_ms: int = 5000
    metadata_ms: int = 10_000
    call_timeout_ms: int = 3000
    priority: int = 2**31 - 1
    min_in_sync_replicas: int = 1
    """The sync-state set size below which this broker, as master, neither acknowledges nor confirms
    (KIP-966)."""
    learner: bool = False
    clean_start: bool = True
    incarnation: str = ""
    """Random text for a replica that has no stored incarnation yet."""
    session: str = ""
    """Random text that identifies this process."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of the log in a heartbeat; offsets are byte positions."""

    epoch: int = 0
    max_offset: int = 0
    confirm_offset: int = 0


# Replica options -----------------------------------------------------------------------------


_log = logging.getLogger(__name__)

FIELDS = {
    "all_ack": "all_ack_in_sync_state_set",
    "in_sync_replicas": "in_sync_replicas",
    "min_in_sync_replicas": "min_in_sync_replicas",
    "auto_in_sync_replicas": "enable_auto_in_sync_replicas",
    "not_caught_up_ms": "ha_max_time_slave_not_catchup",
    "transfer_batch_bytes": "ha_transfer_batch_size",
    "heartbeat_ms": "ha_send_heartbeat_interval",
    "housekeeping_ms": "ha_housekeeping_interval",
    "flow_control": "ha_flow_control_enable",
    "flow_bytes_per_second": "max_ha_transfer_byte_in_second",
    "learner": "async_learner",
    "from_last_file": "sync_from_last_file",
    "gap_max_bytes": "ha_max_gap_not_in_sync",
}
"""Field of `ReplicationOptions` -> field of `BrokerOptions`. Options declared `mutable` also reach
a running replication (`changed_options`); a new entry here needs no other code."""


def replication_options(options: BrokerOptions, *, upgraded: bool) -> ReplicationOptions:
    """Build the options of replication. `upgraded`: this replica has no identity yet, so its log is
    from before controller mode."""
    return ReplicationOptions(
        **{ours: getattr(options, theirs) for ours, theirs in FIELDS.items()},
        adopt_plain_log=upgraded,
        sync_before_ack=options.flush_disk_type == "SYNC_FLUSH",
        link_keys=link_keys(options),
    )


def replication_sockets(options: BrokerOptions) -> StreamSockets:
    """Return what makes the sockets of replication; raises `ConfigError` for wrong certificates."""
    if options.ha_tls_mode == DISABLED:
        return StreamSockets()
    server, client = server_tls(options), client_tls(options)
    if server is None or client is None:
        raise OurBug("haTlsMode without certificates: the options were not checked")
    return TlsStreamSockets(server, client, plain_allowed=options.ha_tls_mode == PERMISSIVE)


def link_keys(options: BrokerOptions) -> LinkKeys | None:
    """Return what authenticates replication links; None without credentials of the brokers.

    Links without authentication are accepted until authentication is enabled, so that a group can
    be changed over broker by broker.
    """
    inner = inner_credentials(options)
    if inner is None:
        return None
    key = derive_key(inner.access_key, inner.secret_key)
    return LinkKeys(key, options.authenticates, new_nonce)


def changed_options(running: ReplicationOptions, options: BrokerOptions) -> ReplicationOptions:
    """Return `running` with those values of `options` that may change while replication runs."""
    mutable = {row.field for row in describe(ReplicaKeys) if row.mutable}
    return replace(
        running,
        **{ours: getattr(options, theirs) for ours, theirs in FIELDS.items() if theirs in mutable},
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
        controllers=split_addresses(options.controller_addr),
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
    """Return whether sends wait for more than this broker."""
    several = options.in_sync_replicas > 1 or options.min_in_sync_replicas > 1
    if options.enable_controller_mode:
        return options.all_ack_in_sync_state_set or several
    return options.broker_role == "SYNC_MASTER" and several


def epoch_file(options: BrokerOptions) -> str:
    """Return the epoch file's path as the store's disk names it; `ConfigError` outside the root."""
    path = options.store_path_epoch_file
    return _in_store(options, "storePathEpochFile", path, EPOCH_FILE)


def identity_file(options: BrokerOptions) -> str:
    """Return the identity file's path as the store's disk names it; `ConfigError` outside the
    root."""
    path = options.store_path_broker_identity
    return _in_store(options, "storePathBrokerIdentity", path, "brokerIdentity")


def _in_store(options: BrokerOptions, key: str, path: str, default: str) -> str:
    name, said = file_below_root(key, options.store_path_root_dir, path, default)
    if said:
        _log.warning(said)
    return name
