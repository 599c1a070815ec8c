"""What a broker writes on a message that it hands over to another group (RIP-32, ADR 0051).

`ESCAPE_ID` names the handing over: whoever hands over the same message again, because the answer
was lost, gives the same name. A master of ours takes the property off before it stores the message,
so that no copy a client makes of it is taken for a repeat.
"""

from epochmq.model.sink_mark import SinkKey, SinkMark

ESCAPE_ID = "__ESCAPE_ID"
LENGTH_MAX = 255
PART = -1
"""No sink has such a part."""


def escape_id(broker: str, broker_id: int, started_wall_ms: int, number: int) -> str:
    """The name of the `number`-th message that one life of a broker hands over."""
    return f"{broker}@{broker_id}@{started_wall_ms}@{number}"


def escape_mark(text: str, topic: str) -> SinkMark | None:
    """The mark that repeats are told by; None for what no broker writes."""
    if not 0 < len(text) <= LENGTH_MAX:
        return None
    return SinkMark(SinkKey(text, PART, topic), 0, 0)
