"""A cache of encoded routes; an entry is kept until its route changes."""

from collections.abc import Callable, Iterable

from epochmq.model.topic import TopicRouteData
from epochmq.nameserver.registered_brokers import MASTER_ID
from epochmq.nameserver.route_table import RouteTable
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.json_tolerant import dumps_bare


class Routes:
    """Encoded `TopicRouteData` by topic, in standard and in fastjson's form.

    `order_conf` returns the order configuration of a topic, or None.
    """

    def __init__(self, table: RouteTable, order_conf: Callable[[str], str | None]) -> None:
        self._table = table
        self._order_conf = order_conf
        self._kept: dict[str, tuple[bytes, bytes]] = {}
        self._own: dict[str, bytes] = {}
        table.notify_changes(self.forget)

    def encoded(self, topic: str, *, bare: bool) -> bytes | None:
        """Return the route as JSON, or None. `bare` writes broker ids as bare integers, for old
        clients.
        """
        kept = self._kept.get(topic)
        if kept is None:
            route = self._route(topic)
            if route is None:
                return None
            kept = self._kept[topic] = (encode_body(route), dumps_bare(route))
        return kept[bare]

    def encoded_own(self, topic: str) -> bytes | None:
        """Return the route with the brokers' own addresses as JSON, without group addresses."""
        own = self._own.get(topic)
        if own is None:
            route = self._route(topic, own_addresses=True)
            if route is None:
                return None
            own = self._own[topic] = encode_body(route)
        return own

    def encoded_for_zone(self, topic: str, zone: str, *, bare: bool) -> bytes | None:
        """Return the route without groups of other zones; groups without a master are kept."""
        route = self._route(topic)
        if route is None:
            return None
        keep_zone(route, zone)
        return dumps_bare(route) if bare else encode_body(route)

    def forget(self, topics: Iterable[str] | None = None) -> None:
        """Drop the encoded routes of `topics`, or all of them."""
        if topics is None:
            self._kept.clear()
            self._own.clear()
            return
        for topic in topics:
            self._kept.pop(topic, None)
            self._own.pop(topic, None)

    def _route(self, topic: str, *, own_addresses: bool = False) -> TopicRouteData | None:
        route = self._table.route(topic, own_addresses=own_addresses)
        if route is not None:
            conf = self._order_conf(topic)
            if conf is not None:
                route.order_topic_conf = conf
        return route


def keep_zone(route: TopicRouteData, zone: str) -> None:
    """Remove groups of other zones from `route`; a group without a master stays for reads."""
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
