"""`exportConfigs`, `exportMetadata`, `exportMetrics`."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from epochmq.admin.mqadmin.mqadmin_stats import count_of_day
from epochmq.admin.mqadmin.running import Out, flag, mq_command, one_of, opt
from epochmq.admin.shared.export_file import own_directory, write_export
from epochmq.base.errors import EpochError, NotReachable, Refused, UsageError
from epochmq.client.core.release_names import release_name
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.names import (
    HALF_TOPIC,
    REPLY_TOPIC_SUFFIX,
    SCHEDULE_TOPIC,
    is_dlq_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
)
from epochmq.model.topic import TopicConfig
from epochmq.wire.codes import OUR_VERSION

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_FILE = click.Path(file_okay=False, path_type=Path)
_PUT = "TOPIC_PUT_NUMS"
_SHOWN = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)
"""The options that RocketMQ's tool exports."""


def _place() -> click.Option:
    return opt(
        "f", "filePath", "Directory for the file; else one of yours for temporary files.", _FILE
    )


@mq_command("exportConfigs", opt("c", "clusterName", "The cluster.", required=True), _place())
async def export_configs(
    admin: "Admin", out: Out, cluster_name: str, file_path: Path | None
) -> None:
    """Write important options of a cluster's masters, and its numbers of servers, to a file."""
    groups = await admin.broker_groups(cluster_name)
    masters = await admin.masters(cluster_name)
    configs = {}
    for name, address in masters.items():
        found = await admin.broker_config(address)
        configs[name] = {key: found[key] for key in _SHOWN if key in found}
    scale = {
        "namesrvSize": len(admin.name_servers),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": sum(
            number != 0 for each in groups.values() for number in each.broker_addrs
        ),
    }
    _write(out, file_path, "configs.json", {"brokerConfigs": configs, "clusterScale": scale})


@mq_command(
    "exportMetadata",
    opt("c", "clusterName", "All masters of a cluster together."),
    opt("b", "brokerAddr", "One broker, HOST:PORT; needs -t or -g."),
    _place(),
    flag("t", "topic", "Topics only."),
    flag("g", "subscriptionGroup", "Groups only."),
    flag("s", "specialTopic", "With retry and dead-letter topics."),
)
async def export_metadata(
    admin: "Admin",
    out: Out,
    cluster_name: str | None,
    broker_addr: str | None,
    file_path: Path | None,
    topic: bool,
    subscription_group: bool,
    special_topic: bool,
) -> None:
    """Write topics, groups or both to a file."""
    one_of(cluster_name, broker_addr, "-c CLUSTERNAME, -b BROKERADDR")
    if broker_addr is not None and not topic and not subscription_group:
        raise click.UsageError("of one broker, give -t for its topics or -g for its groups")
    if broker_addr is not None:
        addresses = [broker_addr]
    else:
        addresses = list((await admin.masters(cluster_name)).values())
    name = "topic" if topic else "subscriptionGroup" if subscription_group else "metadata"
    result: dict[str, Any] = {}
    if name != "subscriptionGroup":
        result["topicConfigTable"] = await _topics(admin, addresses, special=special_topic)
    if name != "topic":
        result["subscriptionGroupTable"] = await _groups(admin, addresses)
    if broker_addr is None:
        result["exportTime"] = time.time_ns() // 10**6
    _write(out, file_path, f"{name}.json", result)


async def _topics(admin: "Admin", addresses: list[str], *, special: bool) -> dict[str, Any]:
    """Return the users' topics, with the queues of all brokers together."""
    merged: dict[str, TopicConfig] = {}
    for address in addresses:
        for name, config in (await _user_topics(admin, address, special=special)).items():
            if name in merged:
                config = msgspec.structs.replace(
                    config,
                    read_queue_nums=config.read_queue_nums + merged[name].read_queue_nums,
                    write_queue_nums=config.write_queue_nums + merged[name].write_queue_nums,
                )
            merged[name] = config
    return {name: msgspec.to_builtins(config) for name, config in sorted(merged.items())}


async def _user_topics(admin: "Admin", address: str, *, special: bool) -> dict[str, TopicConfig]:
    table = (await admin.cluster_info()).cluster_addr_table
    of_servers = {*table, *(f"{cluster}{REPLY_TOPIC_SUFFIX}" for cluster in table)}
    of_servers |= {broker for brokers in table.values() for broker in brokers}
    return {
        name: config
        for name, config in (await admin.topic_configs(address)).items()
        if not is_system_topic(name)
        and name not in of_servers
        and (special or not (is_retry_topic(name) or is_dlq_topic(name)))
    }


async def _groups(admin: "Admin", addresses: list[str]) -> dict[str, Any]:
    """Return the users' groups, with the retry queues of all brokers together."""
    merged: dict[str, SubscriptionGroupConfig] = {}
    for address in addresses:
        for name, config in (await _user_groups(admin, address)).items():
            if name in merged:
                queues = config.retry_queue_nums + merged[name].retry_queue_nums
                config = msgspec.structs.replace(config, retry_queue_nums=queues)
            merged[name] = config
    return {name: msgspec.to_builtins(config) for name, config in sorted(merged.items())}


