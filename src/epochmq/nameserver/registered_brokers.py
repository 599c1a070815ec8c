"""The brokers that a name server knows: groups, clusters, and when each was last heard of.

The addresses of a group are keyed by broker id; 0 is the master.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from epochmq.model.data_version import DataVersion
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.topic import BrokerData, TopicRouteData, is_writable

MASTER_ID = 0
HEARTBEAT_TIMEOUT_MS = 120_000
"""The time without heartbeat for brokers that do not send their own."""

Key = tuple[str, str]
"""(cluster, address): identifies a living broker."""


@dataclass(slots=True)
class RegisteredGroup:
    """The brokers with one broker name: a master and its replicas."""

    cluster: str
    name: str
    addrs: dict[int, str] = field(default_factory=dict)
    acting: bool = False
    """A replica may be acting master. True only if all living members say so: a broker that does
    not know acting masters would be shown as master and not act as one (H21)."""
    zone: str | None = None
    group_addrs: dict[int, str] = field(default_factory=dict)
    """The group address that each member registered, by broker id; see `client_addrs`."""
    claims: dict[int, int] = field(default_factory=dict)
    """The highest state version under which a master registered, by connection. A claim ends with
    its connection."""

    @property
    def min_id(self) -> int | None:
        """The smallest broker id, or None."""
        return min(self.addrs, default=None)

    @property
    def master_epoch(self) -> int:
        """The highest state version under which a master registered that is still connected."""
        return max(self.claims.values(), default=0)

    @property
    def headless(self) -> bool:
        """Whether there are replicas and no master."""
        return bool(self.addrs) and MASTER_ID not in self.addrs

    def drop_addr(self, addr: str, *, but_id: int | None = None) -> list[int]:
        """Remove `addr` under every id except `but_id`. Return the ids that it had."""
        ids = [number for number, held in self.addrs.items() if held == addr and number != but_id]
        for number in ids:
            del self.addrs[number]
            self.group_addrs.pop(number, None)
        return ids

    @property
    def group_addr(self) -> str | None:
        """The address that clients use for the master of this group, whichever broker that is.

        Of several, that of the smallest broker id counts. None: clients use the master's own.
        """
        return self.group_addrs[min(self.group_addrs)] if self.group_addrs else None

    def set_group_addr(self, broker_id: int, addr: str | None) -> bool:
        """Note what a member registered; return whether `group_addr` changed."""
        before = self.group_addr
        if addr:
            self.group_addrs[broker_id] = addr
        else:
            self.group_addrs.pop(broker_id, None)
        return self.group_addr != before

    def as_data(self) -> BrokerData:
        """Return the group as routes show it, with a copy of the addresses."""
        data = BrokerData(self.cluster, self.name, dict(sorted(self.addrs.items())), self.acting)
        if self.zone is not None:
            data.zone_name = self.zone
        return data


@dataclass(slots=True)
class LiveBroker:
    """One broker process that registered and was heard of within its timeout. Times are monotonic
    ms.
    """

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
    """The connection over which it registered before the present one."""

    def expired(self, now: int) -> bool:
        """Whether it was silent for longer than its timeout."""
        return self.last_ms + self.timeout_ms < now


class Brokers:
    """Broker groups, clusters and living brokers, without topics."""

    def __init__(self) -> None:
        self.groups: dict[str, RegisteredGroup] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[Key, LiveBroker] = {}

    def join(self, cluster: str, name: str) -> RegisteredGroup:
        """Return the group `name`, creating it if needed, and add it to `cluster`."""
        self.clusters.setdefault(cluster, set()).add(name)
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = RegisteredGroup(cluster, name)
        return group

    def live_at(self, group: RegisteredGroup, broker_id: int) -> LiveBroker | None:
        """Return the living broker with `broker_id` in `group`, or None."""
        addr = group.addrs.get(broker_id)
        return None if addr is None else self.live.get((group.cluster, addr))

    def all_act(self, group: RegisteredGroup, but_addr: str = "") -> bool:
        """Whether all living members, except `but_addr`, allow an acting master."""
        lives = (
            self.live.get((group.cluster, addr))
            for addr in group.addrs.values()
            if addr != but_addr
        )
        return all(live.acting for live in lives if live is not None)

    def leave(self, name: str, addr: str) -> RegisteredGroup | None:
        """Remove `addr` from group `name`, and the group with its last member.

        The member is found by address, not by id: the id may belong to another process by now
        (rocketmq#5374).
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
        """Note a heartbeat: it keeps a registration alive, and never creates one."""
        live = self.live.get(key)
        if live is not None:
            live.last_ms = now

    def of_session(self, session_id: int) -> list[LiveBroker]:
        """Return the brokers that registered over this connection, and over no newer one."""
        return [live for live in self.live.values() if live.session_id == session_id]

    def forget_claims(self, session_id: int) -> None:
        """Remove the claims of masters over a connection that is closed."""
        for group in self.groups.values():
            group.claims.pop(session_id, None)

    def expired(self, now: int) -> list[LiveBroker]:
        """Return the brokers that were silent for longer than their timeouts."""
        return [live for live in self.live.values() if live.expired(now)]


# Acting master routes ------------------------------------------------------------------------
# Slave acting master (RIP-32) at the name server: acting masters in routes, and notices to brokers.
#
# If a group has no master and its replicas allow it, routes show its smallest id as master, for
# reading only. The write permission of its topics was removed when the master left.


@dataclass(frozen=True, slots=True)
class MinIdNotice:
    """A NOTIFY_MIN_BROKER_ID_CHANGE (905) to send one-way to each address in `to`."""

    to: tuple[str, ...]
    min_id: int
    min_addr: str
    offline_addr: str | None = None
    ha_addr: str | None = None


def stand_in(topic: str, route: TopicRouteData) -> None:
    """Show the smallest id as master in `route`, for groups without master and without writable
    queues.

    Topics by which brokers ask for the members of their group keep the true ids.
    """
    if topic.startswith(MEMBER_TOPIC_PREFIX):
        return
    writable = {queues.broker_name for queues in route.queue_datas if is_writable(queues.perm)}
    for group in route.broker_datas:
        addrs = group.broker_addrs
        headless = addrs and MASTER_ID not in addrs
        if headless and group.enable_acting_master and group.broker_name not in writable:
            addrs[MASTER_ID] = addrs.pop(min(addrs))


def show_group_addresses(route: TopicRouteData, groups: Mapping[str, RegisteredGroup]) -> None:
    """Show the group addresses as the masters' in `route`, also while a group has no master."""
    for shown in route.broker_datas:
        group = groups.get(shown.broker_name)
        if group is not None and group.group_addr is not None:
            shown.broker_addrs = {MASTER_ID: group.group_addr, **_but_master(shown.broker_addrs)}


def _but_master(addrs: Mapping[int, str]) -> dict[int, str]:
    return {number: addr for number, addr in addrs.items() if number != MASTER_ID}


def notice_of_arrival(group: RegisteredGroup, broker_id: int, ha_addr: str) -> MinIdNotice:
    """Return the notice that `broker_id` joined as the smallest id, for all others or itself if
    alone.
    """
    addr = group.addrs[broker_id]
    others = tuple(other for other in group.addrs.values() if other != addr)
    return MinIdNotice(others or (addr,), broker_id, addr, ha_addr=ha_addr)


def notice_of_leave(group: RegisteredGroup, offline_addr: str) -> MinIdNotice | None:
    """Return the notice that the smallest id left; None if no member may be acting master."""
    smallest = group.min_id
    if smallest is None or not group.acting:
        return None
    return MinIdNotice(
        tuple(group.addrs.values()), smallest, group.addrs[smallest], offline_addr=offline_addr
    )
