"""Topics that a new master has messages of but no configuration for.

Metadata is copied some time after it changed. What was acknowledged in between is in the log, so
the log has the last word: a topic with queues is a topic (rocketmq-helm#33).
"""

from epochmq.broker.broker_node import BrokerNode
from epochmq.model import names
from epochmq.model.topic import PERM_READ_WRITE


def recover_topics(node: BrokerNode, wall: int) -> list[str]:
    """Make what is missing, with as many queues as there are or the usual number; their names."""
    healed = []
    for topic in node.store.topics():
        queues = node.store.queues(topic)
        if topic in node.topics or not queues:
            continue
        count = queues[-1] + 1
        if not (names.is_retry_topic(topic) or names.is_dlq_topic(topic)):
            count = max(count, node.options.default_topic_queue_nums)
        node.topics.ensure(topic, count, PERM_READ_WRITE, wall)
        healed.append(topic)
    return healed
