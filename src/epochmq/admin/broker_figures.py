"""The brokers of clusters with their figures, for both spellings of "list the cluster"."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


@dataclass(slots=True)
class Broker:
    """One broker; `figures` is its runtime info, empty when it did not tell (`problem`)."""

    cluster: str
    name: str
    broker_id: int
    address: str
    figures: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    def number(self, key: str) -> float:
        """The first number of a figure such as "0.2 0.1 0.3"; 0 when there is none."""
        first = self.figures.get(key, "").split(" ")[0]
        try:
            return float(first)
        except ValueError:
            return 0.0

    @property
    def put_yesterday(self) -> int:
        return self._grown("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning")

    @property
    def got_yesterday(self) -> int:
        return self._grown("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning")

    @property
    def put_today(self) -> int:
        return self._grown("msgPutTotalTodayNow", "msgPutTotalTodayMorning")

    @property
    def got_today(self) -> int:
        return self._grown("msgGetTotalTodayNow", "msgGetTotalTodayMorning")

    @property
    def trouble(self) -> str | None:
        """Why it is not well, as far as it shows: it does not tell, or takes no messages."""
        if self.problem is not None:
            return self.problem
        if self.figures.get("storeFenced"):
            return f"its store is fenced, nothing more is written: {self.figures['storeFenced']}"
        if self.figures.get("storeDiskFull") == "true":
            return "its disk is full, messages are refused"
        return None

    def hours_kept(self, now_wall_ms: int) -> float:
        """Age of the oldest message."""
        earliest = self.number("earliestMessageTimeStamp")
        return (now_wall_ms - earliest) / 3_600_000 if earliest > 0 else 0.0

    def row(self, now_wall_ms: int) -> dict[str, object]:
        """For JSON and for tables of our own."""
        return {
            "cluster": self.cluster,
            "broker": self.name,
            "id": self.broker_id,
            "address": self.address,
            "version": self.figures.get("brokerVersionDesc"),
            "active": self.figures.get("brokerActive") == "true",
            "in_tps": round(self.number("putTps"), 2),
            "out_tps": round(self.number("getTransferredTps"), 2),
            "in_today": self.put_today,
            "out_today": self.got_today,
            "in_yesterday": self.put_yesterday,
            "out_yesterday": self.got_yesterday,
            "hours_kept": round(self.hours_kept(now_wall_ms), 2),
            "disk_used": self.number("commitLogDiskRatio"),
            "problem": self.trouble,
        }

    def _grown(self, later: str, earlier: str) -> int:
        return int(self.number(later) - self.number(earlier))


async def brokers(admin: "Admin", cluster: str | None = None) -> list[Broker]:
    """All brokers of a cluster, or of all, by cluster, name and id; none is left out."""
    groups = await admin.broker_groups(cluster)
    info = await admin.cluster_info()
    found = [
        Broker(owner, name, broker_id, address)
        for owner, names in sorted(info.cluster_addr_table.items())
        for name in sorted(names)
        if name in groups and cluster in (None, owner)
        for broker_id, address in sorted(groups[name].broker_addrs.items())
    ]
    await asyncio.gather(*(_fill(admin, broker) for broker in found))
    return found


async def _fill(admin: "Admin", broker: Broker) -> None:
    try:
        broker.figures = await admin.runtime_info(broker.address)
    except EpochError as error:
        broker.problem = str(error)
