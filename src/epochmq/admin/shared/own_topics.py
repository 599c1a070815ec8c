"""Tells the topics of the system from those of users."""

from typing import TYPE_CHECKING

from epochmq.model import names

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


async def own_names(admin: "Admin") -> set[str]:
    """Return the names of all clusters and brokers: each has a topic of its own name."""
    info = await admin.cluster_info()
    return set(info.cluster_addr_table) | set(info.broker_addr_table)


def is_own(topic: str, own: set[str]) -> bool:
    """Return whether a topic is the system's: retries, dead letters, templates.

    Args:
        topic: the topic.
        own: the result of `own_names`.
    """
    if topic in own or names.is_system_topic(topic):
        return True
    is_reply = topic.endswith(names.REPLY_TOPIC_SUFFIX)
    return is_reply or names.is_retry_topic(topic) or names.is_dlq_topic(topic)
