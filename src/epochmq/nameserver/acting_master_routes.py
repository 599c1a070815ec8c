"""Slave acting master (RIP-32), the name server's half: stand-ins in routes, and who is told.

A group without a master whose replicas allow it is shown with its smallest id as master, for
reading only; the write bit was taken from its topics when the master went.
"""

from dataclasses import dataclass

from epochmq.model.names import MEMBER_TOPIC_PREFIX
from epochmq.model.route import TopicRouteData
from epochmq.model.topic import is_writable
from epochmq.nameserver.registered_brokers import MASTER_ID, RegisteredGroup


@dataclass(frozen=True, slots=True)
class MinIdNotice:
    """To be sent one-way as NOTIFY_MIN_BROKER_ID_CHANGE (905) to each address in `to`."""

    to: tuple[str, ...]
    min_id: int
    min_addr: str
    offline_addr: str | None = None
    ha_addr: str | None = None


def stand_in(topic: str, route: TopicRouteData) -> None:
    """Show the smallest id as master in `route` where there is none and nothing can be written.

    Topics by which brokers ask for their fellow members keep the true ids.
    """
    if topic.startswith(MEMBER_TOPIC_PREFIX):
        return
    writable = {queues.broker_name for queues in route.queue_datas if is_writable(queues.perm)}
    for group in route.broker_datas:
        addrs = group.broker_addrs
        headless = addrs and MASTER_ID not in addrs
        if headless and group.enable_acting_master and group.broker_name not in writable:
            addrs[MASTER_ID] = addrs.pop(min(addrs))


def notice_of_arrival(group: RegisteredGroup, broker_id: int, ha_addr: str) -> MinIdNotice:
    """`broker_id` joined as the new smallest: all others hear of it, or itself when it is alone."""
    addr = group.addrs[broker_id]
    others = tuple(other for other in group.addrs.values() if other != addr)
    return MinIdNotice(others or (addr,), broker_id, addr, ha_addr=ha_addr)


def notice_of_leave(group: RegisteredGroup, offline_addr: str) -> MinIdNotice | None:
    """The smallest id left `group`: all that remain hear of it, if they may act at all."""
    smallest = group.min_id
    if smallest is None or not group.acting:
        return None
    return MinIdNotice(
        tuple(group.addrs.values()), smallest, group.addrs[smallest], offline_addr=offline_addr
    )
