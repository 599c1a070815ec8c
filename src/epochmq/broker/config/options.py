"""The broker's options: RocketMQ's names, types and defaults, in one flat set of keys.

Defaults that differ from RocketMQ: `bindAddress` is loopback, and so are `brokerIP1` and
`brokerIP2` unless an interface is opened. As in RocketMQ, `brokerName` is the host's name, and
`autoCreateTopicEnable` is on, because standard clients in development rely on it.

Options with `mutable=True` may change at runtime. They are an allow-list of plain values
(CVE-2023-33246), and code reads them where it uses them, without keeping copies.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epochmq.auth.server_keys import inner_client_is_set
from epochmq.base import limits
from epochmq.base.errors import ConfigError, HeaderError, Refused
from epochmq.base.options import change, load, option
from epochmq.base.unbounded import LONG_MAX
from epochmq.broker.config.auth_keys import AuthKeys, auth_problems
from epochmq.broker.config.feature_keys import (
    ActingKeys,
    AssignKeys,
    EscapeKeys,
    LagKeys,
    LockKeys,
    PopKeys,
    ServerKeys,
    TimerKeys,
    TransactionKeys,
    acting_warnings,
    escape_warnings,
    lock_problems,
    timer_problems,
)
from epochmq.broker.config.ignored_keys import IGNORED, NOT_SERVED, not_served_problems
from epochmq.broker.config.replica_keys import ReplicaKeys, replica_problems
from epochmq.broker.config.store_keys import StoreKeys, store_problems
from epochmq.model import names
from epochmq.model.data_version import DataVersion
from epochmq.model.host import BadAddress, is_loopback, pack, parse_addr
from epochmq.runtime.metrics_options import metrics_problems
from epochmq.runtime.server_log_options import ServerLogOptions
from epochmq.runtime.tls import DISABLED, ENFORCING

FAST_PORT_STEP = -2
HA_PORT_STEP = 1
_DAY_MS = 86_400_000
_MEMORY_BYTES = 8 * 1024**3


@dataclass(frozen=True, kw_only=True)
class BrokerOptions(
    ServerKeys,
    StoreKeys,
    TimerKeys,
    ActingKeys,
    ReplicaKeys,
    AssignKeys,
    LockKeys,
    TransactionKeys,
    PopKeys,
    LagKeys,
    EscapeKeys,
    AuthKeys,
    ServerLogOptions,
):
    # Who and where.
    broker_name: str = option("", "Name of the broker group; empty is the host's name.")
    broker_cluster_name: str = option("DefaultCluster", "Name of the cluster.")
    broker_id: int = option(
        0,
        "0 is the master of the group, slaves have more; controllers give their own ids, so that"
        " RocketMQ's -1 will do in controller mode.",
        low=-1,
        high=LONG_MAX,
    )
    namesrv_addr: str = option("", "Name servers, as 'host:port;host:port'.")
    broker_ip1: str = option(
        "",
        "Address told to clients; empty is bindAddress, or this host's own when that is 0.0.0.0.",
        key="brokerIP1",
    )
    broker_ip2: str = option("", "Address told to replicas; empty is brokerIP1.", key="brokerIP2")
    group_address: str = option(
        "",
        "Address that routes give to clients instead of the master's own, as 'host:port': that of"
        " an `epochmq relay`, a proxy or a service that leads to the group's master. Empty: the"
        " master's own address. EpochMQ's own; name servers of RocketMQ ignore it.",
    )

    # Topics and groups.
    broker_permission: int = option(
        6, "2 lets clients write, 4 lets them read; the sum is both.", mutable=True, low=0, high=7
    )
    default_topic_queue_nums: int = option(
        8, "Queues of TBW102, the most that an auto-created topic gets.", low=1, high=1024
    )
    auto_create_topic_enable: bool = option(
        True, "A send to an unknown topic creates it.", mutable=True
    )
    auto_create_subscription_group: bool = option(
        True, "An unknown consumer group is created by its heartbeat.", mutable=True
    )
    cluster_topic_enable: bool = option(True, "The topic named after the cluster can be used.")
    broker_topic_enable: bool = option(True, "The topic named after the broker can be used.")
    trace_topic_enable: bool = option(False, "Create the topic for message traces.")
    msg_trace_topic_name: str = option(names.TRACE_TOPIC, "Name of the topic for message traces.")
    validate_system_topic_when_update_topic: bool = option(
        True, "Refuse to change or delete the broker's own topics.", mutable=True
    )
    clear_retry_topic_when_delete_topic: bool = option(
        True, "Deleting a topic deletes its POP retry topics too.", mutable=True
    )
    enable_mixed_message_type: bool = option(
        False, "Allow message.type=MIXED on a topic.", mutable=True
    )

    # Consumers.
    long_polling_enable: bool = option(
        True, "A pull that finds nothing waits for a message.", mutable=True
    )
    short_polling_time_mills: int = option(
        1000, "How long it waits when longPollingEnable is off.", mutable=True, low=0, high=60_000
    )
    lite_pull_message_enable: bool = option(True, "Serve lite pulls.", mutable=True)
    reject_pull_consumer_enable: bool = option(
        False, "Ignore heartbeats of pull consumers.", mutable=True
    )
    slave_read_enable: bool = option(False, "Clients may read from slaves.", mutable=True)
    notify_consumer_ids_changed_enable: bool = option(
        True, "Tell a group's members when one joins or leaves.", mutable=True
    )
    channel_expired_timeout: int = option(
        120_000, "A client without a heartbeat for this long is gone.", low=1000, high=_DAY_MS
    )
    flush_consumer_offset_interval: int = option(
        5000, "How often consumer offsets are saved.", low=10, high=_DAY_MS, unit="ms"
    )
    consumer_offset_update_version_step: int = option(
        500, "Commits that make one step of the offsets' version.", low=1, high=1_000_000
    )
    delay_offset_update_version_step: int = option(
        200, "Steps of delay levels that make one step of their version.", low=1, high=1_000_000
    )
    use_server_side_reset_offset: bool = option(
        True, "Reset offsets at the broker, not by telling the clients.", mutable=True
    )
    enable_property_filter: bool = option(
        False, "Serve SQL92 subscriptions. `epochmq dev` switches it on.", mutable=True
    )

    # Producers and tracing.
    start_accept_send_request_time_stamp: int = option(
        0, "Refuse sends before this wall time.", mutable=True, low=0, high=LONG_MAX, unit="ms"
    )
    region_id: str = option("DefaultRegion", "Written into messages as MSG_REGION.")
    trace_on: bool = option(True, "Written into messages as TRACE_ON.", mutable=True)
    store_reply_message_enable: bool = option(True, "Store replies of request and reply.")

    # Name servers.
    register_broker_timeout_mills: int = option(
        24_000, "How long one registration may take.", low=100, high=_DAY_MS, unit="ms"
    )
    register_name_server_period: int = option(
        30_000, "How often the broker registers.", mutable=True, low=10_000, high=60_000, unit="ms"
    )

    version: DataVersion = dataclasses.field(default_factory=DataVersion)
    """Not an option: the version that steps with each change at runtime, for GET_BROKER_CONFIG."""


def load_options(
    properties: Mapping[str, str],
    *,
    env: Mapping[str, str],
    warn: Callable[[str], None] | None = None,
) -> BrokerOptions:
    """Return the options of a properties file; raises `ConfigError` with every fault in it.

    A value that would switch on a missing feature is a fault, not a warning: a broker that seems to
    check passwords must not run without checking them.
    """
    problems = not_served_problems(properties)
    try:
        ignored = IGNORED | NOT_SERVED.keys()
        wanted = {key: text for key, text in properties.items() if key not in NOT_SERVED}
        (options,) = load([BrokerOptions], wanted, ignored=ignored, warn=warn, env=env)
    except ConfigError as error:
        raise ConfigError(problems + error.problems) from None
    assert isinstance(options, BrokerOptions)
    problems += store_problems(options) + _name_problems(options)
    problems += replica_problems(options, options.broker_id) + timer_problems(options)
    if options.broker_id < 0 and not options.enable_controller_mode:
        problems.append("option 'brokerId' must be 0 or more without enableControllerMode")
    problems += _acting_problems(options) + _replication_port_problems(options)
    problems += _replication_tls_problems(options) + metrics_problems(options)
    problems += lock_problems(
        strict=options.lock_in_strict_mode,
        replicas=options.total_replicas,
        acting=options.enable_slave_acting_master,
    )
    problems += auth_problems(options, has_replicas=_has_replicas(options))
    if problems:
        raise ConfigError(problems)
    return options


def _has_replicas(options: BrokerOptions) -> bool:
    several = options.total_replicas > 1 or options.enable_slave_acting_master
    return several or options.enable_controller_mode or options.broker_role != "ASYNC_MASTER"


def _replication_port_problems(options: BrokerOptions) -> list[str]:
    """Return the problem of required client certificates when the replication port is open without
    TLS."""
    demanded = options.tls_mode == ENFORCING and options.tls_need_client_auth == "require"
    if options.authenticates and inner_client_is_set(options):
        return []  # a stranger cannot authenticate a replication link
    if options.ha_tls_mode == ENFORCING:
        return []  # the certificates are demanded there too
    bind = options.ha_bind_address or options.bind_address
    if not demanded or is_loopback(bind):
        return []
    return [
        "option 'tls.server.need.client.auth'=require keeps strangers out of the client port, but"
        f" the replication port listens on {bind} without TLS: whoever reaches it gets the whole"
        " log, and can acknowledge in a replica's name; set haTlsMode=enforcing, or"
        " haBindAddress=127.0.0.1 and lead replicas there through an encrypted tunnel"
    ]


def _replication_tls_problems(options: BrokerOptions) -> list[str]:
    if options.ha_tls_mode == DISABLED:
        return []
    missing = []
    if options.tls_mode == DISABLED:
        missing.append("tls.server.mode with a certificate, to be a master")
    if not options.tls_enable:
        missing.append("tls.enable=true, to follow a master")
    return [f"option 'haTlsMode' needs {' and '.join(missing)}"] if missing else []


def _name_problems(options: BrokerOptions) -> list[str]:
    problems = []
    # Both names become parts of topic names, so the rules for topic names apply.
    room = limits.TOPIC_LENGTH_MAX - len(names.MEMBER_TOPIC_PREFIX)
    for key, name in (
        ("brokerName", options.broker_name),
        ("brokerClusterName", options.broker_cluster_name),
    ):
        try:
            if name:
                names.check_topic(name)
        except Refused as error:
            problems.append(f"option '{key}': {error.remark}")
        if len(name) > room:
            problems.append(f"option '{key}' must have at most {room} characters")
    return problems


def _acting_problems(options: BrokerOptions) -> list[str]:
    """Return the problem of using acting masters and controllers together: only one may name the
    master."""
    if options.enable_slave_acting_master and options.enable_controller_mode:
        return ["option 'enableSlaveActingMaster' cannot be used with 'enableControllerMode'"]
    return []


def resolve(
    options: BrokerOptions,
    *,
    host_name: str,
    host_address: str,
    memory_bytes: int = _MEMORY_BYTES,
) -> BrokerOptions:
    """Return the options with the missing names, addresses and secondary ports filled in.

    `host_address` is an address of this machine that others can reach, `memory_bytes` its RAM.
    Raises `ConfigError` when no IP address for clients results.
    """
    bind = options.bind_address
    everywhere = bind in ("", "0.0.0.0", "::")
    ip1 = options.broker_ip1 or (host_address if everywhere else bind)
    ip1 = "127.0.0.1" if ip1 == "localhost" else ip1
    _check_ip1(options, ip1)
    _check_group_address(options.group_address)
    fast, ha = options.fast_listen_port, options.ha_listen_port
    main = options.listen_port
    if not fast:
        fast = main + FAST_PORT_STEP if main > -FAST_PORT_STEP else -1
    return dataclasses.replace(
        options,
        broker_id=max(0, options.broker_id),
        broker_name=options.broker_name or _name_from_host(host_name),
        broker_ip1=ip1,
        broker_ip2=options.broker_ip2 or ip1,
        fast_listen_port=fast,
        ha_listen_port=ha or main + HA_PORT_STEP,
        memory_window_bytes=options.memory_window_bytes
        or memory_bytes * options.access_message_in_memory_max_ratio // 100,
    )


def _check_ip1(options: BrokerOptions, ip1: str) -> None:
    try:
        if ip1:
            pack(ip1, 0)  # every stored message contains it in this form
    except BadAddress:
        if options.broker_ip1:
            problem = f"option 'brokerIP1' must be an IP address, not '{ip1}'"
        else:
            problem = (
                f"option 'bindAddress' is not an IP address but '{ip1}': set it to one, or set"
                " brokerIP1 to the IP address that clients are to use"
            )
        raise ConfigError([problem]) from None


def _check_group_address(address: str) -> None:
    if not address:
        return
    try:
        parse_addr(address)
        names.check_shown(address)
    except (BadAddress, HeaderError) as error:
        raise ConfigError([f"option 'groupAddress': {error}"]) from None


def _name_from_host(host_name: str) -> str:
    plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in host_name)
    return plain.strip("-")[:64] or "DEFAULT_BROKER"


def reach_warnings(options: BrokerOptions) -> list[str]:
    """Return warnings about settings that do not do what an operator may expect, one line each."""
    lines = []
    if is_loopback(options.bind_address) and not is_loopback(options.broker_ip1):
        lines.append(
            f"clients are told {options.broker_ip1} but the broker listens on"
            f" {options.bind_address} only; set bindAddress=0.0.0.0 to let them in"
        )
    if not is_loopback(options.bind_address):
        lines.append(
            f"the broker listens on {options.bind_address} without access control: whoever can"
            " reach the port can read, write and administrate"
        )
    is_slave = options.broker_role == "SLAVE"
    lines += acting_warnings(options, is_slave=is_slave, slave_read=options.slave_read_enable)
    is_acting = is_slave and options.enable_slave_acting_master
    return lines + escape_warnings(options, is_acting=is_acting)


def change_options(
    options: BrokerOptions, properties: Mapping[str, str], wall: int
) -> BrokerOptions:
    """Return a copy with runtime changes; raises `ConfigError` for an immutable option or a bad
    value."""
    changed = change(options, properties)
    problems = store_problems(changed) + replica_problems(changed, changed.broker_id)
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(changed, version=options.version.next_version(wall))
