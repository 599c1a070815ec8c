"""`updateSubGroup`, `deleteSubGroup`."""

from typing import TYPE_CHECKING

import click
import msgspec

from epochmq.admin.mqadmin.mqadmin_topic_changes import parse_attributes
from epochmq.admin.mqadmin.running import Out, mq_command, one_of, opt
from epochmq.admin.shared.java_text import fields_of
from epochmq.admin.shared.operations import delete_group
from epochmq.base.errors import UsageError
from epochmq.model.group import GroupRetryPolicy, SubscriptionGroupConfig

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
    values: dict[str, object] = {
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
    return fields_of("SubscriptionGroupConfig", values, "{}")


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


COMMANDS = {"updateSubGroup": update_sub_group, "deleteSubGroup": delete_sub_group}
