"""What a broker writes on a message that it hands over to another group (RIP-32, ADR 0051).

`ESCAPE_ID` names the message by all it says: who hands the same one over again, because an answer
was lost or because it died before its progress was saved, gives the same name. A master of ours
takes the property off before it stores the message, so that no copy a client makes of it is taken
for a repeat. Two messages of one name have one UNIQ_KEY, one born time and one content.
"""

from collections.abc import Mapping
from hashlib import blake2b

from epochmq.model.property_names import TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, WAIT
from epochmq.model.sink_mark import SinkKey, SinkMark

ESCAPE_ID = "__ESCAPE_ID"
LENGTH_MAX = 255
_VOLATILE = frozenset({TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, WAIT})
"""Properties that say how a message was moved on and not what it is."""
PART = -1
"""No sink has such a part."""


def escape_id(broker: str, topic: str, properties: Mapping[str, str], *what: object) -> str:
    """The name of a message of group `broker`; `what` is all else of it that is stored."""
    digest = blake2b(digest_size=16)
    kept = sorted(pair for pair in properties.items() if pair[0] not in _VOLATILE)
    for piece in (topic, len(kept), *(text for pair in kept for text in pair), *what):
        data = piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "replace")
        digest.update(len(data).to_bytes(8) + data)
    return f"{broker}@{digest.hexdigest()}"


def escape_mark(text: str, topic: str) -> SinkMark | None:
    """The mark that repeats are told by; None for what no broker writes."""
    if not 0 < len(text) <= LENGTH_MAX:
        return None
    return SinkMark(SinkKey(text, PART, topic), 0, 0)
