"""GET_ALL_CONSUMER_ORDER_INFO 34007: batches of ordered pops that are out, for replicas (ADR 0055).

RocketMQ has no such request: after a failover its ordered batches are handed out again at once, to
whoever asks. Here whoever pops, acknowledges or hides in order is
answered once the replicas that watch this table have it, or are late.
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
    """Call `done` once the replicas know the batches as they are now; without replicas at once.

    With False when this broker may hand out nothing any more: whoever does now may not know. So
    too when it may again: somebody else may have handed out the same meanwhile.
    """
    code, changes = RequestCode.GET_ALL_CONSUMER_ORDER_INFO, node.pop.orders.changes
    tenure = node.pop.role_changes

    def copied() -> None:
        done(node.serving.rights.consumes and node.pop.role_changes == tenure)

    node.watchers.when_taken(code, now, copied, changes)


def handle_all_orders(
    node: BrokerContext, command: Command, session: Session, now: int
) -> Reply | Held:
    """The whole table, or what changed of it; with controllers 14 from whoever does not lead.

    A master that died and is back has what its file had, which may be less than what replicas were
    told, and it may follow the next master before they know of that one: they keep what they have
    until somebody leads. Without controllers a broker that takes tables back tells none before
    it is online (`check_role`).
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
