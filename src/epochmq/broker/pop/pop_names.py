"""Names that POP uses: the revive topic, its group, retry topics of both generations."""

from epochmq.model import names

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
ORDER_QUEUE = 999
"""Stands in receipt handles for "no revive queue": an ordered pop has no check point."""

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Marks that say from which of a topic's three sources a message came."""


def revive_topic(cluster: str) -> str:
    return names.REVIVE_TOPIC_PREFIX + cluster


def retry_name(group: str, topic: str, mark: str) -> str:
    """The topic behind a mark. V1 cannot be split again, V2 can: `+` is in no name of a client."""
    if mark == NORMAL or names.is_retry_topic(topic):
        return topic
    return names.retry_topic(f"{group}{'_' if mark == RETRY_V1 else '+'}{topic}")


def mark_of(topic: str) -> str:
    """The mark of a topic by its name alone, as clients make it out."""
    if not names.is_retry_topic(topic):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def sources(group: str, topic: str) -> tuple[str, ...]:
    """Every topic that a pop of `topic` reads."""
    if names.is_retry_topic(topic):
        return (topic,)
    return (topic, retry_name(group, topic, RETRY_V1), retry_name(group, topic, RETRY_V2))
