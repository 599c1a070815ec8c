"""`updateSubGroup`, `updateSubGroupList`, `deleteSubGroup`, `cloneGroupOffset`,
`getConsumerConfig`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from epochmq.admin.mqadmin.mqadmin_topic_changes import parse_attributes, read_list
from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.java_text import fields_of, text_of
from epochmq.admin.shared.operations import delete_group
from epochmq.base.errors import NotFound, UsageError
from epochmq.model.group import GroupRetryPolicy, SubscriptionGroupConfig
from epochmq.model.names import check_group

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_WHERE = "-b BROKERADDR, -c CLUSTERNAME"
_NUMBER = click.IntRange(0)


@mq_command(
    "updateSubGroup",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt("g", "groupName", "The group.", required=True),
    opt("s", "consumeEnable", "May it consume?", bool, default="true"),
    opt("m", "consumeFromMinEnable", "May it begin at the first message?", bool, default="false"),
    opt("d", "consumeBroadcastEnable", "May it broadcast?", bool, default="false"),
    opt("o", "consumeMessageOrderly", "Does it consume in order?", bool, default="false"),
    opt("q", "retryQueueNums", "Queues of its retry topic.", _NUMBER, default=1),
    opt("r", "retryMaxTimes", "Tries before the dead letters.", click.IntRange(-1), default=16),
    opt("p", "groupRetryPolicy", "Waits before tries: RocketMQ's retry policy in JSON."),
    opt("i", "brokerId", "The replica to consume from.", _NUMBER, default=0),
    opt("w", "whichBrokerWhenConsumeSlowly", "The replica when behind.", _NUMBER, default=1),
    opt("a", "notifyConsumerIdsChanged", "Tell members who comes?", bool, default="true"),
    opt(None, "attributes", "Changes: +name=value sets, -name removes; joined by commas."),
)
async def update_sub_group(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    group_name: str,
    consume_enable: bool,
    consume_from_min_enable: bool,
    consume_broadcast_enable: bool,
    consume_message_orderly: bool,
    retry_queue_nums: int,
    retry_max_times: int,
    group_retry_policy: str | None,
    broker_id: int,
    which_broker_when_consume_slowly: int,
    notify_consumer_ids_changed: bool,
    attributes: str | None,
) -> None:
    """Create or change a consumer group; options that are not given get their defaults."""
    one_of(broker_addr, cluster_name, _WHERE)
    config = SubscriptionGroupConfig(
        group_name=group_name,
        consume_enable=consume_enable,
        consume_from_min_enable=consume_from_min_enable,
        consume_broadcast_enable=consume_broadcast_enable,
        consume_message_orderly=consume_message_orderly,
        retry_queue_nums=retry_queue_nums,
        retry_max_times=retry_max_times,
        group_retry_policy=parse_policy(group_retry_policy),
        broker_id=broker_id,
        which_broker_when_consume_slowly=which_broker_when_consume_slowly,
        notify_consumer_ids_changed_enable=notify_consumer_ids_changed,
        attributes=parse_attributes(attributes or ""),
    )
    masters = [broker_addr] if broker_addr else (await admin.masters(cluster_name)).values()
    for address in masters:
        await admin.put_group(address, config)
        row = {"broker": address, **msgspec.to_builtins(config)}
        out.line(f"create subscription group to {address} success.", row)
    out.line(group_text(config))


@mq_command(
    "updateSubGroupList",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster."),
    opt(
        "f",
        "filename",
        "A file with a JSON list of groups.",
        click.Path(dir_okay=False, path_type=Path),
        required=True,
    ),
)
async def update_sub_group_list(
    admin: "Admin", out: Out, broker_addr: str | None, cluster_name: str | None, filename: Path
) -> None:
    """Create or change the consumer groups of a file."""
    one_of(broker_addr, cluster_name, _WHERE)
    configs = read_list(filename, SubscriptionGroupConfig)
    for config in configs:
        check_group(config.group_name)
    masters = [broker_addr] if broker_addr else (await admin.masters(cluster_name)).values()
    kind = "group config" if broker_addr else "subscription group config"
    for address in masters:
        for config in configs:
            await admin.put_group(address, config)
        row = {"broker": address, "groups": [config.group_name for config in configs]}
        text = f"submit batch of {kind} to {address} success, please check the result later."
        out.line(text, row)


@mq_command(
    "cloneGroupOffset",
    opt("s", "srcGroup", "The group whose offsets are copied.", required=True),
    opt("d", "destGroup", "The group that gets them.", required=True),
    opt("t", "topic", "The topic.", required=True),
    opt("o", "offline", "Accepted, and has no effect, as in RocketMQ."),
)
async def clone_group_offset(
    admin: "Admin", out: Out, src_group: str, dest_group: str, topic: str, offline: str | None
) -> None:
    """Copy the offsets of one group in a topic to another group."""
    count = 0
    for address in (await admin.brokers_of(topic)).values():
        bounds, _ = await admin.topic_stats_of(address, topic)
        for queue in bounds:
            offset = await admin.committed_at(address, src_group, queue)
            if offset is not None:
                await admin.commit_at(address, dest_group, queue, offset)
                count += 1
    if not count:
        raise NotFound(f"group {src_group} has no offsets in topic {topic}")
    text = (
        f"clone group offset success. srcGroup[{src_group}], destGroup=[{dest_group}],"
        f" topic[{topic}]"
    )
    out.line(text, {"source": src_group, "target": dest_group, "topic": topic})


@mq_command("getConsumerConfig", opt("g", "groupName", "The group.", required=True))
async def get_consumer_config(admin: "Admin", out: Out, group_name: str) -> None:
    """Print the configuration of a group at each broker."""
    for name, data in (await admin.broker_groups()).items():
        address = data.broker_addrs.get(0) or next(iter(data.broker_addrs.values()))
        try:
            config = await admin.group_config(address, group_name)
        except NotFound:
            continue
        line = "=" * 29
        row = {"broker": name, "cluster": data.cluster, **msgspec.to_builtins(config)}
        out.line(f"{line}{data.cluster}:{name}{line}", row)
        for field, value in group_values(config).items():
            out.line(f"{field:<40}=  {'' if value is None else text_of(value)}")


def parse_policy(text: str | None) -> GroupRetryPolicy:
    """The retry policy in JSON, as RocketMQ has it; the default for None."""
    if text is None:
        return GroupRetryPolicy()
    try:
        return msgspec.json.decode(text, type=GroupRetryPolicy)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the retry policy cannot be read: {error}; write as"
            ' {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'
        ) from None


def group_text(config: SubscriptionGroupConfig) -> str:
    """The configuration in one line, as RocketMQ prints it."""
    return fields_of("SubscriptionGroupConfig", group_values(config), "{}")


def group_values(config: SubscriptionGroupConfig) -> dict[str, object]:
    """The configuration by RocketMQ's names of fields."""
    return {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "groupRetryPolicy": _policy_text(config.group_retry_policy),
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "subscriptionDataSet": config.subscription_data_set or None,
        "attributes": config.attributes,
    }


