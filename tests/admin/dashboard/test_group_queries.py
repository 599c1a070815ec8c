"""Which member is slow, and whose handlers are stuck."""

from epochmq.admin.dashboard.group_queries import STUCK_MS, lag_by_member, stuck_queues
from epochmq.admin.shared.group_figures import QueuePosition
from epochmq.model.topic import MessageQueue
from epochmq.wire.bodies.body import mq_map_encode
from epochmq.wire.bodies.runtime_bodies import ConsumerRunningInfo, ProcessQueueInfo

NOW = 1_000_000
QUEUE = MessageQueue("orders", "broker-a", 3)


def position(queue_id: int, lag: int, owner: str | None) -> QueuePosition:
    queue = MessageQueue("orders", "broker-a", queue_id)
    return QueuePosition(queue, 100 + lag, 100, 100, 0, owner)


def test_lag_by_member() -> None:
    positions = [
        position(0, 5, "a"),
        position(1, 1, "b"),
        position(2, 7, "a"),
        position(3, 9, None),
    ]
    assert lag_by_member(positions) == {"a": 12, "b": 1}
    assert lag_by_member([]) == {}


def info(cached: int, consumed_ago_ms: int | None) -> ConsumerRunningInfo:
    last = 0 if consumed_ago_ms is None else NOW - consumed_ago_ms
    state = ProcessQueueInfo(cached_msg_count=cached, last_consume_timestamp=last)
    return ConsumerRunningInfo(mq_table=mq_map_encode([(QUEUE, state)]))


def test_a_handler_with_messages_that_ends_none_is_stuck() -> None:
    assert stuck_queues(info(1, STUCK_MS), NOW) == ["orders broker-a:3"]
    assert stuck_queues(info(1, STUCK_MS - 1), NOW) == []
    assert stuck_queues(info(0, STUCK_MS), NOW) == []
    assert stuck_queues(info(1, None), NOW) == []
