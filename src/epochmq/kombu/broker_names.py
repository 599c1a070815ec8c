"""Names of topics and consumer groups for kombu's queues and exchanges."""

import re

from epochmq.base.errors import UsageError
from epochmq.base.limits import GROUP_LENGTH_MAX
from epochmq.model.names import TOOLS_GROUP

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
FANOUT = "kombu-fanout-"
"""Prefix of the topics of fanout exchanges."""


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02x}" for byte in found.group().encode("utf-8", "surrogatepass"))


def topic_of(queue: str) -> str:
    """Return the topic of a queue: its name, with each forbidden character percent-encoded.

    Raises:
        UsageError: the name is too long.
    """
    name = _FORBIDDEN.sub(_percent_encoded, queue)
    if not name or len(name) > GROUP_LENGTH_MAX:
        raise UsageError(
            f"queue {queue!r} needs a topic of {len(name)} characters; 1 to {GROUP_LENGTH_MAX} are"
            " allowed"
        )
    return name


def group_of(queue: str) -> str:
    """Return the consumer group of a queue; raises `UsageError` like `topic_of`."""
    name = topic_of(queue)
    return f"kombu-{name}" if name == TOOLS_GROUP else name


def fanout_topic_of(exchange: str) -> str:
    """Return the topic of a fanout exchange; raises `UsageError` like `topic_of`."""
    return topic_of(FANOUT + exchange)
