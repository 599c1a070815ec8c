"""`statsAll`, `brokerConsumeStats`, `queryCq`."""

from typing import TYPE_CHECKING

import click
import msgspec

from epochmq.admin.mqadmin.running import Out, flag, mq_command, opt
from epochmq.admin.shared.java_text import fields_of, harmless, pretty_json, second
from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused
from epochmq.model.names import is_dlq_topic, is_retry_topic
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import mq_map_decode
from epochmq.wire.bodies.offset_bodies import ConsumeQueueData, QueryConsumeQueueBody
from epochmq.wire.bodies.runtime_bodies import BrokerStatsData

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_STATS_HEAD = "{:<64}  {:<64} {:>12} {:>11} {:>11} {:>14} {:>14}"
_NO_CONSUMER = "NO_CONSUMER"
_PUT, _GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
_CONSUMED = "{:<64}  {:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20}  {}"
_RULE = "=" * 38
_TIMEOUT_MS = 50_000
_NAME_CHARS, _BROKER_CHARS = 64, 32


@mq_command(
    "statsAll",
    flag("a", "activeTopic", "Only topics with messages today."),
    opt("t", "topic", "This topic only."),
)
async def stats_all(admin: "Admin", out: Out, active_topic: bool, topic: str | None) -> None:
    """Print rates and numbers of messages of topics, and of the groups that consume them."""
    heads = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS")
    out.line(_STATS_HEAD.format(*heads, "#InMsg24Hour", "#OutMsg24Hour"))
    for each in await admin.topics():
        if is_retry_topic(each) or is_dlq_topic(each) or topic not in (None, each):
            continue
        try:
            await _topic_stats(admin, out, each, active_only=active_topic)
        except (NotFound, NotReachable, Refused):
            if topic is not None:
                raise


async def _topic_stats(admin: "Admin", out: Out, topic: str, *, active_only: bool) -> None:
    masters = list((await admin.brokers_of(topic)).values())
    in_rate, in_count = await _sums(admin, masters, _PUT, topic)
    shown = topic[:_NAME_CHARS]
    groups = await admin.groups_of(topic)
    if not groups and (in_count or not active_only):
        cells: tuple[object, ...] = (0, f"{in_rate:.2f}", "", in_count, _NO_CONSUMER)
        row: dict[str, object] = {"topic": topic, "in_tps": in_rate, "in_today": in_count}
        out.line(_STATS_HEAD.format(shown, "", *cells), row)
    for group in groups:
        out_rate, out_count = await _sums(admin, masters, _GET, f"{topic}@{group}")
        if active_only and not in_count and not out_count:
            continue
        lag = await _lag(admin, group, topic)
        cells = (lag, f"{in_rate:.2f}", f"{out_rate:.2f}", in_count, out_count)
        row = {"topic": topic, "group": group, "lag": lag, "in_tps": in_rate, "out_tps": out_rate}
        row |= {"in_today": in_count, "out_today": out_count}
        out.line(_STATS_HEAD.format(shown, group[:_NAME_CHARS], *cells), row)


async def _sums(admin: "Admin", masters: list[str], name: str, key: str) -> tuple[float, int]:
    """Return messages a second, and messages of the last day, of all brokers together."""
    rate, count = 0.0, 0
    for address in masters:
        try:
            found = await admin.broker_stats(address, name, key)
        except (NotReachable, Refused):
            continue  # nothing was counted yet
        rate += found.stats_minute.tps
        count += count_of_day(found)
    return rate, count


def count_of_day(found: BrokerStatsData) -> int:
    """Return the sum of the longest period that has one."""
    return found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum


async def _lag(admin: "Admin", group: str, topic: str) -> int:
    try:
        table, _ = await admin.progress(group, topic)
    except EpochError:
        return 0
    return max(0, sum(at.broker_offset - at.consumer_offset for at in table.values()))


