"""The routes of topics and addresses of brokers that the client knows, and when they expire.

Publish queues are the writable queues of brokers that have a master. Subscribe queues are the
readable queues.
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
    """Routes by topic, and broker addresses by broker name.

    Args:
        poll_ms: milliseconds after which a route is stale.
    """

    def __init__(self, poll_ms: int = ROUTE_POLL_MS) -> None:
        self._poll_ms = poll_ms
        self._topics: dict[str, _Known] = {}
        self._brokers: dict[str, dict[int, str]] = {}

    def put(self, topic: str, route: TopicRouteData, now: int) -> bool:
        """Store `route`. Return whether the queues of `topic` changed."""
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
        """Remove the route of `topic`; its brokers stay known for other topics."""
        self._topics.pop(topic, None)

    def expire(self, topic: str, used_at_ms: int | None = None) -> None:
        """Make the route of `topic` stale; it is still used if no name server answers.

        If `used_at_ms` (monotonic) is given, a route that was fetched later stays fresh. So of many
        calls that fail at the same time, one refreshes the route.
        """
        known = self._topics.get(topic)
        if known is not None and (used_at_ms is None or known.fetched_at_ms <= used_at_ms):
            known.fetched_at_ms = _LONG_AGO_MS

    def publish(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of `topic`; empty if it is not known."""
        known = self._topics.get(topic)
        return known.publish if known else ()

    def subscribe(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of `topic`; empty if it is not known."""
        known = self._topics.get(topic)
        return known.subscribe if known else ()

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the latest route of `topic`, or None."""
        known = self._topics.get(topic)
        return known.route if known else None

    def is_stale(self, topic: str, now: int) -> bool:
        """Whether `topic` is unknown, or its route is as old as the poll interval."""
        known = self._topics.get(topic)
        return known is None or now - known.fetched_at_ms >= self._poll_ms

    def master(self, broker_name: str) -> str | None:
        """Return the address of the master of `broker_name`, or None."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def address(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of replica `broker_id`, else of the next id, else of any replica."""
        replicas = self._brokers.get(broker_name, {})
        for candidate in (broker_id, broker_id + 1):
            if candidate in replicas:
                return replicas[candidate]
        return next((replicas[key] for key in sorted(replicas)), None)

    def replica_id(self, broker_name: str, address: str) -> int:
        """Return the broker id of `address`; the master's id if it is not known."""
        for broker_id, known in self._brokers.get(broker_name, {}).items():
            if known == address:
                return broker_id
        return MASTER_ID

    def masters(self) -> list[str]:
        """Return the addresses of all known masters, sorted."""
        return sorted({b[MASTER_ID] for b in self._brokers.values() if MASTER_ID in b})

    def all_addresses(self) -> list[str]:
        """Return the addresses of all known brokers, slaves included, sorted."""
        return sorted({address for b in self._brokers.values() for address in b.values()})


def publish_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return the writable queues, ordered by broker name; an order configuration replaces them."""
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
    """Return the readable queues, ordered by broker name."""
    return tuple(
        MessageQueue(topic, data.broker_name, index)
        for data in sorted(route.queue_datas, key=_name)
        if data.perm & PERM_READ
        for index in range(data.read_queue_nums)
    )


def route_of_new_topic(template: TopicRouteData, queue_count: int) -> TopicRouteData:
    """Return a route for a topic that does not exist yet, made from the route of `TBW102`."""
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
