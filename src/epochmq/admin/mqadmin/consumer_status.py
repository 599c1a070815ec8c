"""`consumerStatus`: what members of a group report of themselves."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from epochmq.admin.mqadmin.running import Out, flag, mq_command, opt
from epochmq.admin.mqadmin.transfer import queue_text
from epochmq.admin.shared.export_file import plain_name, write_export
from epochmq.admin.shared.java_text import fields_of, harmless, moment
from epochmq.base.errors import NotReachable, Refused
from epochmq.client.core.release_names import release_name
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies import runtime_bodies as bodies
from epochmq.wire.bodies.body import mq_map_decode

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_MEMBER = "{:<10} {:<40} {:<20} {}"
_PROPERTY = "{:<40}: {}"
_OFFSET_HEAD = _DETAIL = "{:<64}  {:<32}  {:<4}  {:<20}"
_OFFSET = _POP = "{:<32}  {:<32}  {:<4}  {:<20}"
_RATES_HEAD = "{:<64}  {:>14} {:>14} {:>14} {:>14} {:>18} {:>25}"
_RATES = "{:<32}  {:>14.2f} {:>14.2f} {:>14.2f} {:>14.2f} {:>18.2f} {:>25}"
_QUEUE_HEADS = ("#Topic", "#Broker Name", "#QID")
STARTED_MS = 120_000
"""Subscriptions are compared once the first member has run for so long, as in RocketMQ."""
STUCK_MS = 60_000
"""A queue with messages that was not consumed for so long is reported."""


@mq_command(
    "consumerStatus",
    opt("g", "consumerGroup", "The group.", required=True),
    opt("i", "clientId", "Print this member; else write a file for each into a directory here."),
    opt("b", "brokerAddr", "The members that this broker knows, HOST:PORT."),
    flag("s", "jstack", "With the stacks of the members' threads."),
)
async def consumer_status(
    admin: "Admin",
    out: Out,
    consumer_group: str,
    client_id: str | None,
    broker_addr: str | None,
    jstack: bool,
) -> None:
    """Print what one member of a group reports, or write what each reports to files."""
    if client_id is not None:
        info = await admin.running_info(consumer_group, client_id, stacks=jstack)
        for line in report(info):
            out.line(line)
        out.row({"client": client_id, **info.properties})
        return
    members = (await admin.consumers(consumer_group, broker_addr)).connection_set
    directory = Path(str(time.time_ns() // 10**6))
    out.line(_MEMBER.format("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"))
    found: dict[str, bodies.ConsumerRunningInfo] = {}
    for number, each in enumerate(sorted(members, key=lambda member: member.client_id), 1):
        try:
            info = await admin.running_info(consumer_group, each.client_id, stacks=jstack)
        except (NotReachable, Refused) as error:
            out.line(f"{harmless(each.client_id)} did not report: {error}")
            continue
        found[each.client_id] = info
        path = directory / plain_name(each.client_id)
        write_export(path, "\n".join(report(info)) + "\n")
        version = release_name(each.version)
        row = {"client": each.client_id, "version": version, "file": str(path)}
        out.line(_MEMBER.format(number, harmless(each.client_id), version, path), row)
    for line in conclusions(found, time.time_ns() // 10**6):
        out.line(line)


def report(info: bodies.ConsumerRunningInfo) -> list[str]:
    """Return what a member reports, as RocketMQ's tool prints it."""
    queues = sorted(mq_map_decode(info.mq_table))
    lines = ["#Consumer Properties#"]
    lines += _property_lines(info.properties)
    lines += ["", "", "#Consumer Subscription#"]
    for number, data in enumerate(info.subscription_set, 1):
        classes = "true" if data.class_filter_mode else "false"
        topic, text = harmless(data.topic), harmless(data.sub_string)
        lines.append(
            f"{number:03d} Topic: {topic:<40} ClassFilter: {classes:<8} SubExpression: {text}"
        )
    lines += ["", "", "#Consumer Offset#", _OFFSET_HEAD.format(*_QUEUE_HEADS, "#Consumer Offset")]
    lines += [_OFFSET.format(*_place(queue), state.commit_offset) for queue, state in queues]
    lines += ["", "", "#Consumer MQ Detail#", _DETAIL.format(*_QUEUE_HEADS, "#ProcessQueueInfo")]
    lines += [_DETAIL.format(*_place(queue), _queue_text(state)) for queue, state in queues]
    lines += ["", "", "#Consumer Pop Detail#", _POP.format(*_QUEUE_HEADS, "#ProcessQueueInfo")]
    for queue, popped in sorted(mq_map_decode(info.mq_pop_table)):
        lines.append(_POP.format(*_place(queue), _pop_text(popped)))
    heads = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS")
    heading = _RATES_HEAD.format("#Topic", *heads, "#ConsumeFailedMsgsInHour")
    lines += ["", "", "#Consumer RT&TPS#", heading]
    for topic, rates in info.status_table.items():
        values = (rates.pull_rt, rates.pull_tps, rates.consume_rt, rates.consume_ok_tps)
        lines.append(
            _RATES.format(
                harmless(topic), *values, rates.consume_failed_tps, rates.consume_failed_msgs
            )
        )
    lines += ["", "", "#User Consume Info#"]
    lines += _property_lines(info.user_consumer_info)
    if isinstance(info.jstack, str):
        lines += ["", "", "#Consumer jstack#", harmless(info.jstack)]
    return lines