@mq_command(
    "brokerConsumeStats",
    opt("b", "brokerAddr", "The broker, HOST:PORT.", required=True),
    opt("t", "timeoutMillis", "How long to wait for it.", click.IntRange(1), default=_TIMEOUT_MS),
    opt("l", "level", "Only queues that are at least so far behind.", int, default=0),
    opt("o", "order", "Ordered topics only: true or false.", bool, default="false"),
)
async def broker_consume_stats(
    admin: "Admin", out: Out, broker_addr: str, timeout_millis: int, level: int, order: bool
) -> None:
    """Print how far every group is in every queue of a broker."""
    found = await admin.progress_of_all(broker_addr, ordered=order, timeout_ms=timeout_millis)
    heads = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    out.line(_CONSUMED.format(*heads, "#Diff", "#LastTime"))
    for groups in found.consume_stats_list:
        for group, topics in groups.items():
            for stats in topics:
                for queue, at in sorted(mq_map_decode(stats.offset_table)):
                    behind = at.broker_offset - at.consumer_offset
                    if behind < level or at.last_timestamp <= 0:
                        continue
                    where = queue.topic[:_NAME_CHARS], group, queue.broker_name[:_BROKER_CHARS]
                    offsets = at.broker_offset, at.consumer_offset, behind
                    last = second(at.last_timestamp)
                    row: dict[str, object] = {
                        "topic": queue.topic,
                        "group": group,
                        "broker": queue.broker_name,
                    }
                    row |= {"queue": queue.queue_id, "broker_offset": at.broker_offset}
                    row |= {"consumer_offset": at.consumer_offset, "lag": behind}
                    out.line(_CONSUMED.format(*where, queue.queue_id, *offsets, last), row)
    out.line()
    out.line(f"Diff Total: {found.total_diff}")


@mq_command(
    "queryCq",
    opt("t", "topic", "The topic.", required=True),
    opt("q", "queue", "The queue.", click.IntRange(0), required=True),
    opt("i", "index", "The first unit.", click.IntRange(0), required=True),
    opt("c", "count", "How many units.", click.IntRange(1), default=10),
    opt("b", "broker", "The broker, HOST:PORT; else the first of the topic."),
    opt("g", "consumer", "Print the filter of this group as well."),
)
async def query_cq(
    admin: "Admin",
    out: Out,
    topic: str,
    queue: int,
    index: int,
    count: int,
    broker: str | None,
    consumer: str | None,
) -> None:
    """Print units of a consume queue."""
    address = broker or next(iter((await admin.brokers_of(topic)).values()))
    asked = MessageQueue(topic, "", queue)
    found = await admin.queue_units(address, asked, index, count, consumer)
    if isinstance(found.subscription_data, msgspec.Struct):
        out.line("Subscription data: ")
        out.line(pretty_json(msgspec.to_builtins(found.subscription_data)))
        out.line(_RULE)
    if isinstance(found.filter_data, str):
        out.line("Filter data: ")
        out.line(harmless(found.filter_data))
        out.line(_RULE)
    out.line("Queue data: ")
    out.line(f"max: {found.max_queue_index}, min: {found.min_queue_index}")
    out.line(_RULE)
    _print_units(out, found, index)


def _print_units(out: Out, found: QueryConsumeQueueBody, index: int) -> None:
    for number, unit in enumerate(found.queue_data, index):
        row = {"index": number, "log_offset": unit.physic_offset, "bytes": unit.physic_size}
        out.line(f"idx: {number}")
        out.line(_unit_text(unit), {**row, "tags_code": unit.tags_code})
        out.line(_RULE)


def _unit_text(unit: ConsumeQueueData) -> str:
    values = {
        "physicOffset": unit.physic_offset,
        "physicSize": unit.physic_size,
        "tagsCode": unit.tags_code,
        "extendDataJson": f"'{_or_null(unit.extend_data_json)}'",
        "bitMap": f"'{_or_null(unit.bit_map)}'",
        "eval": unit.evaluated,
        "msg": f"'{_or_null(unit.msg)}'",
    }
    return fields_of("ConsumeQueueData", values, "{}")


def _or_null(text: object) -> str:
    return text if isinstance(text, str) else "null"


COMMANDS = {
    "statsAll": stats_all,
    "brokerConsumeStats": broker_consume_stats,
    "queryCq": query_cq,
}
