"""The core of a name server: it takes registrations and makes routes.

Methods take plain values and `now` in monotonic milliseconds. Routes are read far more often than
they change, so `changed` is called with the topics whose routes changed (None: all topics).
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.model.data_version import DataVersion
from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.topic import QueueData, TopicConfig, TopicRouteData
from epochmq.nameserver.options import NamesrvOptions
from epochmq.nameserver.registered_brokers import (
    HEARTBEAT_TIMEOUT_MS,
    MASTER_ID,
    Brokers,
    Key,
    LiveBroker,
    MinIdNotice,
    RegisteredGroup,
    notice_of_arrival,
    notice_of_leave,
    show_group_addresses,
    stand_in,
)
from epochmq.nameserver.routed_topics import RoutedTopics, queues_of
from epochmq.wire.bodies.topic_bodies import TopicQueueMappingInfo
from epochmq.wire.codes import ResponseCode

_FAILED = ResponseCode.SYSTEM_ERROR
_NO_VERSION = DataVersion()
TOPICS_A_STEP = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker registers. `acting` is None for a 4.x broker.

    `topics` and `filter_servers` are None if the broker does not say anything about them.
    """

    cluster: str
    name: str
    broker_id: int
    addr: str
    ha_addr: str = ""
    zone: str | None = None
    timeout_ms: int | None = None
    acting: bool | None = None
    version: DataVersion = _NO_VERSION
    topics: Mapping[str, TopicConfig] | None = None
    mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)
    filter_servers: list[str] | None = None
    session_id: int = 0
    group_addr: str | None = None
    """The address of the group's master for clients; None: the master's own."""
    is_part: bool = False
    """Whether the broker has more topics than `topics`."""

    @property
    def key(self) -> Key:
        """(cluster, address) of the broker."""
        return (self.cluster, self.addr)


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration: the living master, for a broker that is not the master."""

    ha_addr: str | None = None
    master_addr: str | None = None


class RouteTable:
    """Broker groups, living brokers and topics of one name server."""

    def __init__(self, options: NamesrvOptions, safe: Safeguards = SAFE) -> None:
        self.options = options
        self._safe = safe
        self.brokers = Brokers()
        self.topics = RoutedTopics()
        self.notices: list[MinIdNotice] = []
        self._changed: Callable[[Iterable[str] | None], None] = lambda topics: None

    def notify_changes(self, changed: Callable[[Iterable[str] | None], None]) -> None:
        """Call `changed` with the topics whose routes changed; None stands for all topics."""
        self._changed = changed

    # Registration ----------------------------------------------------------------------------

    def register(self, told: Registration, now: int) -> Registered:
        """Register a broker, or renew its registration. Raises `Refused` if it may not join."""
        steps = self.register_steps(told, now)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: Registered = done.value
                return result

    def register_steps(self, told: Registration, now: int) -> Generator[None, None, Registered]:
        """Register in steps of `TOPICS_A_STEP` topics; it ends early when the broker is gone.

        Raises:
            Refused: the broker may not join.
        """
        self._check(told)
        self._check_id(told, now)
        group, first = self._join(told)
        before = (dict(group.addrs), group.acting, group.zone)
        smallest = group.min_id
        group.drop_addr(told.addr, but_id=told.broker_id)
        if self._outranked(group, told):
            self.brokers.live.pop(told.key, None)
            if group.addrs != before[0]:
                self._changed(None)
            return Registered()
        first = first or told.broker_id not in group.addrs
        group.addrs[told.broker_id] = told.addr
        group.acting = bool(told.acting) and self.brokers.all_act(group, told.addr)
        group.zone = told.zone
        moved = group.set_group_addr(told.broker_id, told.group_addr)
        if told.broker_id == MASTER_ID:
            before_epoch = group.claims.get(told.session_id, 0)
            group.claims[told.session_id] = max(before_epoch, told.version.state_version)
        news = first or self._is_news(told)
        filters = self._filters(told)
        shown = (group.addrs, group.acting, group.zone)
        if shown != before or moved or filters != self._filters_now(told):
            self._changed(None)
        live = self._set_live(told, filters, now)
        if smallest is not None and told.broker_id < smallest:
            self._notify(notice_of_arrival(group, told.broker_id, told.ha_addr))
        yield from self._apply_topics(group, told, news, live)
        return self._master_of(group, told)

    def is_from(self, cluster: str, addr: str, session_id: int) -> bool:
        """Whether the broker at `addr` is registered over this connection."""
        live = self.brokers.live.get((cluster, addr))
        return live is not None and live.session_id == session_id

    def _check(self, told: Registration) -> None:
        if told.version.state_version > limits.EPOCH_MAX:
            raise Refused(
                _FAILED,
                f"a state version of {told.version.state_version} is not believed: it is the"
                f" master's epoch, and none is above {limits.EPOCH_MAX}",
            )
        group = self.brokers.groups.get(told.name)
        newcomer = group is None or told.broker_id not in group.addrs
        if newcomer and told.topics is not None and len(told.topics) == 1:
            # A registration with one topic is incremental, and needs a full one before it.
            raise Refused(
                _FAILED,
                "register broker failed: a broker that is not registered named one topic only; "
                "register all topics first",
            )
        if told.key not in self.brokers.live:
            if len(self.brokers.live) >= limits.ROUTE_BROKERS_MAX:
                raise Refused(_FAILED, f"more than {limits.ROUTE_BROKERS_MAX} brokers")
        held = self.topics.queues
        told_topics = told.topics or {}
        if len(held) + len(told_topics) > limits.ROUTE_TOPICS_MAX:
            if (
                len(held) + sum(topic not in held for topic in told_topics)
                > limits.ROUTE_TOPICS_MAX
            ):
                raise Refused(_FAILED, f"more than {limits.ROUTE_TOPICS_MAX} topics")

    def _check_id(self, told: Registration, now: int) -> None:
        """Refuse a broker whose id another living broker has, in groups with acting masters.

        Two brokers that are configured with the same id would otherwise take it from each other
        without end (H20). The holder keeps its id until half of its timeout without a heartbeat,
        which is longer than one heartbeat interval. If epochs are in use, they decide instead.
        """
        group = self.brokers.groups.get(told.name)
        held = None if group is None else self.brokers.live_at(group, told.broker_id)
        if held is None or held.addr == told.addr or not (held.acting and told.acting):
            return
        silent_ms = now - held.last_ms
        if held.version.state_version or told.version.state_version:
            return
        if 2 * silent_ms < held.timeout_ms:
            raise Refused(
                _FAILED,
                f"two brokers are configured with one id: {held.addr}, heard of {silent_ms} ms ago,"
                f" is broker {told.broker_id} of group {told.name}; {told.addr} is not registered",
            )

    def _join(self, told: Registration) -> tuple[RegisteredGroup, bool]:
        first = told.name not in self.brokers.groups
        return self.brokers.join(told.cluster, told.name), first

    def _outranked(self, group: RegisteredGroup, told: Registration) -> bool:
        """Whether a newer epoch holds this id, or held it over a connection that is still open.

        The highest epoch wins (rocketmq#6316, INV-34). State version 0 means that no epochs are in
        use; then the last registration wins.
        """
        if not group.addrs or group.addrs.get(told.broker_id) == told.addr:
            return False
        if not self._safe.route_picks_highest_epoch:
            return False
        epoch = told.version.state_version
        held = self.brokers.live_at(group, told.broker_id)
        if held is not None and held.version.state_version > epoch:
            return True
        return told.broker_id == MASTER_ID and 0 < epoch < group.master_epoch

    def _is_news(self, told: Registration) -> bool:
        live = self.brokers.live.get(told.key)
        return live is None or live.version != told.version

    def _filters_now(self, told: Registration) -> list[str]:
        live = self.brokers.live.get(told.key)
        return [] if live is None else live.filter_servers

    def _filters(self, told: Registration) -> list[str]:
        return self._filters_now(told) if told.filter_servers is None else told.filter_servers

    def _apply_topics(
        self, group: RegisteredGroup, told: Registration, news: bool, live: LiveBroker
    ) -> Generator[None, None, None]:
        """Apply the topics of the master, or of the smallest id of a group with acting masters."""
        prime = told.acting is not None and told.broker_id == group.min_id
        if told.topics is None or not (told.broker_id == MASTER_ID or prime):
            return
        read_only = told.broker_id != MASTER_ID and group.acting  # rocketmq#7626
        different: list[str] = []
        for number, (topic, config) in enumerate(told.topics.items()):
            if number and number % TOPICS_A_STEP == 0:
                self._changed(different)
                different = []
                yield
                if self.brokers.live.get(told.key) is not live:
                    return  # the broker left, or registered again
            if news or not self.topics.has(topic, told.name):
                if self.topics.put(topic, queues_of(config, told.name, read_only=read_only)):
                    different.append(topic)
        for topic, mapping in told.mappings.items():
            if news and self.topics.put_mapping(topic, told.name, mapping):
                different.append(topic)
        deletes = self.options.delete_topic_with_broker_registration and not told.is_part
        if deletes and not told.mappings:
            for topic in set(self.topics.of_broker(told.name)).difference(told.topics):
                self.topics.drop(topic, (told.name,))
                different.append(topic)
        if different:
            self._changed(different)

    def _set_live(self, told: Registration, filters: list[str], now: int) -> LiveBroker:
        timeout_ms = told.timeout_ms or HEARTBEAT_TIMEOUT_MS
        before, before_id = self.brokers.live.get(told.key), None
        if before is not None:
            same = before.session_id == told.session_id
            before_id = before.before_id if same else before.session_id
        live = self.brokers.live[told.key] = LiveBroker(
            told.cluster,
            told.name,
            told.addr,
            now,
            max(1, timeout_ms),
            told.version,
            told.session_id,
            told.ha_addr,
            filters,
            bool(told.acting),
            before_id,
        )
        return live

    def _master_of(self, group: RegisteredGroup, told: Registration) -> Registered:
        if told.broker_id == MASTER_ID:
            return Registered()
        master = self.brokers.live_at(group, MASTER_ID)
        return Registered() if master is None else Registered(master.ha_addr, master.addr)

    # Unregistration and timeouts -------------------------------------------------------------

    def leaves(self, cluster: str, name: str, addr: str, session_id: int) -> None:
        """Handle a broker's request to unregister.

        A request over the connection that the broker had before its last registration is late: it
        comes from an earlier process, and is ignored (rocketmq#11043).
        """
        live = self.brokers.live.get((cluster, addr))
        if live is None or live.before_id != session_id:
            self.unregister(cluster, name, addr)

    def unregister(self, cluster: str, name: str, addr: str) -> None:
        """Remove a broker; with the last broker of a group, the topics of the group are removed."""
        self.brokers.live.pop((cluster, addr), None)
        before = self.brokers.groups.get(name)
        if before is None or addr not in before.addrs.values():
            return
        smallest = before.addrs[min(before.addrs)]
        group = self.brokers.leave(name, addr)
        assert group is not None
        self._changed(None)
        if not group.addrs:
            self.topics.drop_broker(name)
            return
        group.acting = self.brokers.all_act(group)
        if group.headless and group.acting:
            self.topics.wipe_write(name)
        if smallest == addr:
            self._notify(notice_of_leave(group, addr))

    def session_closed(self, session_id: int) -> None:
        """Remove the brokers that registered over a connection which is closed now."""
        for live in self.brokers.of_session(session_id):
            self.unregister(live.cluster, live.name, live.addr)
        self.brokers.forget_claims(session_id)

    def expire(self, now: int) -> list[LiveBroker]:
        """Remove the brokers that were silent for too long; the caller closes their connections."""
        silent = self.brokers.expired(now)
        for live in silent:
            self.unregister(live.cluster, live.name, live.addr)
        return silent

    def heartbeat(self, cluster: str, addr: str, now: int) -> None:
        """Keep a registration alive; an unknown broker stays unknown."""
        self.brokers.heard((cluster, addr), now)

    def query_version(
        self, cluster: str, addr: str, version: DataVersion, now: int
    ) -> tuple[bool, DataVersion | None]:
        """Return whether the broker must register again, and its known version. Counts as a
        heartbeat.
        """
        live = self.brokers.live.get((cluster, addr))
        if live is None:
            return True, None
        live.last_ms = now
        return live.version != version, live.version

    def _notify(self, notice: MinIdNotice | None) -> None:
        if notice is not None and self.options.notify_min_broker_id_changed:
            self.notices.append(notice)

    def pop_notices(self) -> list[MinIdNotice]:
        """Return and clear the notices that must be sent."""
        notices, self.notices = self.notices, []
        return notices

    # Administration --------------------------------------------------------------------------

    def wipe_write(self, broker_name: str) -> int:
        """Remove the write permission of all topics of a group. Return the number of topics."""
        topics = self.topics.wipe_write(broker_name)
        self._changed(topics)
        return len(topics)

    def add_write(self, broker_name: str) -> int:
        """Make all topics of a group readable and writable. Return the number of topics."""
        topics = self.topics.add_write(broker_name)
        self._changed(topics)
        return len(topics)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove `topic`, in one cluster only if that is given."""
        if cluster:
            self.topics.drop(topic, self.brokers.clusters.get(cluster, ()))
        else:
            self.topics.drop_topic(topic)
        self._changed((topic,))

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Set the queues of one topic on known groups; unknown groups are ignored.

        Raises:
            Refused: there are too many topics.
        """
        if topic not in self.topics.queues:
            if len(self.topics.queues) >= limits.ROUTE_TOPICS_MAX:
                raise Refused(_FAILED, f"more than {limits.ROUTE_TOPICS_MAX} topics")
        for one in queues:
            if one.broker_name in self.brokers.groups:
                self.topics.put(topic, one)
        self._changed((topic,))

    # Reading ---------------------------------------------------------------------------------

    def route(self, topic: str, *, own_addresses: bool = False) -> TopicRouteData | None:
        """Return the route of `topic`; None if no known group has it. Only its queues are not
        copied.

        `own_addresses`: without group addresses, for brokers and tools.
        """
        held = self.topics.queues.get(topic)
        if not held:
            return None
        groups = [self.brokers.groups[name] for name in held if name in self.brokers.groups]
        if not groups:
            return None
        route = TopicRouteData(
            queue_datas=[*held.values()],
            broker_datas=[group.as_data() for group in groups],
            filter_server_table=self._filter_table(groups),
        )
        mappings = self.topics.mappings.get(topic)
        if mappings:
            route.topic_queue_mapping_by_broker = {**mappings}
        if self.options.support_acting_master:
            stand_in(topic, route)
        if not own_addresses and not topic.startswith(MEMBER_TOPIC_PREFIX):
            show_group_addresses(route, self.brokers.groups)
        return route

    def _filter_table(self, groups: Iterable[RegisteredGroup]) -> dict[str, list[str]]:
        lives = self.brokers.live
        found = {
            addr: lives[group.cluster, addr].filter_servers
            for group in groups
            for addr in group.addrs.values()
            if (group.cluster, addr) in lives
        }
        return {addr: filters for addr, filters in found.items() if filters}

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics of the broker groups of a cluster."""
        return self.topics.of_brokers(self.brokers.clusters.get(cluster, ()))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the names of clusters and groups, which are topics too, and the address of one
        broker.
        """
        names = list(dict.fromkeys((*self.brokers.clusters, *self.brokers.groups)))
        addrs = (addr for group in self.brokers.groups.values() for addr in group.addrs.values())
        return names, next(addrs, None)
