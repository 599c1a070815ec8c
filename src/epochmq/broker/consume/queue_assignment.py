"""The queues of one client, as the broker shares them out.

Only by what this broker sees: its own connections are the members. None says "skip this round",
which is not the same as "you have none".
"""

from collections.abc import Collection, Sequence

from epochmq.model.allocate import AVG, AVG_BY_CIRCLE, STRATEGIES, Strategy
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.pop_bodies import MODE_POP, MessageRequestMode

ANY_QUEUE = -1
"""As a queue's number: all queues that the broker has of the topic."""

SERVED = (AVG, AVG_BY_CIRCLE)
"""Strategies that a broker knows by name; for another one upstream answers as for no answer."""


def share(
    client: str,
    strategy_name: str,
    mode: MessageRequestMode,
    queues: Collection[MessageQueue],
    members: Collection[str],
) -> list[MessageQueue] | None:
    """What of `queues` is the share of `client` among `members`, sorted."""
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
    """With POP a queue may be several clients': all of them, or each with its next neighbours."""
    if sharing <= 0 or sharing >= len(members) - 1:
        return {MessageQueue(queue.topic, queue.broker_name, ANY_QUEUE) for queue in queues}
    if client not in members:
        return set()
    place = members.index(client)
    if len(members) > len(queues):
        return {queues[place % len(queues)]}  # so that nobody is without
    sharers = [members[(place + step) % len(members)] for step in range(sharing + 1)]
    return {queue for member in sharers for queue in strategy(member, queues, members)}
