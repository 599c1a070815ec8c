"""Encoded routes: made once, kept until what they say changes."""

from collections.abc import Callable, Iterable

from epochmq.model.topic import TopicRouteData
from epochmq.nameserver.registered_brokers import MASTER_ID
from epochmq.nameserver.route_table import RouteTable
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.json_tolerant import dumps_bare


class Routes:
    """Bytes of `TopicRouteData` by (topic, dialect) over one route table.

    `order_conf` gives a topic's order configuration, or None when it has none.
    """

    def __init__(self, table: RouteTable, order_conf: Callable[[str], str | None]) -> None:
        self._table = table
        self._order_conf = order_conf
        self._kept: dict[str, tuple[bytes, bytes]] = {}
        table.changed = self.forget

    def encoded(self, topic: str, *, bare: bool) -> bytes | None:
        """The route as JSON, broker ids bare for readers that know it no other way; None: none."""
        kept = self._kept.get(topic)
        if kept is None:
            route = self._route(topic)
            if route is None:
                return None
            kept = self._kept[topic] = (encode_body(route), dumps_bare(route))
        return kept[bare]

    def encoded_for_zone(self, topic: str, zone: str, *, bare: bool) -> bytes | None:
        """The route without brokers of other zones, unless those have no master."""
        route = self._route(topic)
        if route is None:
            return None
        keep_zone(route, zone)
        return dumps_bare(route) if bare else encode_body(route)

    def forget(self, topics: Iterable[str] | None = None) -> None:
        """Throw away the routes of `topics`, or all of them."""
        if topics is None:
            self._kept.clear()
            return
        for topic in topics:
            self._kept.pop(topic, None)

    def _route(self, topic: str) -> TopicRouteData | None:
        route = self._table.route(topic)
        if route is not None:
            conf = self._order_conf(topic)
            if conf is not None:
                route.order_topic_conf = conf
        return route


def keep_zone(route: TopicRouteData, zone: str) -> None:
    """Remove groups of other zones from `route`; a group without a master stays for its readers."""
    kept = [
        group
        for group in route.broker_datas
        if MASTER_ID not in group.broker_addrs or (group.zone_name or "").lower() == zone.lower()
    ]
    names = {group.broker_name for group in kept}
    addrs = {addr for group in kept for addr in group.broker_addrs.values()}
    route.broker_datas = kept
    route.queue_datas = [queues for queues in route.queue_datas if queues.broker_name in names]
    filters = route.filter_server_table
    route.filter_server_table = {addr: filters[addr] for addr in filters if addr in addrs}
