"""Options of one broker in a container: its file's path, and keys that the container sets.

The rules are RocketMQ's: a master has the id 0, a slave a larger one; the replication port is
listenPort + 1; the network settings are the container's.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from epochmq.base.errors import ConfigError, Refused
from epochmq.broker.config.container_options import ContainerOptions
from epochmq.broker.config.options import FAST_PORT_STEP, HA_PORT_STEP, BrokerOptions, load_options
from epochmq.broker.config.store_keys import log_dir
from epochmq.runtime.config_text import path_below, real_paths, store_paths
from epochmq.wire.codes import ResponseCode

LISTEN_PORT = "6888"
"""RocketMQ's default inside a container."""

_OURS = (
    "auditLogFile",
    "bindAddress",
    "logFile",
    "logFormat",
    "tls.enable",
    "tls.client.authServer",
    "tls.client.trustCertPath",
    "tls.client.checkHostName",
    "tls.client.certPath",
    "tls.client.keyPath",
    "tls.server.mode",
    "tls.server.certPath",
    "tls.server.keyPath",
    "tls.server.trustCertPath",
    "tls.server.need.client.auth",
)
"""Keys that the container sets for all its brokers."""


class InnerBrokerId(NamedTuple):
    """The identity of a broker; a container has at most one broker with it."""

    cluster: str
    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster}_{self.name}_{self.number}"


def identity_of(options: BrokerOptions) -> InnerBrokerId:
    """Return the identity of a broker whose options are resolved."""
    return InnerBrokerId(options.broker_cluster_name, options.broker_name, options.broker_id)


def checked_path(path: str | None, folders: Iterable[str]) -> str:
    """Return the real path of ADD_BROKER's file; `Refused` unless it is below `folders`.

    The answer does not show whether a file elsewhere exists.
    """
    if not path:
        text = "configPath is missing; properties in the body are not taken (rocketmq#7472)"
        raise Refused(ResponseCode.SYSTEM_ERROR, text)
    real = path_below(path, folders)
    if real is None:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            "configPath must be an absolute path below one of the container's brokerConfigDirs",
        )
    return real


def inner_options(
    properties: Mapping[str, str],
    container: ContainerOptions,
    *,
    env: Mapping[str, str],
    warn: Callable[[str], None],
) -> BrokerOptions:
    """Return the options of one broker of the container; `ConfigError` has a line for each
    fault."""
    given = {key: text for key, text in properties.items() if key not in _OURS}
    by_controllers = given.get("enableControllerMode", "").strip().lower() == "true"
    if not by_controllers and given.get("brokerRole", "").strip() != "SLAVE":
        given["brokerId"] = "0"
    port = given.setdefault("listenPort", LISTEN_PORT).strip()
    given.pop("haListenPort", None)
    if port.isdecimal() and 0 < int(port) < 65_535:
        given["haListenPort"] = str(int(port) + HA_PORT_STEP)
    if container.namesrv_addr:
        given["namesrvAddr"] = container.namesrv_addr
    if container.broker_container_ip:
        given.setdefault("brokerIP1", container.broker_container_ip)
    options = load_options({**given, **_network(container)}, env=env, warn=warn)
    problems = []
    if not options.broker_name:
        problems.append("option 'brokerName' is needed in a container")
    wanted = (options.total_replicas, options.in_sync_replicas, options.min_in_sync_replicas)
    if list(wanted) != sorted(wanted, reverse=True) and not by_controllers:
        problems.append(
            "invalid replicas number: totalReplicas >= inSyncReplicas >= minInSyncReplicas must"
            " hold, not {} >= {} >= {}".format(*wanted)
        )
    if problems:
        raise ConfigError(problems)
    return options


def _network(container: ContainerOptions) -> dict[str, str]:
    return {
        "auditLogFile": container.audit_log_file,
        "bindAddress": container.bind_address,
        "logFile": container.log_file,
        "logFormat": container.log_format,
        "tls.enable": str(container.tls_enable).lower(),
        "tls.client.authServer": str(container.tls_client_auth_server).lower(),
        "tls.client.trustCertPath": container.tls_client_trust_cert_path,
        "tls.client.checkHostName": str(container.tls_client_check_host_name).lower(),
        "tls.client.certPath": container.tls_client_cert_path,
        "tls.client.keyPath": container.tls_client_key_path,
        "tls.server.mode": container.tls_mode,
        "tls.server.certPath": container.tls_cert_path,
        "tls.server.keyPath": container.tls_key_path,
        "tls.server.trustCertPath": container.tls_trust_cert_path,
        "tls.server.need.client.auth": container.tls_need_client_auth,
    }


def log_file_of(identity: InnerBrokerId, container: ContainerOptions) -> str:
    """Return the log file of a broker with isolateLogEnable, in RocketMQ's directory."""
    folder = Path(container.broker_log_dir or Path.home() / "logs")
    return str(folder / f"{identity}_rocketmqlogs" / "broker.log")


def ports_of(options: BrokerOptions) -> frozenset[int]:
    """Return the ports that the broker will listen on; none where the system chooses them."""
    main = options.listen_port
    if not main:
        return frozenset()
    fast = options.fast_listen_port or main + FAST_PORT_STEP
    return frozenset({main, options.ha_listen_port, *([fast] if fast > 0 else [])})


def folders_of(options: BrokerOptions) -> tuple[str, ...]:
    """Return the real paths of the directories that the broker writes to."""
    root, log_path, _ = store_paths(options.store_path_root_dir, options.store_path_commit_log)
    _, elsewhere = log_dir(root, log_path)
    return real_paths((root, *elsewhere.values()))
