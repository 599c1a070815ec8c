"""`clusterList`."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from epochmq.admin.mqadmin.running import Out, flag, mq_command, opt
from epochmq.admin.shared.broker_figures import BrokerFigures, brokers
from epochmq.admin.shared.java_text import text_of
from epochmq.admin.shared.output import note

if TYPE_CHECKING:
    from epochmq.client.aio import Admin

_BASE = (
    "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:>11}  {:<12}  {:<8}  {:>10}"
)
_BASE_HEAD = (
    _BASE.replace("{:>11}", "{:<11}")
    .replace("{:>10}", "{:<10}")
    .format(
        "#Cluster Name",
        "#Broker Name",
        "#BID",
        "#Addr",
        "#Version",
        "#InTPS(LOAD)",
        "#OutTPS(LOAD)",
        "#Timer(Progress)",
        "#PCWait(ms)",
        "#Hour",
        "#SPACE",
        "#ACTIVATED",
    )
)
_MORE = "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}"
_MORE_HEAD = _MORE.format(
    "#Cluster Name",
    "#Broker Name",
    "#InTotalYest",
    "#OutTotalYest",
    "#InTotalToday",
    "#OutTotalToday",
)


@mq_command(
    "clusterList",
    flag("m", "moreStats", "Totals of yesterday and today in place of rates."),
    opt("i", "interval", "Print again every so many seconds.", click.IntRange(1)),
    opt("c", "clusterName", "One cluster only."),
)
async def cluster_list(
    admin: "Admin", out: Out, more_stats: bool, interval: int | None, cluster_name: str | None
) -> None:
    """List the brokers of clusters, with their rates or with their totals."""
    while True:
        found = await brokers(admin, cluster_name)
        now = int(time.time() * 1000)
        out.line(_MORE_HEAD if more_stats else _BASE_HEAD)
        for broker in found:
            if broker.trouble:
                note(f"{broker.address}: {broker.trouble}")
            text = _totals(broker) if more_stats else base_line(broker, now)
            out.line(text, broker.row(now))
        if interval is None:
            return
        await asyncio.sleep(interval)


def base_line(broker: BrokerFigures, now_wall_ms: int) -> str:
    """One broker with its rates, queue lengths, timer and disk."""

    def figure(key: str, default: str = "") -> str:
        return text_of(broker.figures.get(key, default if broker.problem else None))

    def queue(kind: str, default: str | None = None) -> str:
        size = broker.figures.get(f"{kind}ThreadPoolQueueSize", default)
        waits = broker.figures.get(f"{kind}ThreadPoolQueueHeadWaitTimeMills", default)
        if broker.problem:
            return ",ms"
        return f"{text_of(size)},{text_of(waits)}ms"

    timer = (
        f"{broker.number('timerReadBehind'):.0f}-{broker.number('timerOffsetBehind'):.0f}"
        f"({broker.number('timerCongestNum') / 10_000:.1f}w,"
        f" {broker.number('timerEnqueueTps'):.1f}, {broker.number('timerDequeueTps'):.1f})"
    )
    return _BASE.format(
        broker.cluster,
        broker.name,
        broker.broker_id,
        broker.address,
        figure("brokerVersionDesc"),
        f"{broker.number('putTps'):9.2f}({queue('send')})",
        f"{broker.number('getTransferredTps'):9.2f}({queue('pull')}|{queue('ack', 'N')})",
        timer,
        figure("pageCacheLockTimeMills"),
        f"{broker.hours_kept(now_wall_ms):2.2f}",
        f"{broker.number('commitLogDiskRatio'):.4f}",
        text_of(broker.figures.get("brokerActive") == "true"),
    )


def _totals(broker: BrokerFigures) -> str:
    return _MORE.format(
        broker.cluster,
        broker.name,
        broker.put_yesterday,
        broker.got_yesterday,
        broker.put_today,
        broker.got_today,
    )


COMMANDS = {"clusterList": cluster_list}
