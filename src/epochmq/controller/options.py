"""Options of a controller with RocketMQ's names; defaults are RocketMQ's unless noted."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epochmq.auth.server_keys import ServerAuthKeys, server_problems
from epochmq.base.errors import ConfigError
from epochmq.base.options import PATH, load, option
from epochmq.controller.peer_list import PeerList
from epochmq.runtime.metrics_options import MetricsOptions, metrics_problems
from epochmq.runtime.server_log_options import ServerLogOptions
from epochmq.runtime.tls import TlsOptions

IGNORED = frozenset(
    {
        "configBlackList",
        "controllerRequestThreadPoolQueueCapacity",
        "controllerThreadPoolNums",
        "controllerType",
        "electMasterMaxRetryCount",
        "fetchNamesrvAddrByAddressServer",
        "jRaftControllerRPCAddr",
        "jRaftElectionTimeoutMs",
        "jRaftGroupId",
        "jRaftInitConf",
        "jRaftScanWaitTimeoutMs",
        "jRaftServerId",
        "jRaftSnapshotIntervalSecs",
        "mappedFileSize",
        "metricsGrpcExporterHeader",
        "metricsGrpcExporterIntervalInMills",
        "metricsGrpcExporterTarget",
        "metricsGrpcExporterTimeOutInMills",
        "metricsInDelta",
        "metricsLoggingExporterIntervalInMills",
        "processReadEvent",
        "rocketmqHome",
        "userControllerStatistic",
    }
)
"""RocketMQ's keys for other engines, threads and metrics. They are accepted and have no effect.

