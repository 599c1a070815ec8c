"""GET_ALL_CONSUMER_ORDER_INFO 34007: replicas copy the state of ordered pops (ADR 0055).

The state is the table of ordered batches that are handed out and not acknowledged. RocketMQ has no
such request: after a failover its brokers hand the ordered batches out again at once, to any
consumer. In EpochMQ the answer to an ordered pop, acknowledgement or change of the invisible time
waits until the replicas that watch this table have the change, or are late.
"""

from collections.abc import Callable

from epochmq.base.errors import Refused
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.common import NodeHandler
from epochmq.broker.serving.roles import Role
from epochmq.broker.state.stamps import StampHeader, count_since, since, stamped
from epochmq.wire import json_tolerant
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import HELD, Command, Held, Reply
from epochmq.wire.session import Session


def when_copied(node: BrokerContext, now: int, done: Callable[[bool], None]) -> None:
    """Call `done` once the replicas have the present table of ordered batches.

    Without replicas `done` is called at once. The argument of `done` is False when this broker may
    no longer serve consumers, or when its role changed meanwhile: another broker may have handed
    out the same messages, even if this broker serves again.
    """
    code, changes = RequestCode.GET_ALL_CONSUMER_ORDER_INFO, node.pop.orders.changes
    tenure = node.pop.role_changes

    def copied() -> None:
        done(node.serving.rights.consumes and node.pop.role_changes == tenure)

    node.watchers.when_taken(code, now, copied, changes)


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
    orders = node.pop.orders

    def stamp() -> str:
        return f"{node.started_wall_ms}.{orders.changes}"

    def answer() -> None:
        session.answer(command, _told(node, command, stamp()))

    count = count_since(command, node.started_wall_ms)
    if node.watchers.hold(command, now, stamp, answer, session.id, count):
        return HELD
    return _told(node, command, stamp())


def _told(node: BrokerContext, command: Command, stamp: str) -> Reply:
    orders, wall = node.pop.orders, node.clock.wall_ms()
    count = count_since(command, node.started_wall_ms)
    keys = None if count is None else orders.changed_since(count)
    if keys is None or since(command) == stamp:
        return stamped(command, stamp, lambda: json_tolerant.dumps(orders.content(wall=wall)))
    body = json_tolerant.dumps(orders.content(keys, wall))
    return Reply(header=StampHeader(stamp, delta=True), body=body)


HANDLERS: dict[int, NodeHandler] = {
    RequestCode.GET_ALL_CONSUMER_ORDER_INFO: handle_all_orders,
}