def conclusions(found: dict[str, bodies.ConsumerRunningInfo], wall_ms: int) -> list[str]:
    """Return whether the members of a group agree, and which of their queues stand still.

    Args:
        found: what the members reported, by client id.
        wall_ms: the time now (Unix milliseconds).
    """
    if not found:
        return []
    first = next(iter(found.values()))
    started = first.properties.get(bodies.PROP_CONSUMER_START_TIMESTAMP, "")
    is_old = started.isdecimal() and wall_ms - int(started) > STARTED_MS
    if _is_push(first) and is_old:
        wanted = {_subscriptions(info) for info in found.values()}
        if len(wanted) > 1:
            return ["", "", "WARN: Different subscription in the same group of consumer!!!"]
    lines = ["", "", "Same subscription in the same group of consumer", "", "Rebalance OK"]
    for client_id, info in found.items():
        if _is_push(info):
            lines += _standing_still(client_id, info, wall_ms)
    return lines


def _standing_still(client_id: str, info: bodies.ConsumerRunningInfo, wall_ms: int) -> list[str]:
    lines = []
    is_ordered = info.properties.get(bodies.PROP_CONSUME_ORDERLY) == "true"
    for queue, state in sorted(mq_map_decode(info.mq_table)):
        name = f"{harmless(client_id)} {queue_text(queue)}"
        late_ms = wall_ms - state.last_consume_timestamp
        if is_ordered and not state.locked:
            unlocked_ms = wall_ms - state.last_lock_timestamp
            lines.append(f"{name} can't lock for a while, {unlocked_ms}ms")
        elif is_ordered and state.droped and state.try_unlock_times > 0:
            lines.append(f"{name} unlock {state.try_unlock_times} times, still failed")
        elif not is_ordered and late_ms > STUCK_MS and state.cached_msg_count > 0:
            lines.append(f"{name} can't consume for a while, maybe blocked, {late_ms}ms")
    return lines


def _is_push(info: bodies.ConsumerRunningInfo) -> bool:
    return info.properties.get(bodies.PROP_CONSUME_TYPE) == "CONSUME_PASSIVELY"


def _subscriptions(info: bodies.ConsumerRunningInfo) -> frozenset[tuple[str, str, str | None]]:
    return frozenset(
        (data.topic, data.sub_string, data.expression_type) for data in info.subscription_set
    )


def _place(queue: MessageQueue) -> tuple[str, str, int]:
    return harmless(queue.topic), harmless(queue.broker_name), queue.queue_id


def _property_lines(values: dict[str, str]) -> list[str]:
    return [_PROPERTY.format(harmless(key), harmless(value)) for key, value in values.items()]


def _queue_text(state: bodies.ProcessQueueInfo) -> str:
    values = {
        "commitOffset": state.commit_offset,
        "cachedMsgMinOffset": state.cached_msg_min_offset,
        "cachedMsgMaxOffset": state.cached_msg_max_offset,
        "cachedMsgCount": state.cached_msg_count,
        "cachedMsgSizeInMiB": state.cached_msg_size_in_mib,
        "transactionMsgMinOffset": state.transaction_msg_min_offset,
        "transactionMsgMaxOffset": state.transaction_msg_max_offset,
        "transactionMsgCount": state.transaction_msg_count,
        "locked": state.locked,
        "tryUnlockTimes": state.try_unlock_times,
        "lastLockTimestamp": _compact(state.last_lock_timestamp),
        "droped": state.droped,
        "lastPullTimestamp": _compact(state.last_pull_timestamp),
        "lastConsumeTimestamp": _compact(state.last_consume_timestamp),
    }
    return fields_of("ProcessQueueInfo", values, " []")


def _pop_text(state: bodies.PopProcessQueueInfo) -> str:
    dropped = "true" if state.droped else "false"
    return (
        f"PopProcessQueueInfo [waitAckCount:{state.wait_ack_count}, droped:{dropped},"
        f" lastPopTimestamp:{state.last_pop_timestamp}]"
    )


def _compact(wall_ms: int) -> str:
    """Return `20261122005659572`, in local time."""
    return "".join(filter(str.isdigit, moment(wall_ms)))


COMMANDS = {"consumerStatus": consumer_status}
