"""Lists which properties a copy of a stored message takes over, and which it leaves out.

The sink uses it for rows that were read from a topic, the job `dlq` for letters that it resends.
"""

from epochmq.model import property_names as names
from epochmq.model.sink_mark import SINK_BATCH, SINK_ID, SINK_PART, SINK_SEQ

KEPT = frozenset(
    {
        names.KEYS,
        names.TAGS,
        names.SHARDING_KEY,
        names.BUYER_ID,
        names.INSTANCE_ID,
        names.CORRELATION_ID,
        names.REPLY_TO_CLIENT,
        names.TTL,
        names.TRACE_CONTEXT,
        names.ORIGIN_MESSAGE_ID,
        names.RETRY_TOPIC,
        names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID,
    }
)
"""Reserved property names that a copy may have; the others belong to one stored message."""

LEFT_OUT = (names.RESERVED - KEPT) | {SINK_ID, SINK_BATCH, SINK_PART, SINK_SEQ}
"""Properties that a copy does not have: the broker or the sink writes them for each message."""
