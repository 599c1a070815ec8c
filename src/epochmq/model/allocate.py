"""Allocation strategies: how the queues of a topic are divided among the clients of a group.

Each client computes its own share. So `queues` and `clients` must be sorted in the same way
everywhere, and the results must be those of RocketMQ, because a group may have clients of both
kinds. A client that is not in `clients` gets no queue.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Literal

from epochmq.base.errors import UsageError
from epochmq.model.topic import MessageQueue

Strategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(own client id, all queues, all client ids) -> own queues."""

VIRTUAL_NODES = 10


def average(
    client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """Return adjacent queues; shares differ by at most one queue (AVG, the default)."""
    index = _index(client, clients)
    if index < 0:
        return []
    share, rest = divmod(len(queues), len(clients))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(
    client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """Return every n-th queue, for n clients (AVG_BY_CIRCLE)."""
    index = _index(client, clients)
    return list(queues[index :: len(clients)]) if index >= 0 else []


def configured(own: Sequence[MessageQueue]) -> Strategy:
    """Return a strategy that always gives the queues `own` (CONFIG)."""

    def allocate(
        client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        return list(own)

    return allocate


def machine_room(rooms: Collection[str]) -> Strategy:
    """Return a strategy that uses only queues of brokers named `room@...` with a room in `rooms`.

    Each client gets an equal share of them (MACHINE_ROOM).
    """

    def allocate(
        client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        index = _index(client, clients)
        if index < 0:
            return []
        near = [queue for queue in queues if _room(queue.broker_name) in rooms]
        share, rest = divmod(len(near), len(clients))
        own = near[share * index : share * (index + 1)]
        if index < rest:
            own.append(near[share * len(clients) + index])
        return own

    return allocate


def _room(broker_name: str) -> str | None:
    parts = broker_name.split("@")
    return parts[0] if len(parts) == 2 and parts[1] else None


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Strategy:
    """Return a strategy with a ring of MD5 hashes, so that few queues move when a client changes.

    Args:
        virtual_nodes: points on the ring for each client.

    Raises:
        UsageError: `virtual_nodes` is below 1.
    """
    if virtual_nodes < 1:
        raise UsageError(f"{virtual_nodes} virtual nodes make no ring; give 1 or more")

    def allocate(
        client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        if _index(client, clients) < 0:
            return []
        ring = {_ring_hash(f"{name}-{n}"): name for name in clients for n in range(virtual_nodes)}
        points = sorted(ring)
        return [queue for queue in queues if _owner(queue, ring, points) == client]

    return allocate


def _owner(queue: MessageQueue, ring: dict[int, str], points: list[int]) -> str:
    # The text is what upstream hashes for a queue, to the letter.
    text = (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )
    at = bisect_left(points, _ring_hash(text))
    return ring[points[at if at < len(points) else 0]]


def _ring_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _index(client: str, clients: Sequence[str]) -> int:
    return clients.index(client) if client in clients else -1


AVG: Literal["AVG"] = "AVG"
AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
CONSISTENT_HASH = "CONSISTENT_HASH"

STRATEGIES: dict[str, Strategy] = {
    AVG: average,
    AVG_BY_CIRCLE: by_circle,
    CONSISTENT_HASH: consistent_hash(),
}
"""The strategies without settings; a broker supports the first two."""
