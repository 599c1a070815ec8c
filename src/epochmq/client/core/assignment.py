"""Which queues this member owns: the difference between what it has and what it should have."""

from collections.abc import Sequence
from dataclasses import dataclass

from epochmq.model.allocate import Strategy
from epochmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class Change:
    """Queues to take and queues to give back, both sorted."""

    take: tuple[MessageQueue, ...]
    give: tuple[MessageQueue, ...]


def wanted(
    strategy: Strategy, queues: Sequence[MessageQueue], members: Sequence[str], own_id: str
) -> tuple[MessageQueue, ...]:
    """The share of `own_id`; every member sorts the same way, so shares never overlap.

    A member that the broker does not list yet owns nothing.
    """
    if own_id not in members:
        return ()
    return tuple(strategy(own_id, sorted(queues), sorted(members)))


def difference(owned: Sequence[MessageQueue], share: Sequence[MessageQueue]) -> Change:
    """What changes when `owned` becomes `share`."""
    before, after = set(owned), set(share)
    return Change(tuple(sorted(after - before)), tuple(sorted(before - after)))
