"""SQL92 filters of consumer groups: compiled once for each expression, stored by topic and group.

RocketMQ's ConsumerFilterManager. File: config/consumerFilter.json. RocketMQ also stores bloom
filter data there; EpochMQ ignores it and writes none.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.saved_files import readable
from epochmq.model.group import SQL92, SubscriptionData
from epochmq.model.sql92 import SqlError, compile_filter


class Matcher(Protocol):
    """A compiled filter: returns whether properties match; None (unknown) counts as no match.

    `nodes` is the size of the expression.
    """

    nodes: int

    def __call__(self, props: Mapping[str, str]) -> bool | None: ...


KEEP_DEAD_MS = 24 * 60 * 60 * 1000
_RELOAD_GRACE_MS = 30_000
_SYSTEM_ERROR = 1
_PARSE_FAILED = 23
_NOT_EXIST = 27
_NOT_LATEST = 28


class ConsumerFilter(msgspec.Struct, rename="camel"):
    """The filter of one group for one topic; times are wall ms.

    `dead_time` is 0 while a member subscribes to the topic.
    """

    consumer_group: str = ""
    topic: str = ""
    expression: str = ""
    expression_type: str = SQL92
    born_time: int = 0
    dead_time: int = 0
    client_version: int = 0


class ConsumerFilters:
    """All SQL92 filters of a broker.

    `enabled` is enablePropertyFilter. If it is off, all filters except tags are refused, as in
    RocketMQ.
    """

    file = "config/consumerFilter.json"

    def __init__(self, *, enabled: bool = False) -> None:
        self.enabled = enabled
        self.dirty = False
        self.table: dict[str, dict[str, ConsumerFilter]] = {}
        self._compiled: OrderedDict[str, Matcher] = OrderedDict()
        self._count = 0

    def compiled(self, expression: str, expression_type: str | None = SQL92) -> Matcher:
        """Return the compiled filter of an expression.

        Raises `Refused` with code 1 if filters are disabled, 23 if the expression is not SQL92.
        """
        if not self.enabled:
            text = f"The broker does not support consumer to filter message by {expression_type}"
            raise Refused(_SYSTEM_ERROR, text)
        if expression_type != SQL92:
            raise Refused(_PARSE_FAILED, f"unknown expression type {expression_type}")
        matcher = self._compiled.get(expression)
        if matcher is None:
            try:
                matcher = compile_filter(expression)
            except SqlError as error:
                raise Refused(_PARSE_FAILED, str(error)) from error
            self._compiled[expression] = matcher
            if len(self._compiled) > limits.COMPILED_FILTERS_MAX:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return matcher

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        return self.table.get(topic, {}).get(group)

    def matcher(self, group: str, subscription: SubscriptionData) -> Matcher:
        """Return the registered filter for a pull request without its own expression.

        Raises `Refused`: 27 if the group registered no filter for the topic, 28 if the filter is
        older than the subscription, 1 and 23 as in `compiled`.
        """
        if not self.enabled:
            return self.compiled(subscription.sub_string, subscription.expression_type)
        found = self.get(subscription.topic, group)
        if found is None:
            text = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise Refused(_NOT_EXIST, text)
        if found.client_version < subscription.sub_version:
            raise Refused(_NOT_LATEST, "the consumer's consumer filter data not latest")
        return self.compiled(found.expression, found.expression_type)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], wall: int) -> None:
        """Register the filters of a heartbeat; mark the group's other filters as dead at `wall`."""
        live = set()
        for subscription in subscriptions:
            live.add(subscription.topic)
            if not subscription.is_tag and subscription.sub_string:
                self._put(group, subscription, wall)
        for topic, filters in self.table.items():
            found = filters.get(group)
            if found is not None and topic not in live and not found.dead_time:
                found.dead_time = wall
                self.dirty = True

    def _put(self, group: str, wanted: SubscriptionData, wall: int) -> None:
        old = self.get(wanted.topic, group)
        if old is not None and wanted.sub_version <= old.client_version:
            if old.dead_time and wanted.sub_version == old.client_version:
                old.dead_time = 0
                self.dirty = True
            return
        if not self._compiles(wanted):
            # The client gets the error with its next pull (27), not with the heartbeat.
            self._forget(wanted.topic, group)
            return
        if old is None and self._count >= limits.FILTERS_MAX:
            return
        self._count += old is None
        self.table.setdefault(wanted.topic, {})[group] = ConsumerFilter(
            consumer_group=group,
            topic=wanted.topic,
            expression=wanted.sub_string,
            expression_type=wanted.expression_type or SQL92,
            born_time=wall if old is None else old.born_time,
            client_version=wanted.sub_version,
        )
        self.dirty = True

    def _compiles(self, wanted: SubscriptionData) -> bool:
        try:
            self.compiled(wanted.sub_string, wanted.expression_type)
        except Refused:
            return False
        return True

    def _forget(self, topic: str, group: str) -> None:
        filters = self.table.get(topic)
        if filters is not None and filters.pop(group, None) is not None:
            self._count -= 1
            self.dirty = True
            if not filters:
                del self.table[topic]

    def bury(self, alive: Callable[[str], bool], wall: int) -> None:
        """Mark the filters of groups without members as dead; `clean` removes them a day later."""
        for filters in self.table.values():
            for group, found in filters.items():
                if not found.dead_time and not alive(group):
                    found.dead_time = wall
                    self.dirty = True

    def clean(self, wall: int) -> int:
        """Remove filters that have been dead for `KEEP_DEAD_MS`; return how many."""
        doomed = [
            (topic, group)
            for topic, filters in self.table.items()
            for group, found in filters.items()
            if found.dead_time and wall - found.dead_time >= KEEP_DEAD_MS
        ]
        for topic, group in doomed:
            self._forget(topic, group)
        return len(doomed)

    def encode(self) -> bytes:
        rows = {
            topic: {"groupFilterData": filters, "topic": topic}
            for topic, filters in self.table.items()
        }
        return readable({"filterDataByTopic": rows})

    def load(self, content: dict[str, Any]) -> None:
        """Load consumerFilter.json; the expressions are compiled at their first use."""
        rows = msgspec.convert(content.get("filterDataByTopic") or {}, dict[str, dict[str, Any]])
        table: dict[str, dict[str, ConsumerFilter]] = {}
        for topic, row in rows.items():
            filters = msgspec.convert(
                row.get("groupFilterData") or {}, dict[str, ConsumerFilter], strict=False
            )
            if filters:
                table[topic] = filters
        self.table = table
        self._count = sum(map(len, table.values()))

    def all_dead(self, wall: int) -> None:
        """Mark all filters as dead after a start, because no client is connected yet."""
        self.bury(lambda group: False, wall - _RELOAD_GRACE_MS)
