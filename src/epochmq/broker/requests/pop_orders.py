"""GET_ALL_CONSUMER_ORDER_INFO 34007: replicas copy the state of ordered pops (ADR 0055).

The state is the table of ordered batches that are handed out and not acknowledged. RocketMQ has no
such request: after a failover its brokers hand the ordered batches out again at once, to any
consumer. In EpochMQ the answer to an ordered pop, acknowledgement or change of the invisible time
waits until the replicas that watch this table have the change, or are late.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from epochmq.base.errors import Refused
from epochmq.base.ports import Clock
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.pop.ordered_pop import Orders
from epochmq.broker.pop.pop_windows import QueueKey
from epochmq.broker.requests.common import NodeHandler, watched_rows
from epochmq.broker.serving.roles import Role
from epochmq.broker.state.row_changes import RowChanges, TablePart
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.session import Session


def when_copied(node: BrokerContext, now: int, done: Callable[[bool], None]) -> None:
    """Call `done` once the replicas have the present table of ordered batches.

    Without replicas `done` is called at once. The argument of `done` is False when this broker may
    no longer serve consumers, or when its role changed meanwhile: another broker may have handed
    out the same messages, even if this broker serves again.
    """
    code, count = RequestCode.GET_ALL_CONSUMER_ORDER_INFO, node.pop.orders.changes.count
    tenure = node.pop.role_changes

    def copied() -> None:
        done(node.serving.rights.consumes and node.pop.role_changes == tenure)

    node.watchers.when_taken(code, now, copied, count)


def handle_all_orders(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """Answer the table of ordered batches, or its changes (GET_ALL_CONSUMER_ORDER_INFO 34007).

    With controllers a broker that is not master raises `Refused` 14. A master that restarts has
    only the table of its file, which may be older than the replicas' tables; it may even follow the
    next master before the replicas know that master. The replicas therefore keep their tables until
    there is a master. Without controllers, a broker that copies tables back at its start answers no
    such request before it is online (`check_role`).
    """
    if node.options.enable_controller_mode and node.serving.role is not Role.MASTER:
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "this broker does not lead its group")
    return watched_rows(node, command, session, now, OrderRows(node.pop.orders, node.clock))


@dataclass(frozen=True, slots=True)
class OrderRows:
    """The ordered batches as replicas copy them, with this broker's wall time."""

    replicas_know_deltas: ClassVar[bool] = True
    orders: Orders
    clock: Clock

    @property
    def changes(self) -> RowChanges[QueueKey]:
        return self.orders.changes

    def weigh(self, key: QueueKey) -> int:
        return self.orders.weigh(key)

    def encode_part(self, part: TablePart[QueueKey]) -> bytes:
        return json_tolerant.dumps(self.orders.content(part.rows, self.clock.wall_ms()))


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_ALL_CONSUMER_ORDER_INFO: handle_all_orders,
}