async def _user_groups(admin: "Admin", address: str) -> dict[str, SubscriptionGroupConfig]:
    found = await admin.groups(address)
    return {name: config for name, config in found.items() if not is_system_group(name)}


# Metrics -------------------------------------------------------------------------------------


@mq_command("exportMetrics", opt("c", "clusterName", "The cluster.", required=True), _place())
async def export_metrics(
    admin: "Admin", out: Out, cluster_name: str, file_path: Path | None
) -> None:
    """Write rates, totals and sizes of a cluster's masters to a file."""
    masters = await admin.masters(cluster_name)
    if not masters:
        raise UsageError(f"cluster {cluster_name} has no master now")
    report: dict[str, Any] = {}
    rates = dict.fromkeys(("NormalInTps", "NormalOutTps", "TransInTps", "ScheduleInTps"), 0.0)
    days = dict.fromkeys(
        ("NormalOneDayInNum", "NormalOneDayOutNum", "TransOneDayInNum", "ScheduleOneDayInNum"), 0
    )
    for name, address in masters.items():
        figures = await admin.runtime_info(address)
        groups = await _user_groups(admin, address)
        quota = await _quota(admin, address, figures, len(groups))
        _add(rates, quota["tps"])
        _add(days, quota["oneDayNum"])
        config = await admin.broker_config(address)
        report[name] = {
            "runtimeEnv": {
                "cpuNum": config.get("clientCallbackExecutorThreads"),
                "totalMemKBytes": figures.get("totalMemKBytes"),
            },
            "runtimeQuota": quota,
            "runtimeVersion": {
                "rocketmqVersion": release_name(OUR_VERSION),
                "clientInfo": await _clients(admin, address, groups),
            },
        }
    totals = {
        "totalTps": {f"total{name}": value for name, value in rates.items()},
        "totalOneDayNum": {f"total{name}": value for name, value in days.items()},
    }
    _write(out, file_path, "metrics.json", {"evaluateReport": report, "totalData": totals})


def _add(totals: dict[str, Any], values: dict[str, Any]) -> None:
    for name in totals:
        totals[name] += values[name[0].lower() + name[1:]]


async def _quota(
    admin: "Admin", address: str, figures: Mapping[str, str], groups: int
) -> dict[str, Any]:
    """Return rates, totals and sizes of one broker, from its runtime information `figures`."""
    half_rate, half_count = await _put(admin, address, HALF_TOPIC)
    delayed_rate, delayed_count = await _put(admin, address, SCHEDULE_TOPIC)

    def grown(now: str, before: str) -> int:
        return int(figures.get(now, 0)) - int(figures.get(before, 0))

    return {
        "diskRatio": {
            key: figures.get(key) for key in ("commitLogDiskRatio", "consumeQueueDiskRatio")
        },
        "tps": {
            "normalInTps": _first(figures.get("putTps", "")),
            "normalOutTps": _first(figures.get("getTransferredTps", "")),
            "transInTps": half_rate,
            "scheduleInTps": delayed_rate,
        },
        "oneDayNum": {
            "normalOneDayInNum": grown("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
            "normalOneDayOutNum": grown("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
            "transOneDayInNum": half_count,
            "scheduleOneDayInNum": delayed_count,
        },
        "messageAverageSize": figures.get("putMessageAverageSize"),
        "topicSize": len(await _user_topics(admin, address, special=False)),
        "groupSize": groups,
    }


async def _put(admin: "Admin", address: str, topic: str) -> tuple[float, int]:
    """Return messages a second and of a day; 0 of a topic that nothing was sent to."""
    try:
        found = await admin.broker_stats(address, _PUT, topic)
    except (NotReachable, Refused):
        return 0.0, 0
    return found.stats_minute.tps, count_of_day(found)


def _first(rates: str) -> float:
    return float(rates.split(" ")[0] or 0)


async def _clients(admin: "Admin", address: str, groups: Iterable[str]) -> list[str]:
    """Return languages and versions of the clients that consume in `groups`."""
    found: set[str] = set()
    for group in groups:
        try:
            members = (await admin.consumers(group, address)).connection_set
        except EpochError:
            continue  # nobody is online
        found |= {f"{each.language}%{release_name(each.version)}" for each in members}
    return sorted(found)


def _write(out: Out, directory: Path | None, name: str, value: dict[str, Any]) -> None:
    path = (directory or own_directory("export")) / name
    write_export(path, json.dumps(value, indent="\t", ensure_ascii=False) + "\n")
    out.line(f"export {path} success", {"file": str(path)})


COMMANDS = {
    "exportConfigs": export_configs,
    "exportMetadata": export_metadata,
    "exportMetrics": export_metrics,
}
