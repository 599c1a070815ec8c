"""Options of a name server with RocketMQ's names; defaults are RocketMQ's unless noted."""

from dataclasses import dataclass

from epochmq.auth.server_keys import ServerAuthKeys
from epochmq.base.options import PATH, option
from epochmq.runtime.metrics_options import MetricsOptions
from epochmq.runtime.server_log_options import ServerLogOptions
from epochmq.runtime.tls import TlsOptions

IGNORED = frozenset(
    {
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "clusterTest",
        "configBlackList",
        "configStorePath",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "enableShutdownGracefully",
        "namesrvAddr",
        "productEnvName",
        "rocketmqHome",
        "serverAsyncSemaphoreValue",
        "serverCallbackExecutorThreads",
        "serverOnewaySemaphoreValue",
        "serverPooledByteBufAllocatorEnable",
        "serverSelectorThreads",
        "serverSocketBacklog",
        "serverSocketRcvBufSize",
        "serverSocketSndBufSize",
        "serverWorkerThreads",
        "shutdownWaitTimeSeconds",
        "unRegisterBrokerQueueCapacity",
        "useEpollNativeSelector",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
)
"""RocketMQ's keys for threads, queues and buffers that EpochMQ does not have. They are accepted and
have no effect."""


@dataclass(frozen=True, kw_only=True)
class NamesrvOptions(TlsOptions, ServerAuthKeys, MetricsOptions, ServerLogOptions):
    """All options; those that may change at runtime are marked mutable."""

    listen_port: int = option(9876, "Port for brokers and clients.", low=0, high=65535)
    bind_address: str = option(
        "127.0.0.1",
        "Address to listen on. Unlike RocketMQ only this machine by default; set 0.0.0.0 to be "
        "reachable from others.",
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection silent for this long is closed.", low=1, high=86_400, unit="s"
    )
    kv_config_path: str = option(
        "${user.home}/namesrv/kvConfig.json",
        "File that keeps the key-value configuration.",
        unit=PATH,
    )
    order_message_enable: bool = option(
        False, "Put the order configuration of a topic into its route.", mutable=True
    )
    return_order_topic_config_to_broker: bool = option(
        True, "Answer a broker's registration with all order configurations.", mutable=True
    )
    scan_not_active_broker_interval: int = option(
        5_000,
        "How often silent brokers are looked for.",
        low=100,
        high=60_000,
        unit="ms",
        mutable=True,
    )
    support_acting_master: bool = option(
        False,
        "Show the replica with the smallest id as master of a group without one.",
        mutable=True,
    )
    notify_min_broker_id_changed: bool = option(
        False, "Tell the members of a group when its smallest broker id changes.", mutable=True
    )
    delete_topic_with_broker_registration: bool = option(
        False,
        "A registration also removes the broker's topics that it does not name. Only for EpochMQ's "
        "brokers, which say when they register a part of their topics; those with more than 5,000 "
        "topics always do, and then none is removed.",
        mutable=True,
    )
    enable_all_topic_list: bool = option(True, "Let tools list all topics.", mutable=True)
    enable_topic_list: bool = option(
        True, "Let tools list the topics of a cluster, and unit topics.", mutable=True
    )
    need_wait_for_service: bool = option(
        False, "Answer no routes for a while after the start, until brokers have registered."
    )
    wait_seconds_for_service: int = option(
        45, "How long needWaitForService waits.", low=0, high=3_600, unit="s"
    )
    enable_controller_in_namesrv: bool = option(
        False,
        "Run a controller in this process too; its options are in the same file. It shares this "
        "port when controllerDLegerPeers names it, and has its own otherwise.",
    )
    use_uvloop: bool = option(True, "Run on uvloop where it is installed.")
