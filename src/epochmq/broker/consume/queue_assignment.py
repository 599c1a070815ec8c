"""Queue assignment: which queues one client of a consumer group gets (rebalance by the broker).

The members of the group are the clients that are connected to this broker. The result None means
"no answer, skip this round"; an empty list means "no queues".
"""

from collections.abc import Collection, Sequence

from epochmq.model.allocate import AVG, AVG_BY_CIRCLE, STRATEGIES, Strategy
from epochmq.model.topic import ANY_QUEUE, MessageQueue
from epochmq.wire.bodies.pop_bodies import MODE_POP, MessageRequestMode

SERVED = (AVG, AVG_BY_CIRCLE)
"""Strategies that the broker supports; for another one the result is None, as in RocketMQ."""


def share(
    client: str,
    strategy_name: str,
    mode: MessageRequestMode,
    queues: Collection[MessageQueue],
    members: Collection[str],
) -> list[MessageQueue] | None:
    """Return the queues for `client` among the group's `members`, sorted.

    None if the strategy is unknown, or if there are no queues or no members.
    """
    if strategy_name not in SERVED or not queues or not members:
        return None
    ordered, ids = sorted(queues), sorted(members)
    strategy = STRATEGIES[strategy_name]
    if mode.mode != MODE_POP:
        return sorted(strategy(client, ordered, ids))
    return sorted(_popped(client, strategy, mode.pop_share_queue_num, ordered, ids))


def _popped(
    client: str,
    strategy: Strategy,
    sharing: int,
    queues: Sequence[MessageQueue],
    members: Sequence[str],
) -> set[MessageQueue]:
    """Return the queues for a client that uses POP; several clients may share a queue.

    A client gets all queues, or its own queues and those of the next `sharing` members.
    """
    if sharing <= 0 or sharing >= len(members) - 1:
        return {MessageQueue(queue.topic, queue.broker_name, ANY_QUEUE) for queue in queues}
    if client not in members:
        return set()
    place = members.index(client)
    if len(members) > len(queues):
        return {queues[place % len(queues)]}  # so that each member has a queue
    sharers = [members[(place + step) % len(members)] for step in range(sharing + 1)]
    return {queue for member in sharers for queue in strategy(member, queues, members)}
