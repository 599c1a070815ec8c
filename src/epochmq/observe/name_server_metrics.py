"""Metrics of a name server, EpochMQ's own (`epochmq_`): RocketMQ's name servers have none."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.observe.controller_metrics import ControllerMetrics
from epochmq.observe.families import GAUGE, Family
from epochmq.runtime.health_server import Checks, Health

_GROUP = ("cluster", "broker_set")


class NameServerMetrics:
    """Reads the metrics of one name server.

    Args:
        node: the name server.
        address: its address, for the labels.
        now: the monotonic clock of the name server, in milliseconds.
        controller: the controller in the same process, if there is one.
    """

    def __init__(
        self,
        node: NameServerNode,
        address: str,
        now: Callable[[], int],
        controller: ControllerMetrics | None = None,
    ) -> None:
        self._node = node
        self._address = address
        self._now = now
        self._controller = controller

    def common_labels(self) -> Mapping[str, str]:
        """Return the labels of every sample."""
        return {"node_type": "namesrv", "node_id": self._address}

    def checks(self) -> Checks:
        """Return what the health endpoint answers: ready is a name server that answers routes.

        With a controller it is ready when the controller is ready, too.
        """
        healthy = Health(True, {"reason": ""})
        of_controller = {} if self._controller is None else self._controller.checks()

        def ready() -> Health:
            if not self._node.ready(self._now()):
                return Health(False, {"reason": "brokers have time to register still"})
            check = of_controller.get("/-/ready")
            return healthy if check is None else check()

        return {"/-/healthy": lambda: healthy, "/-/ready": ready}

    def families(self) -> Iterator[Family | None]:
        """Yield all metrics."""
        table = self._node.table
        groups = list(table.brokers.groups.values())
        for name, help_text, rows in (
            ("epochmq_namesrv_brokers", "Registered brokers of a group.",
             [((group.cluster, group.name), len(group.addrs)) for group in groups]),
            ("epochmq_namesrv_has_master", "1 for a group with a master, or with an acting one.",
             [((group.cluster, group.name), int(not group.headless or group.acting))
              for group in groups]),
        ):  # fmt: skip
            yield Family(name, GAUGE, help_text, _GROUP, rows)
        for name, help_text, value in (
            ("epochmq_namesrv_topics", "Topics with a route.", len(table.topics.queues)),
            ("epochmq_namesrv_broker_connections", "Connections of brokers.",
             len(self._node.broker_sessions)),
        ):  # fmt: skip
            yield Family(name, GAUGE, help_text, (), [((), value)])
        if self._controller is not None:
            labels = self._controller.common_labels()
            for family in self._controller.families():
                yield None if family is None else replace(family, common=labels)
