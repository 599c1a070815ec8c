"""What the client knows of topics and brokers, and what it must ask again.

Publish queues are the writable queues of brokers that have a master; subscribe queues the readable
ones.
"""

from dataclasses import dataclass

from epochmq.model.topic import (
    PERM_READ,
    PERM_WRITE,
    BrokerData,
    MessageQueue,
    QueueData,
    TopicRouteData,
)

MASTER_ID = 0
ROUTE_POLL_MS = 30_000
_LONG_AGO_MS = -(1 << 62)


@dataclass(slots=True)
class _Known:
    route: TopicRouteData
    publish: tuple[MessageQueue, ...]
    subscribe: tuple[MessageQueue, ...]
    fetched_at_ms: int


class RouteCache:
    """Routes by topic and broker addresses by name."""

    def __init__(self, poll_ms: int = ROUTE_POLL_MS) -> None:
        self._poll_ms = poll_ms
        self._topics: dict[str, _Known] = {}
        self._brokers: dict[str, dict[int, str]] = {}

    def put(self, topic: str, route: TopicRouteData, now: int) -> bool:
        """Keep `route`; tells whether the queues of `topic` changed."""
        for broker in route.broker_datas:
            self._brokers[broker.broker_name] = dict(broker.broker_addrs)
        known = _Known(route, publish_queues(topic, route), subscribe_queues(topic, route), now)
        before = self._topics.get(topic)
        self._topics[topic] = known
        return before is None or (before.publish, before.subscribe) != (
            known.publish,
            known.subscribe,
        )

    def forget(self, topic: str) -> None:
        """Drop `topic`; its brokers stay known for other topics."""
        self._topics.pop(topic, None)

    def expire(self, topic: str, used_at_ms: int | None = None) -> None:
        """Ask for `topic` again before it is used, but keep it in case nobody answers.

        A route that came after `used_at_ms`, when the caller used the one that failed, stays: of
        thousands that failed together, one asks.
        """
        known = self._topics.get(topic)
        if known is not None and (used_at_ms is None or known.fetched_at_ms <= used_at_ms):
            known.fetched_at_ms = _LONG_AGO_MS

    def publish(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues of `topic` that may be written; empty when unknown."""
        known = self._topics.get(topic)
        return known.publish if known else ()

    def subscribe(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues of `topic` that may be read; empty when unknown."""
        known = self._topics.get(topic)
        return known.subscribe if known else ()

    def route(self, topic: str) -> TopicRouteData | None:
        """The route as the name server told it last."""
        known = self._topics.get(topic)
        return known.route if known else None

    def is_stale(self, topic: str, now: int) -> bool:
        """Whether `topic` is unknown or was last asked a poll interval ago."""
        known = self._topics.get(topic)
        return known is None or now - known.fetched_at_ms >= self._poll_ms

    def master(self, broker_name: str) -> str | None:
        """Address of the master of `broker_name`."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def address(self, broker_name: str, broker_id: int) -> str | None:
        """Address of the wanted replica, else the next one, else any."""
        replicas = self._brokers.get(broker_name, {})
        for candidate in (broker_id, broker_id + 1):
            if candidate in replicas:
                return replicas[candidate]
        return next((replicas[key] for key in sorted(replicas)), None)

    def replica_id(self, broker_name: str, address: str) -> int:
        """The id under which `address` is known; the master's id when it is not."""
        for broker_id, known in self._brokers.get(broker_name, {}).items():
            if known == address:
                return broker_id
        return MASTER_ID

    def masters(self) -> list[str]:
        """Addresses of all known masters, sorted."""
        return sorted({b[MASTER_ID] for b in self._brokers.values() if MASTER_ID in b})

    def all_addresses(self) -> list[str]:
        """Addresses of all known brokers, slaves included, sorted."""
        return sorted({address for b in self._brokers.values() for address in b.values()})


def publish_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Writable queues in the order of broker names; an order configuration wins."""
    if route.order_topic_conf:
        return _configured_queues(topic, route.order_topic_conf)
    masters = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    return tuple(
        MessageQueue(topic, data.broker_name, index)
        for data in sorted(route.queue_datas, key=_name)
        if data.perm & PERM_WRITE and data.broker_name in masters
        for index in range(data.write_queue_nums)
    )


def subscribe_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Readable queues in the order of broker names."""
    return tuple(
        MessageQueue(topic, data.broker_name, index)
        for data in sorted(route.queue_datas, key=_name)
        if data.perm & PERM_READ
        for index in range(data.read_queue_nums)
    )


def route_of_new_topic(template: TopicRouteData, queue_count: int) -> TopicRouteData:
    """The route of a topic that does not exist yet, from that of `TBW102`."""
    return TopicRouteData(
        broker_datas=[
            BrokerData(b.cluster, b.broker_name, dict(b.broker_addrs))
            for b in template.broker_datas
        ],
        queue_datas=[
            QueueData(
                d.broker_name,
                read_queue_nums=min(queue_count, d.read_queue_nums),
                write_queue_nums=min(queue_count, d.write_queue_nums),
                perm=d.perm,
                topic_sys_flag=d.topic_sys_flag,
            )
            for d in template.queue_datas
        ],
    )


def _name(data: QueueData) -> str:
    return data.broker_name


def _configured_queues(topic: str, conf: str) -> tuple[MessageQueue, ...]:
    queues = []
    for item in conf.split(";"):
        name, _, count = item.partition(":")
        if name and count.isdigit():
            queues += [MessageQueue(topic, name, index) for index in range(int(count))]
    return tuple(queues)
