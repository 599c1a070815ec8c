"""Collects the brokers of clusters with their statistics, for both commands that list them."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epochmq.base.errors import EpochError

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


@dataclass(slots=True)
class BrokerFigures:
    """One broker; `figures` is its runtime info, empty when it did not answer (`problem`)."""

    cluster: str
    name: str
    broker_id: int
    address: str
    figures: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    is_outside_set: bool = False
    """Whether its master does not include it in the sync-state set."""

    def number(self, key: str) -> float:
        """Return the first number of a figure such as "0.2 0.1 0.3"; 0 when there is none."""
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
        """Why the broker is not healthy, in its own words if it answers; None if it is healthy."""
        if self.problem is not None:
            return self.problem
        own = self.figures.get("epochmqProblem")
        if own is None:  # RocketMQ's broker, of which only a master is ever active
            is_active = self.figures.get("brokerActive") != "false"
            return None if is_active or self.broker_id else "it is not active"
        if not own and self.is_outside_set:
            return "its master does not include it in the sync-state set"
        return own or None

    def hours_kept(self, now_wall_ms: int) -> float:
        """Return the age of the oldest message in hours."""
        earliest = self.number("earliestMessageTimeStamp")
        return (now_wall_ms - earliest) / 3_600_000 if earliest > 0 else 0.0

    def row(self, now_wall_ms: int) -> dict[str, object]:
        """Return the broker as a row for JSON and tables."""
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


async def brokers(admin: "Admin", cluster: str | None = None) -> list[BrokerFigures]:
    """Return all brokers of one or all clusters, by cluster, name and id."""
    groups = await admin.broker_groups(cluster)
    info = await admin.cluster_info()
    found = [
        BrokerFigures(owner, name, broker_id, address)
        for owner, names in sorted(info.cluster_addr_table.items())
        for name in sorted(names)
        if name in groups and cluster in (None, owner)
        for broker_id, address in sorted(groups[name].broker_addrs.items())
    ]
    await asyncio.gather(*(_fill(admin, broker) for broker in found))
    _compare_with_sets(found)
    return found


def _compare_with_sets(found: list[BrokerFigures]) -> None:
    """Mark the slaves that are not in their master's sync-state set."""
    sets = {
        broker.name: broker.figures["epochmqSyncStateSet"].split(",")
        for broker in found
        if broker.figures.get("epochmqRole") == "MASTER"
        and broker.figures.get("epochmqSyncStateSet")
    }
    for broker in found:
        members = sets.get(broker.name)
        own_id = broker.figures.get("epochmqBrokerId")
        if members and own_id and broker.figures.get("epochmqRole") == "SLAVE":
            broker.is_outside_set = own_id not in members


async def _fill(admin: "Admin", broker: BrokerFigures) -> None:
    try:
        broker.figures = await admin.runtime_info(broker.address)
    except EpochError as error:
        broker.problem = str(error)
