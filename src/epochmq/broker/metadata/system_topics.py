"""Topics that every broker has from its first start."""

from dataclasses import dataclass

from epochmq.model import names
from epochmq.model.topic import PERM_INHERIT, PERM_READ_WRITE, TopicConfig

_SCHEDULE_QUEUES = 18
_BENCHMARK_QUEUES = 1024
_DEFAULT_QUEUES = 16


@dataclass(frozen=True)
class Wishes:
    """What of the configuration decides which system topics exist, and how."""

    cluster: str
    broker: str
    auto_create: bool = True
    default_queues: int = 8
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: str | None = None
    revive_queues: int = 8
    timer: bool = False


def system_topics(wishes: Wishes) -> list[TopicConfig]:
    """All of them, in upstream's order."""
    cluster_perm = PERM_INHERIT | (PERM_READ_WRITE if wishes.cluster_topic else 0)
    broker_perm = PERM_INHERIT | (PERM_READ_WRITE if wishes.broker_topic else 0)
    rows = [
        (names.SELF_TEST_TOPIC, 1, PERM_READ_WRITE),
        (names.BENCHMARK_TOPIC, _BENCHMARK_QUEUES, PERM_READ_WRITE),
        (wishes.cluster, _DEFAULT_QUEUES, cluster_perm),
        (wishes.broker, 1, broker_perm),
        (names.OFFSET_MOVED_TOPIC, 1, PERM_READ_WRITE),
        (names.SCHEDULE_TOPIC, _SCHEDULE_QUEUES, PERM_READ_WRITE),
        (wishes.cluster + names.REPLY_TOPIC_SUFFIX, 1, PERM_READ_WRITE),
        (names.REVIVE_TOPIC_PREFIX + wishes.cluster, wishes.revive_queues, PERM_READ_WRITE),
        (names.MEMBER_TOPIC_PREFIX + wishes.broker, 1, PERM_INHERIT),
        (names.HALF_TOPIC, 1, PERM_READ_WRITE),
        (names.OP_HALF_TOPIC, 1, PERM_READ_WRITE),
        # Upstream makes this one with its first message; without it nobody could read them.
        (names.TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ_WRITE),
    ]
    if wishes.auto_create:
        rows.insert(1, (names.DEFAULT_TOPIC, wishes.default_queues, PERM_INHERIT | PERM_READ_WRITE))
    if wishes.trace_topic is not None:
        rows.append((wishes.trace_topic, 1, PERM_READ_WRITE))
    if wishes.timer:
        rows.append((names.TIMER_TOPIC, 1, PERM_READ_WRITE))
    return [_topic(*row) for row in rows]


def _topic(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
