"""The masters beside a broker in the same process: what a slave that stands in there writes to.

RocketMQ takes the first master that it finds in the process, whatever its cluster and whether it
serves (H15); here it must be one that a remote escape would choose.
"""

from collections.abc import Callable, Iterable, Sequence

from epochmq.broker.broker_node import BrokerNode
from epochmq.broker.escape.local_routes import NodeNear


class ContainerNeighbours:
    """What one broker of a container sees; `nodes` are those that run, in a fixed order."""

    def __init__(self, own: BrokerNode, nodes: Callable[[], Iterable[BrokerNode]]) -> None:
        self._own = own
        self._nodes = nodes

    def masters(self) -> Sequence[NodeNear]:
        """Those of other groups of the cluster that serve and have a store that takes writes."""
        near = [NodeNear(node) for node in self._nodes() if self._is_of_use(node)]
        return [each for each in near if each.may_write]

    def _is_of_use(self, node: BrokerNode) -> bool:
        own, other = self._own.options, node.options
        return (
            other.broker_cluster_name == own.broker_cluster_name
            and other.broker_name != own.broker_name
            and node.store.fenced is None
            and not node.store.disk_full
            and not node.store.out_of_resources
        )