def _policy_text(policy: GroupRetryPolicy) -> str:
    exponential = customized = None
    if found := policy.exponential_retry_policy:
        values = {"initial": found.initial, "max": found.max, "multiplier": found.multiplier}
        exponential = fields_of("ExponentialRetryPolicy", values, "{}")
    if chosen := policy.customized_retry_policy:
        customized = fields_of("CustomizedRetryPolicy", {"next": chosen.next}, "{}")
    return fields_of(
        "GroupRetryPolicy",
        {
            "type": policy.type,
            "exponentialRetryPolicy": exponential,
            "customizedRetryPolicy": customized,
        },
        "{}",
    )


@mq_command(
    "deleteSubGroup",
    opt("b", "brokerAddr", "On one broker, HOST:PORT."),
    opt("c", "clusterName", "On all masters of a cluster, with retry and dead-letter topics."),
    opt("g", "groupName", "The group.", required=True),
    opt("r", "removeOffset", "Its offsets as well?", bool, default="false"),
)
async def delete_sub_group(
    admin: "Admin",
    out: Out,
    broker_addr: str | None,
    cluster_name: str | None,
    group_name: str,
    remove_offset: bool,
) -> None:
    """Delete a consumer group."""
    one_of(broker_addr, cluster_name, _WHERE)
    if broker_addr is not None:
        await admin.delete_group(broker_addr, group_name, clean_offsets=remove_offset)
        text = f"delete subscription group [{group_name}] from broker [{broker_addr}] success."
        out.line(text, {"group": group_name, "broker": broker_addr})
        return
    deleted = delete_group(admin, group_name, cluster_name, clean_offsets=remove_offset)
    async for _, address in deleted:
        text = (
            f"delete subscription group [{group_name}] from broker [{address}]"
            f" in cluster [{cluster_name}] success."
        )
        out.line(text, {"group": group_name, "broker": address})


COMMANDS = {
    "updateSubGroup": update_sub_group,
    "updateSubGroupList": update_sub_group_list,
    "deleteSubGroup": delete_sub_group,
    "cloneGroupOffset": clone_group_offset,
    "getConsumerConfig": get_consumer_config,
}
