"""The brokers a name server knows: groups by name, clusters, and when each was last heard of.

A group's addresses are keyed by broker id, 0 being the master..
"""

from dataclasses import dataclass, field

from epochmq.model.data_version import DataVersion
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.topic import BrokerData, TopicRouteData, is_writable

MASTER_ID = 0
HEARTBEAT_TIMEOUT_MS = 120_000
"""For brokers that do not say themselves how long they may stay silent."""

Key = tuple[str, str]
"""(cluster, address): what a live broker is known by."""


@dataclass(slots=True)
class RegisteredGroup:
    """The brokers that share a name: a master and its replicas."""

    cluster: str
    name: str
    addrs: dict[int, str] = field(default_factory=dict)
    acting: bool = False
    """A replica may stand in for the master: all living members say so, for one that does not
    would be shown as master and do nothing of a master's (H21)."""
    zone: str | None = None
    claims: dict[int, int] = field(default_factory=dict)
    """The highest state version under which a master registered, by connection: what a stranger
    claims ends with his."""

    @property
    def min_id(self) -> int | None:
        return min(self.addrs, default=None)

    @property
    def master_epoch(self) -> int:
        """The highest state version under which a master registered that is still connected."""
        return max(self.claims.values(), default=0)

    @property
    def headless(self) -> bool:
        """No master is there, though replicas are."""
        return bool(self.addrs) and MASTER_ID not in self.addrs

    def drop_addr(self, addr: str, *, but_id: int | None = None) -> list[int]:
        """Forget `addr` under every id except `but_id`; the ids it had."""
        ids = [number for number, held in self.addrs.items() if held == addr and number != but_id]
        for number in ids:
            del self.addrs[number]
        return ids

    def as_data(self) -> BrokerData:
        """What routes show, with a copy of the addresses."""
        data = BrokerData(self.cluster, self.name, dict(sorted(self.addrs.items())), self.acting)
        if self.zone is not None:
            data.zone_name = self.zone
        return data


@dataclass(slots=True)
class LiveBroker:
    """One broker process that registered and was heard of within its time."""

    cluster: str
    name: str
    addr: str
    last_ms: int
    timeout_ms: int
    version: DataVersion
    session_id: int
    ha_addr: str = ""
    filter_servers: list[str] = field(default_factory=list)
    acting: bool = False
    before_id: int | None = None
    """The connection over which it registered before it had this one."""

    def expired(self, now: int) -> bool:
        return self.last_ms + self.timeout_ms < now


class Brokers:
    """Groups, clusters and live entries; says nothing about topics."""

    def __init__(self) -> None:
        self.groups: dict[str, RegisteredGroup] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[Key, LiveBroker] = {}

    def join(self, cluster: str, name: str) -> RegisteredGroup:
        """The group `name`, made when new, and listed in `cluster`."""
        self.clusters.setdefault(cluster, set()).add(name)
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = RegisteredGroup(cluster, name)
        return group

    def live_at(self, group: RegisteredGroup, broker_id: int) -> LiveBroker | None:
        """The live entry of the broker that holds `broker_id`, when there is one."""
        addr = group.addrs.get(broker_id)
        return None if addr is None else self.live.get((group.cluster, addr))

    def all_act(self, group: RegisteredGroup, but_addr: str = "") -> bool:
        """Whether all living members, but that one, say that a replica may stand in."""
        lives = (
            self.live.get((group.cluster, addr))
            for addr in group.addrs.values()
            if addr != but_addr
        )
        return all(live.acting for live in lives if live is not None)

    def leave(self, name: str, addr: str) -> RegisteredGroup | None:
        """Take `addr` out of group `name`, and the group away when it was the last one.

        Matched by address, not by id: an id may long belong to another process (rocketmq#5374).
        """
        group = self.groups.get(name)
        if group is None:
            return None
        group.drop_addr(addr)
        if not group.addrs:
            self._remove_group(name)
        return group

    def _remove_group(self, name: str) -> None:
        del self.groups[name]
        for cluster in [cluster for cluster, names in self.clusters.items() if name in names]:
            self.clusters[cluster].discard(name)
            if not self.clusters[cluster]:
                del self.clusters[cluster]

    def heard(self, key: Key, now: int) -> None:
        """A heartbeat: it keeps a registration alive but never makes one."""
        live = self.live.get(key)
        if live is not None:
            live.last_ms = now

    def of_session(self, session_id: int) -> list[LiveBroker]:
        """Who registered over this connection, as long as no newer connection took over."""
        return [live for live in self.live.values() if live.session_id == session_id]

    def forget_claims(self, session_id: int) -> None:
        """The connection is closed: what masters said of their epochs over it is void."""
        for group in self.groups.values():
            group.claims.pop(session_id, None)

    def expired(self, now: int) -> list[LiveBroker]:
        return [live for live in self.live.values() if live.expired(now)]


# Acting master routes ------------------------------------------------------------------------
# Slave acting master (RIP-32), the name server's half: stand-ins in routes, and who is told.
#
# A group without a master whose replicas allow it is shown with its smallest id as master, for
# reading only; the write bit was taken from its topics when the master went.


@dataclass(frozen=True, slots=True)
class MinIdNotice:
    """To be sent one-way as NOTIFY_MIN_BROKER_ID_CHANGE (905) to each address in `to`."""

    to: tuple[str, ...]
    min_id: int
    min_addr: str
    offline_addr: str | None = None
    ha_addr: str | None = None


def stand_in(topic: str, route: TopicRouteData) -> None:
    """Show the smallest id as master in `route` where there is none and nothing can be written.

    Topics by which brokers ask for their fellow members keep the true ids.
    """
    if topic.startswith(MEMBER_TOPIC_PREFIX):
        return
    writable = {queues.broker_name for queues in route.queue_datas if is_writable(queues.perm)}
    for group in route.broker_datas:
        addrs = group.broker_addrs
        headless = addrs and MASTER_ID not in addrs
        if headless and group.enable_acting_master and group.broker_name not in writable:
            addrs[MASTER_ID] = addrs.pop(min(addrs))


def notice_of_arrival(group: RegisteredGroup, broker_id: int, ha_addr: str) -> MinIdNotice:
    """`broker_id` joined as the new smallest: all others hear of it, or itself when it is alone."""
    addr = group.addrs[broker_id]
    others = tuple(other for other in group.addrs.values() if other != addr)
    return MinIdNotice(others or (addr,), broker_id, addr, ha_addr=ha_addr)


def notice_of_leave(group: RegisteredGroup, offline_addr: str) -> MinIdNotice | None:
    """The smallest id left `group`: all that remain hear of it, if they may act at all."""
    smallest = group.min_id
    if smallest is None or not group.acting:
        return None
    return MinIdNotice(
        tuple(group.addrs.values()), smallest, group.addrs[smallest], offline_addr=offline_addr
    )