`processReadEvent` is one of them, because reads are always confirmed in EpochMQ.
"""

UNCLEAN = "enableElectUncleanMaster"
"""The switch that is kept in the replicated state, so that it is the same for every leader."""

CHANGES_FILE = "controller.properties"
USUAL_CHANGES_PATH = os.path.join("~", "controller", CHANGES_FILE)
"""The path of RocketMQ and of older versions, one file for all controllers of a user."""

KEPT_BACK = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
"""Keys that no request may change (code 16)."""


@dataclass(frozen=True, kw_only=True)
class ControllerOptions(TlsOptions, ServerAuthKeys, MetricsOptions, ServerLogOptions):
    """All options; those that may change at runtime are marked mutable."""

    controller_d_leger_group: str = option(
        "", "Name of the controllers' group.", key="controllerDLegerGroup"
    )
    controller_d_leger_peers: str = option(
        "",
        "All controllers, the same text on each: n0-host:port;n1-host:port;n2-host:port.",
        key="controllerDLegerPeers",
    )
    controller_d_leger_self_id: str = option(
        "", "Which of them this one is.", key="controllerDLegerSelfId"
    )
    controller_store_path: str = option(
        "${user.home}/DledgerController",
        "Directory of the controller's log. Never delete it on more than a minority.",
        unit=PATH,
    )
    controller_bootstrap: bool = option(
        False,
        "Not in RocketMQ. This is a new group of controllers: it is founded once all members of "
        "controllerDLegerPeers are up and none of them has data. One member with it is enough, "
        "and it may stay: with data it has no effect. A group of one needs no such permission.",
    )
    config_store_path: str = option(
        "",
        "File that keeps what updateControllerConfig changed; read at the start, over the file "
        "of -c. Empty: controller.properties in controllerStorePath; while that is missing, "
        "RocketMQ's ${user.home}/controller/controller.properties is read.",
        unit=PATH,
    )
    enable_elect_unclean_master: bool = option(
        False,
        "Elect a replica from outside the sync-state set when no member lives: messages may be "
        "lost. Kept in the replicated state; the file counts until it was first set.",
        mutable=True,
    )
    notify_broker_role_changed: bool = option(
        True, "Tell the brokers of a group at once of a new master.", mutable=True
    )
    scan_not_active_broker_interval: int = option(
        5_000,
        "How often brokers that went silent are dropped from the table. A master's silence is "
        "noticed on time, whatever this says.",
        low=100,
        high=60_000,
        unit="ms",
        mutable=True,
    )
    scan_inactive_master_interval: int = option(
        1_000,
        "How often an election that found nobody is tried again (RocketMQ: 5000). It is also "
        "tried whenever a broker of the group returns.",
        low=100,
        high=60_000,
        unit="ms",
        mutable=True,
    )
    lease_millis: int = option(
        2_000,
        "Not in RocketMQ. How long a master of EpochMQ may go on after the controllers last "
        "answered it; another is not elected before that, unless the process is known to be gone.",
        low=200,
        high=60_000,
        unit="ms",
    )
    lease_skew_millis: int = option(
        100,
        "Not in RocketMQ. Margin on top of a lease, for clocks that run at different rates.",
        low=0,
        high=10_000,
        unit="ms",
    )
    broker_timeout_millis: int = option(
        10_000,
        "Not in RocketMQ. A broker silent for this long is dead, unless it said another time "
        "itself.",
        low=500,
        high=300_000,
        unit="ms",
    )
    first_election_window_millis: int = option(
        1_500,
        "Not in RocketMQ. Before the first election of a group whose brokers hold data: how long "
        "to wait for all of them to report.",
        low=0,
        high=2_500,
        unit="ms",
    )
    trust_refused_connections: bool = option(
        True,
        "Not in RocketMQ. A master whose connection closed and whose port refuses connections is "
        "dead at once. Switch it off where a firewall answers in the place of hosts.",
        mutable=True,
    )
    election_timeout_millis: int = option(
        500,
        "Not in RocketMQ. Controllers that hear no leader for one to two times this elect another.",
        low=100,
        high=30_000,
        unit="ms",
    )
    raft_heartbeat_millis: int = option(
        100, "Not in RocketMQ. How often the leader shows itself.", low=10, high=10_000, unit="ms"
    )
    snapshot_entries: int = option(
        10_000,
        "Not in RocketMQ. After this many changes the log is replaced by a snapshot.",
        low=10,
        high=10_000_000,
    )
    controller_log_level: str = option(
        "",
        "Not in RocketMQ. What the controller logs, where that is not logLevel.",
        choices=("", "debug", "info", "warning", "error"),
    )
    controller_log_file: str = option(
        "", "Not in RocketMQ. The controller's lines go to this file too, rotated.", unit=PATH
    )

    bind_address: str = option(
        "",
        "Address to listen on; empty: the host that controllerDLegerPeers names for this one.",
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection silent for this long is closed.", low=1, high=86_400, unit="s"
    )
    use_uvloop: bool = option(True, "Run on uvloop where it is installed.")

    @property
    def changes_path(self) -> str:
        """The file with the changes that were made at run time."""
        in_store = os.path.join(self.controller_store_path, CHANGES_FILE)
        return self.config_store_path or in_store

    def peers(self) -> PeerList:
        """Return the controllers by id. Raises `ConfigError` if the keys do not fit together."""
        return PeerList.parse(
            self.controller_d_leger_group,
            self.controller_d_leger_peers,
            self.controller_d_leger_self_id,
        )

    def problems(self) -> list[str]:
        """Return the contradictions between options, one line each."""
        found = server_problems(self) + metrics_problems(self)
        if self.lease_millis + self.lease_skew_millis >= self.broker_timeout_millis:
            found.append("leaseMillis and leaseSkewMillis must stay below brokerTimeoutMillis")
        if 3 * self.raft_heartbeat_millis > self.election_timeout_millis:
            found.append("electionTimeoutMillis must be at least three raftHeartbeatMillis")
        try:
            self.peers()
        except ConfigError as error:
            found += error.problems
        return found


def load_options(
    properties: Mapping[str, str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> ControllerOptions:
    """Return typed options of a properties file. Raises `ConfigError` with one line for
    each fault.
    """
    (options,) = load((ControllerOptions,), properties, ignored=IGNORED, env=env, warn=warn)
    assert isinstance(options, ControllerOptions)
    problems = options.problems()
    if problems:
        raise ConfigError(problems)
    return options
